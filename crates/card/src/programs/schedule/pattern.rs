//! Patterns in which programs go over memory, for the model of a real card.

use spyre_artifact::cost::{Batch, Pattern};
use spyre_artifact::{Dim, Instruction, MAX_DIMS, Program, Span};

use crate::programs::access::operand::Tensor;

/// Summary of a program's instructions.
#[derive(Default)]
struct Seen {
    written: Span,
    reduced: Span,
    /// Dims of both sides of a product that are not summed over; and dims of the left side only.
    shared: Span,
    left: Span,
    is_product: bool,
    computes: bool,
}

/// The extents of the program's dims.
type Extents = [usize; MAX_DIMS];

pub(in crate::programs) fn of(
    program: &Program,
    extents: &Extents,
    tensors: &[Option<Tensor>],
) -> Pattern {
    let seen = Seen::new(program);
    if seen.is_product {
        return Pattern::Product(seen.batch(extents));
    }
    let [from, to] = [false, true].map(|is_written| stick(program, tensors, is_written));
    if !seen.reduced.is_empty() {
        return seen.reduction(from, extents);
    }
    if seen.computes {
        Pattern::Pointwise
    } else if from != to && from.is_some_and(|from| seen.written.contains(from)) {
        Pattern::Restickify
    } else {
        let columns = to.map_or(1, |dim| extents[dim.index()] as u64);
        Pattern::Copy { rows: places(seen.written, extents) / columns.max(1), columns }
    }
}

impl Seen {
    fn new(program: &Program) -> Self {
        let mut seen = Self::default();
        let span = |register| program.register(register).span;
        for &instruction in program.instructions() {
            match instruction {
                Instruction::Store { target, .. } => {
                    seen.written = seen.written | program.operand(target).span;
                }
                Instruction::Reduce { target, source, .. } => {
                    seen.reduced = seen.reduced | minus(span(source), span(target));
                }
                Instruction::Dot { target, left, right, .. } => {
                    let sides = [left, right].map(|side| program.operand(side).span);
                    seen.multiply(sides, span(target));
                }
                Instruction::Multiply { target, left, right } => {
                    seen.multiply([left, right].map(span), span(target));
                }
                Instruction::Scan { dim, .. }
                | Instruction::Seek { dim, .. }
                | Instruction::Order { dim, .. } => seen.reduced = seen.reduced.with(dim),
                Instruction::Begin { .. }
                | Instruction::End
                | Instruction::SkipUnless { .. }
                | Instruction::SkipUnlessAny { .. }
                | Instruction::Load { .. }
                | Instruction::Constant { .. }
                | Instruction::Scalar { .. }
                | Instruction::Convert { .. }
                | Instruction::Round { .. } => {}
                _ => seen.computes = true,
            }
        }
        seen
    }

    fn multiply(&mut self, [left, right]: [Span; 2], target: Span) {
        let over = minus(minus(left, minus(left, right)), target);
        let [left, right] = [left, right].map(|side| minus(side, over));
        self.is_product = true;
        self.left = self.left | minus(left, right);
        self.shared = self.shared | minus(left, minus(left, right));
    }

    fn batch(&self, extents: &Extents) -> Batch {
        let own = self.left.dims().count();
        match places(self.shared, extents) {
            0 | 1 if own < 2 => Batch::One,
            0 | 1 => {
                Batch::Left(self.left.dims().next().map_or(1, |dim| extents[dim.index()] as u64))
            }
            _ => Batch::Both,
        }
    }

    fn reduction(&self, stick: Option<Dim>, extents: &Extents) -> Pattern {
        if minus(self.reduced, self.written) != self.reduced {
            return Pattern::Fused;
        }
        let elements = stick.map_or(1, |dim| extents[dim.index()] as u64);
        let sticks = elements.div_ceil(64);
        if stick.is_none_or(|dim| self.reduced.contains(dim)) {
            Pattern::RowReduction { rows: places(self.written, extents), sticks }
        } else {
            Pattern::ColumnReduction { rows: places(self.reduced, extents), sticks }
        }
    }
}

/// The dim along which the sticks of the largest tensor run that is written, or only read.
fn stick(program: &Program, tensors: &[Option<Tensor>], is_written: bool) -> Option<Dim> {
    let of = tensors.iter().flatten().filter(|tensor| tensor.is_written() == is_written);
    let of = of.map(|tensor| (tensor, program.operands()[tensor.operand()].span));
    let (tensor, span) = of.max_by_key(|(_, span)| span.dims().count())?;
    tensor.stick_dim(span)
}

fn places(span: Span, extents: &Extents) -> u64 {
    span.dims().fold(1, |all: u64, dim| all.saturating_mul(extents[dim.index()] as u64))
}

fn minus(span: Span, other: Span) -> Span {
    other.dims().fold(span, Span::without)
}
