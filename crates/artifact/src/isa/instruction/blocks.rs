use std::ops::Range;

use super::Instruction;

impl Instruction {
    /// Stretches of a program that run from their first instruction to the last, without a way in or out
    /// in between; loops and skips stand between them.
    ///
    /// ```
    /// use spyre_artifact::{Constant, Instruction, Register, ScalarWord};
    ///
    /// let fill = |at| Instruction::Constant { target: Register(at), value: Constant::Int(0) };
    /// let skip = Instruction::SkipUnless { scalar: ScalarWord(0), instructions: 1 };
    /// let program = [fill(0), fill(1), skip, fill(2), fill(3), fill(4)];
    /// assert_eq!(Instruction::blocks(&program), [0..2, 3..4, 4..6]);
    /// ```
    pub fn blocks(program: &[Self]) -> Vec<Range<usize>> {
        let mut blocks = Vec::new();
        let mut start = 0;
        let mut landings = Vec::new();
        for (at, instruction) in program.iter().enumerate() {
            let lands = landings.contains(&at);
            if (lands || instruction.is_border()) && start < at {
                blocks.push(start..at);
                start = at;
            }
            if instruction.is_border() {
                start = at + 1;
            }
            if let Self::SkipUnless { instructions, .. }
            | Self::SkipUnlessAny { instructions, .. } = instruction
            {
                landings.push(at + 1 + *instructions as usize);
            }
            landings.retain(|&landing| landing > at);
        }
        if start < program.len() {
            blocks.push(start..program.len());
        }
        blocks
    }

    /// Returns true if it begins or ends a loop, or skips.
    pub fn is_border(&self) -> bool {
        matches!(
            self,
            Self::Begin { .. } | Self::End | Self::SkipUnless { .. } | Self::SkipUnlessAny { .. }
        )
    }
}
