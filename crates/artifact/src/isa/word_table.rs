//! The word table of an instance: each operand's words, the extents of dims, and scalars.

mod handle_words;
mod operand_words;
mod shape;

pub use handle_words::HandleWords;
pub use operand_words::{OPERAND_WORDS, OperandField, OperandWords};
pub use shape::{MAX_TABLE_WORDS, TableShape};
