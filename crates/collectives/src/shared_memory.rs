//! Memory that the ranks of one machine share: one segment per rank and group.

mod control_page;
mod futex;
mod segment;

pub(crate) use control_page::{ControlPage, MAX_LOCAL_RANKS, MAX_RANKS, RankState, SENT_ENTRIES};
pub(crate) use segment::{RankSegment, SLOT_BYTES, STAGED_SEND_BYTES};
