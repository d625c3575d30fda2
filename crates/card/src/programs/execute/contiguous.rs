//! Programs that go element by element, over large tensors that all lie alike and have no padding:
//! they are run in the order of memory, whatever the dims are.

use spyre_artifact::{Instruction, MAX_DIMS, Program, Span};

use crate::programs::access::operand::Tensor;
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;
use crate::programs::strips::plan::BlockPlan;

/// Fewer elements than this are found by tiles.
const LEAST_ELEMENTS: usize = 64 << 10;
/// Elements that a thread takes at a time.
const PART: usize = 64 << 10;

/// Elements that a register holds at a time: all registers of a program stay in the L1 cache, and what is stored past
/// it comes in short bursts.
const CHUNK: usize = 1024;

/// The loops of such a program, and the elements of each tensor.
#[derive(Clone, Copy, Debug)]
pub(in crate::programs) struct Flat {
    loops: usize,
    elements: usize,
}

impl Flat {
    pub(in crate::programs) fn of(
        program: &Program,
        extents: &[usize; MAX_DIMS],
        tensors: &[Option<Tensor>],
    ) -> Option<Self> {
        let (loops, dims) = loops(program)?;
        let elements: usize = dims.dims().map(|dim| extents[dim.index()]).product();
        let spans = program.operands().iter().map(|operand| operand.span);
        let all_alike = || {
            let first = tensors.first()?.as_ref()?;
            let mut others = tensors.iter().map(|tensor| tensor.as_ref());
            others.all(|other| other.is_some_and(|other| other.lies_like(first))).then_some(first)
        };
        if elements < LEAST_ELEMENTS || !spans.clone().all(|span| span == dims) {
            return None;
        }
        let is_full = all_alike()?.fills(dims, extents, elements);
        is_full.then_some(Self { loops, elements })
    }
}

/// Number of parallel loops around all else, and their dims; `None` if an instruction depends on where an
/// element is.
fn loops(program: &Program) -> Option<(usize, Span)> {
    let instructions = program.instructions();
    let is_begin = |instruction: &&Instruction| {
        matches!(instruction, Instruction::Begin { is_parallel: true, .. })
    };
    let loops = instructions.iter().take_while(is_begin).count();
    let dims = instructions[..loops].iter().fold(Span::NONE, |dims, begin| match *begin {
        Instruction::Begin { dim, .. } => dims.with(dim),
        _ => dims,
    });
    let body = instructions.get(loops..instructions.len().checked_sub(loops)?)?;
    let whole = |span: Span| span == dims || span.is_empty();
    let is_flat = body.iter().all(is_elementwise)
        && program.registers().iter().all(|register| whole(register.span));
    (loops > 0 && is_flat).then_some((loops, dims))
}

fn is_elementwise(instruction: &Instruction) -> bool {
    matches!(
        instruction,
        Instruction::Load { .. }
            | Instruction::Store { .. }
            | Instruction::Constant { .. }
            | Instruction::Scalar { .. }
            | Instruction::Extent { .. }
            | Instruction::Unary { .. }
            | Instruction::Binary { .. }
            | Instruction::Compare { .. }
            | Instruction::Select { .. }
            | Instruction::Convert { .. }
            | Instruction::Round { .. }
    )
}

impl Machine<'_> {
    /// Runs all of it, in the order of memory.
    pub(in crate::programs) fn run_flat(&self, flat: Flat) -> Result<(), Stop> {
        let Flat { loops, elements } = flat;
        let instructions = self.code.program().instructions();
        let body = loops..instructions.len() - loops;
        let last = match instructions[loops - 1] {
            Instruction::Begin { dim, .. } => dim.index(),
            _ => return Err(Stop::refused("it has no loop")),
        };
        let is_streaming = self.code.block_at(loops).is_some_and(BlockPlan::is_streaming);
        let chunk = if is_streaming { PART } else { CHUNK };
        self.share_parts(elements.div_ceil(PART), &|machine, nth| {
            machine.tiles.elements = [1; MAX_DIMS];
            let end = elements.min((nth + 1) * PART);
            for first in (nth * PART..end).step_by(chunk) {
                machine.tiles.elements[last] = chunk.min(end - first);
                machine.flat = Some(first);
                machine.run_body(body.clone())?;
            }
            Ok(())
        })
    }
}
