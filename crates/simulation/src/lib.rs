//! The real runtime under a seeded card, a virtual clock and a sequential oracle.
//!
//! Above `flex`. A run is one thread: a driver makes random calls of allocators, streams, events
//! and composed lists; a simulated card ends blocks in random order and lets some of them fail,
//! hang or take the device with them; time passes when the driver waits. A plain model of streams,
//! memory and faults says what every call must return, and objects at the first that does not.
//! Everything follows from a seed, so that what was found once is found again.
//!
//! ```
//! use spyre_simulation::{Settings, simulate};
//!
//! let run = simulate(&Settings::of_seed(1, 1000))?;
//! println!("{}", run.report);
//! # Ok::<(), Box<spyre_simulation::Violation>>(())
//! ```
//!
#![doc = include_str!("../DESIGN.md")]

mod card;
mod driver;
mod env;
mod external;
mod fault_plan;
mod identity;
mod log;
mod memory;
mod oracle;
mod random;
mod report;
mod settings;
mod simulation;
mod violation;
mod world;

pub use fault_plan::FaultPlan;
pub use report::Report;
pub use settings::{Sabotage, Settings};
pub use simulation::{Run, simulate};
pub use violation::{Promise, Violation};
