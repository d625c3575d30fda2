//! What was allocated and freed, for those who ask.

use crate::cards::Card;

pub(crate) fn note_allocation(_: &Card, _: u64, _: u64, _: u64) {}
pub(crate) fn note_free(_: &Card, _: u64, _: u64) {}
pub(crate) fn note_out_of_memory(_: &Card, _: u64) {}
