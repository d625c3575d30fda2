use spyre_artifact::{Dim, Instruction, MAX_DIMS, Operand, Program, Span};

use crate::model::Traffic;
use crate::programs::access::operand::Tensor;
use crate::programs::load::code::LoadedCode;
use crate::programs::load::limits::tile_elements;

/// Bytes and products of a launch, by its extents and layouts, without running it.
pub(in crate::programs) fn of(
    code: &LoadedCode,
    extents: &[usize; MAX_DIMS],
    tensors: &[Option<Tensor>],
    scalar: impl Fn(spyre_artifact::ScalarWord) -> u64,
) -> Traffic {
    let program = code.program();
    let mut read = 0_u32;
    let mut written = 0_u32;
    let mut products = 0_u64;
    let mut open = Vec::new();
    let mut at = 0;
    // Bytes at coordinates that registers hold: read, and written.
    let mut picked = [0_u64; 2];
    while let Some(&instruction) = program.instructions().get(at) {
        at += 1;
        match instruction {
            Instruction::Begin { dim, .. } if extents[dim.index()] == 0 => {
                at = code.end_of(at - 1) + 1;
            }
            Instruction::Begin { dim, tile, .. } => {
                let extent = extents[dim.index()];
                open.push((dim, extent.div_ceil(tile_elements(tile, extent))));
            }
            Instruction::End => _ = open.pop(),
            Instruction::SkipUnless { scalar: word, instructions } if scalar(word) == 0 => {
                at += instructions as usize;
            }
            Instruction::Load { source, .. } => read |= bit(source),
            Instruction::Store { target, .. } => written |= bit(target),
            Instruction::Gather { target, source, .. } => {
                let span = program.register(target).span;
                let places = repeated(span, extents, &open);
                let bytes = some_bytes(program, tensors, extents, source, places);
                picked[0] = picked[0].saturating_add(bytes);
            }
            Instruction::Scatter { op, target, source, .. } => {
                let span = program.register(source).span;
                let places = repeated(span, extents, &open);
                let bytes = some_bytes(program, tensors, extents, target, places);
                picked[1] = picked[1].saturating_add(bytes);
                if op.step().is_some() {
                    picked[0] = picked[0].saturating_add(bytes);
                }
            }
            Instruction::Dot { left, right, .. } => {
                read |= bit(left) | bit(right);
                let span = program.operand(left).span | program.operand(right).span;
                products = products.saturating_add(repeated(span, extents, &open));
            }
            Instruction::Multiply { left, right, .. } => {
                let span = program.register(left).span | program.register(right).span;
                products = products.saturating_add(repeated(span, extents, &open));
            }
            _ => {}
        }
    }
    let bytes = |chosen: u32| sum(program, tensors, extents, chosen);
    let read_bytes = bytes(read).saturating_add(picked[0]);
    let written_bytes = bytes(written).saturating_add(picked[1]);
    Traffic { read_bytes, written_bytes, products }
}

/// The bytes of so many elements, or of the whole tensor if that is less: the rest is in LX by then.
fn some_bytes(
    program: &Program,
    tensors: &[Option<Tensor>],
    extents: &[usize; MAX_DIMS],
    operand: Operand,
    elements: u64,
) -> u64 {
    let Some(tensor) = &tensors[operand.index()] else { return 0 };
    let whole = tensor.stick_bytes(program.operand(operand).span, extents);
    elements.saturating_mul(tensor.element_bytes() as u64).min(whole)
}

/// Elements over a span, as often as loops over other dims repeat them.
fn repeated(span: Span, extents: &[usize; MAX_DIMS], open: &[(Dim, usize)]) -> u64 {
    open.iter().fold(1_u64, |all, &(dim, tiles)| {
        let times = if span.contains(dim) { extents[dim.index()] } else { tiles };
        all.saturating_mul(times as u64)
    })
}

fn sum(
    program: &Program,
    tensors: &[Option<Tensor>],
    extents: &[usize; MAX_DIMS],
    chosen: u32,
) -> u64 {
    let pairs = program.operands().iter().zip(tensors).enumerate();
    let chosen = pairs.filter(|(at, _)| chosen & (1 << at) != 0);
    chosen
        .filter_map(|(_, (of, tensor))| Some(tensor.as_ref()?.stick_bytes(of.span, extents)))
        .fold(0, u64::saturating_add)
}

fn bit(operand: Operand) -> u32 {
    1 << operand.index()
}
