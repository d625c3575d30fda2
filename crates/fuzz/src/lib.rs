//! Hostile input, millions of times: plans, images, word tables and launches, each from a seed.
//!
//! Above `runtime` and `card`: what a stranger can hand to them is made up here, at random and by
//! small damage to what is good. Whatever it is, it must be refused, run, or fault its stream:
//! without a panic, a crash, a hang, memory out of proportion, or a changed byte of device memory
//! that was not given. An input follows from its seed, so that what was found once is found again.
//!
//! ```
//! use spyre_fuzz::{Kind, fuzz};
//!
//! let report = fuzz(Kind::Manifests, 1, 100)?;
//! assert_eq!(report.inputs(), 100);
//! # Ok::<(), Box<spyre_fuzz::Violation>>(())
//! ```
//!
#![doc = include_str!("../DESIGN.md")]

mod attack;
mod bed;
mod bytes;
mod campaign;
mod images;
mod json;
mod kind;
mod launches;
mod manifests;
mod memory;
mod plans;
#[path = "../../artifact/tests/artifact/random.rs"]
mod programs;
mod random;
mod report;
mod samples;
mod watch;
mod words;

pub use campaign::{Campaign, Findings, Violation, fuzz};
pub use kind::Kind;
pub use memory::Counting;
pub use report::{Report, Tally};
