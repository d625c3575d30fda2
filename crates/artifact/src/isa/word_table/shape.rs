use super::{OPERAND_WORDS, OperandField};
use crate::isa::{Dim, MAX_DIMS, MAX_OPERANDS, MAX_SCALARS, Operand, ScalarWord};

/// The most words of a table.
pub const MAX_TABLE_WORDS: usize = MAX_OPERANDS * OPERAND_WORDS + MAX_DIMS + MAX_SCALARS;

/// Shape of an instance's word table: each operand's words, then the extents of all 16 dims, then
/// scalars.
///
/// ```
/// use spyre_artifact::{Dim, Operand, OperandField, ScalarWord, TableShape};
///
/// let shape = TableShape { operands: 3, scalars: 2 };
/// assert_eq!(shape.operand_word(Operand(1), OperandField::LimitBytes), 26 + 3);
/// assert_eq!(shape.extent_word(Dim(0)), 3 * 26);
/// assert_eq!(shape.scalar_word(ScalarWord(1)), 3 * 26 + 16 + 1);
/// assert_eq!(shape.words(), 3 * 26 + 16 + 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableShape {
    /// Number of tensors.
    pub operands: usize,
    /// Number of patched words besides addresses and extents.
    pub scalars: usize,
}

impl TableShape {
    /// Words of the whole table.
    pub fn words(self) -> usize {
        self.operands * OPERAND_WORDS + MAX_DIMS + self.scalars
    }

    /// Bytes of the whole table.
    pub fn bytes(self) -> usize {
        self.words() * size_of::<u64>()
    }

    /// The words of one operand.
    pub fn operand_words(self, operand: Operand) -> std::ops::Range<usize> {
        let start = operand.index() * OPERAND_WORDS;
        start..start + OPERAND_WORDS
    }

    /// One word of one operand.
    pub fn operand_word(self, operand: Operand, field: OperandField) -> usize {
        operand.index() * OPERAND_WORDS + field.word()
    }

    /// The extent of a dim, in elements.
    pub fn extent_word(self, dim: Dim) -> usize {
        self.operands * OPERAND_WORDS + dim.index()
    }

    /// A scalar.
    pub fn scalar_word(self, scalar: ScalarWord) -> usize {
        self.operands * OPERAND_WORDS + MAX_DIMS + scalar.index()
    }
}
