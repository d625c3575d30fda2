//! Time that work would take on a real card: a function of its sizes alone.
//!
//! Kernels follow a model that was fitted to measured ones; it says how far off it is for each kind of
//! kernel. Time is that of the products or of device memory, whichever is longer, and that of the ring
//! between the cores. Where a front end would choose, such as how rows are divided among cores, the
//! model takes its usual choice. Transfers, collectives and launches are an assumption: no one has published them. A
//! [`CostBreakdown`] keeps the two kinds apart.
//!
//! ```
//! use spyre_artifact::cost::{Pattern, Work};
//!
//! // softmax of 4096 x 2048 half-precision numbers
//! let bytes = 4096 * 2048 * 2;
//! let pattern = Pattern::Fused;
//! let work = Work { read_bytes: bytes, written_bytes: bytes, pattern, ..Work::default() };
//! assert_eq!(format!("{:.1}", work.time().total() / 1000.0), "320.0"); // us
//! assert_eq!(pattern.error().to_string(), "+-21 %");
//! ```

mod breakdown;
mod collectives;
mod error_band;
mod pattern;
mod transfers;
mod work;

pub use breakdown::CostBreakdown;
pub use collectives::{Exchange, collective};
pub use error_band::ErrorBand;
pub use pattern::{Batch, Pattern};
pub use transfers::{ASSUMPTIONS, copy, fill, launch, transfer};
pub use work::{CardTime, Work};

/// Cores of a card.
const CORES: u64 = 32;
/// Device memory, one way: bytes per nanosecond.
const MEMORY_RATE: f64 = 150.0;

/// Rounded up. Without a call: not every x86-64 has an instruction for `ceil`.
fn whole(nanoseconds: f64) -> u64 {
    let down = nanoseconds as u64;
    down + u64::from(down as f64 != nanoseconds)
}
