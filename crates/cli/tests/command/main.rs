//! The `spyre` command, as a person runs it.

mod bed;
mod bench;
mod bundle;
mod cache;
mod compile;
mod docs;
mod hostile;
mod info;
mod inspect;
mod plan;
mod run;
mod trace;
