//! Memory that the ranks of one machine share: one segment per rank and group.

mod control_page;
mod doorbell;
#[cfg_attr(test, allow(dead_code, reason = "models have their own sleep"))]
mod futex;
mod segment;
mod sync;

pub(crate) use control_page::{ControlPage, MAX_LOCAL_RANKS, MAX_RANKS, RankState, SENT_ENTRIES};
pub(crate) use doorbell::Doorbell;
pub(crate) use segment::{RankSegment, SLOT_BYTES, STAGED_SEND_BYTES};
