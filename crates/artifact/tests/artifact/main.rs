//! The crate through its public face: round trips, texts, bytes, refusals, hostile input, folders.

mod bytes;
mod golden;
mod hostile;
mod plans;
mod random;
mod refusals;
mod round_trips;
mod samples;
mod spyrecode;
