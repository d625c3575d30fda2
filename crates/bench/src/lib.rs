//! Every benchmark of the project, as ratios against a peer measured in the same run.
//!
//! Machines are shared and noisy, so a bare time means nothing: ours and the peer's runs alternate,
//! and what counts is the median of the ratios of neighbours. A [`Benchmark`] has a bar that its
//! ratio must reach; [`Report`] prints them and says whether all did.
//!
//! The folder `torch` beside `src` has the benchmarks of the PyTorch device, in Python.

pub mod allocations;
mod bare_ring;
mod buffer;
pub mod card;
mod compare;
pub mod copies;
pub mod kernels;
pub mod launches;
mod options;
mod peer;
pub mod plans;
mod report;

pub use buffer::Buffer;
pub use compare::{Bar, Benchmark, Effort, Outcome};
pub use options::Options;
pub use report::Report;
