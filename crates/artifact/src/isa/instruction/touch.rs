use super::{Instruction, Register};

/// Access of an instruction to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Touch {
    /// Reads it.
    Read,
    /// Replaces what it holds.
    Write,
    /// Combines something with what it holds.
    Update,
}

impl Instruction {
    /// Calls `act` with every register that it names, to look at or to rename.
    pub fn touch_registers(&mut self, mut act: impl FnMut(Touch, &mut Register)) {
        match self {
            Self::Begin { .. } | Self::End | Self::SkipUnless { .. } | Self::Patch { .. } => {}
            Self::Load { target, .. }
            | Self::Constant { target, .. }
            | Self::Scalar { target, .. }
            | Self::Index { target, .. }
            | Self::Extent { target, .. } => act(Touch::Write, target),
            Self::Store { source, .. } | Self::SkipUnlessAny { condition: source, .. } => {
                act(Touch::Read, source);
            }
            Self::Gather { target, at, keeps_outside, .. } => {
                at.rename(|register| act(Touch::Read, register));
                act(if *keeps_outside { Touch::Update } else { Touch::Write }, target);
            }
            Self::Scatter { source, at, mask, .. } => {
                at.rename(|register| act(Touch::Read, register));
                [Some(source), mask.as_mut()].into_iter().flatten().for_each(|register| {
                    act(Touch::Read, register);
                });
            }
            Self::Unary { target, source, .. }
            | Self::Convert { target, source }
            | Self::Round { target, source, .. } => {
                act(Touch::Read, source);
                act(Touch::Write, target);
            }
            Self::Binary { target, left, right, .. }
            | Self::Compare { target, left, right, .. } => {
                [left, right].into_iter().for_each(|source| act(Touch::Read, source));
                act(Touch::Write, target);
            }
            Self::Select { target, condition, yes, no } => {
                [condition, yes, no].into_iter().for_each(|source| act(Touch::Read, source));
                act(Touch::Write, target);
            }
            Self::Random { target, seed, offset, index, .. } => {
                [seed, offset, index].into_iter().for_each(|source| act(Touch::Read, source));
                act(Touch::Write, target);
            }
            Self::Scan { target, source, carry, .. } => {
                act(Touch::Read, source);
                act(Touch::Update, carry);
                act(Touch::Write, target);
            }
            Self::Seek { value, place, source, .. } => {
                act(Touch::Read, source);
                [value, place].into_iter().for_each(|held| act(Touch::Update, held));
            }
            Self::Order { places, values, source, .. } => {
                act(Touch::Read, source);
                [places, values].into_iter().for_each(|target| act(Touch::Write, target));
            }
            Self::Reduce { target, source, .. } => {
                act(Touch::Read, source);
                act(Touch::Update, target);
            }
            Self::Dot { target, .. } => act(Touch::Update, target),
            Self::Multiply { target, left, right } => {
                [left, right].into_iter().for_each(|source| act(Touch::Read, source));
                act(Touch::Update, target);
            }
        }
    }

    /// Returns true if its target may be one of its sources: each element is computed from those in
    /// its place.
    pub fn may_work_in_place(&self) -> bool {
        matches!(
            self,
            Self::Random { .. }
                | Self::Unary { .. }
                | Self::Binary { .. }
                | Self::Compare { .. }
                | Self::Select { .. }
                | Self::Convert { .. }
                | Self::Round { .. }
        )
    }
}
