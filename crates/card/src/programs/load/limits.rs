//! Limits of a launch, checked before it starts: its code and its table are data.

use spyre_artifact::{Instruction, MAX_DIMS, Program, RegisterType, Span, Tile};

use crate::programs::schedule::stop::Stop;

/// The most that elements times instructions may come to, unless a card says otherwise.
pub(in crate::programs) const MOST_WORK: u64 = 1 << 44;
/// Bytes that all tile buffers together may take, whatever a launch works on.
const TILE_BYTES: u128 = 256 << 20;
/// Bytes of tile buffers for each byte that a launch works on: a sort of a whole tensor has it in its tiles.
const TILE_SHARE: u128 = 4;
/// The widest element of a lane.
const LANE_BYTES: u128 = 8;

/// Refuses extents that would take forever.
pub(in crate::programs) fn check_work(
    program: &Program,
    extents: &[usize; MAX_DIMS],
    most_work: u64,
) -> Result<(), Stop> {
    let dims = &extents[..program.dims()];
    let walked =
        program.instructions().iter().fold(Span::NONE, |walked, instruction| match *instruction {
            Instruction::Begin { dim, .. } => walked.with(dim),
            _ => walked,
        });
    let steps = program.instructions().iter().map(steps).sum();
    let work = walked
        .dims()
        .fold(steps, |work: u128, dim| work.saturating_mul(extents[dim.index()].max(1) as u128));
    if work > most_work.into() {
        return Err(Stop::refused(format!("extents {dims:?} are too many elements to walk over")));
    }
    Ok(())
}

/// Refuses extents whose tiles would take more memory than a launch on `memory_bytes` may have.
pub(in crate::programs) fn check_tiles(
    program: &Program,
    extents: &[usize; MAX_DIMS],
    memory_bytes: u64,
) -> Result<(), Stop> {
    let longest = longest_tiles(program, extents);
    let bytes = |span: Span, element: u128| {
        span.dims().fold(element, |bytes, dim| bytes.saturating_mul(longest[dim.index()]))
    };
    let of_register = |&RegisterType { lane, span }| bytes(span, lane.element_bytes() as u128);
    let registers: u128 = program.registers().iter().map(of_register).sum();
    let operands = program.operands().iter().map(|operand| bytes(operand.span, LANE_BYTES)).max();
    let needed = registers.max(operands.unwrap_or(0));
    let most = TILE_BYTES.max(TILE_SHARE * u128::from(memory_bytes));
    if needed <= most {
        return Ok(());
    }
    Err(Stop::refused(format!("its tiles take up to {needed} bytes, at most {most} are there")))
}

/// Cost of an instruction for one element, roughly, in additions.
fn steps(instruction: &Instruction) -> u128 {
    match instruction {
        Instruction::Order { .. } => 64,
        Instruction::Random { .. } => 8,
        _ => 1,
    }
}

/// The longest tile of each dim, over all loops that open it.
fn longest_tiles(program: &Program, extents: &[usize; MAX_DIMS]) -> [u128; MAX_DIMS] {
    let mut longest = [1; MAX_DIMS];
    for instruction in program.instructions() {
        if let Instruction::Begin { dim, tile, .. } = *instruction {
            let extent = extents[dim.index()];
            let elements = tile_elements(tile, extent) as u128;
            longest[dim.index()] = longest[dim.index()].max(elements);
        }
    }
    longest
}

/// Elements of a dim's first tile.
pub(in crate::programs) fn tile_elements(tile: Tile, extent: usize) -> usize {
    match tile {
        Tile::All => extent,
        Tile::Of(elements) => extent.min(elements.get() as usize),
    }
}
