use spyre_artifact::{BinaryOp, Instruction, Register};

/// Links of one pass.
pub(in crate::programs) const MOST_LINKS: usize = 3;

/// Operation on the number in place and another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) enum LinkOp {
    Plus,
    Minus,
    Times,
}

impl LinkOp {
    /// An instruction as a link: where, and with which other register.
    pub(in crate::programs) fn of(instruction: &Instruction) -> Option<(Register, Self, Register)> {
        let &Instruction::Binary { op, target, left, right } = instruction else { return None };
        let op = match op {
            BinaryOp::Add => Self::Plus,
            BinaryOp::Sub => Self::Minus,
            BinaryOp::Mul => Self::Times,
            _ => return None,
        };
        if left == right {
            None
        } else if target == left {
            Some((target, op, right))
        } else if target == right && op != Self::Minus {
            Some((target, op, left))
        } else {
            None
        }
    }
}
