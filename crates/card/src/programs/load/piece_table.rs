use spyre_artifact::{Instruction, MAX_DIMS, Operand, Program, Span};

use crate::programs::access::operand::{Piece, Tensor};
use crate::programs::schedule::tile_steps::TileSteps;
use crate::programs::schedule::tiles::{Tiles, dims};

/// Places of the elements that a small launch loads and stores.
///
/// Where every loop is one tile long, each instruction runs once, on pieces that are known when the
/// table is bound. They are counted from the start of their tensor: it may move.
#[derive(Debug, Default)]
pub(in crate::programs) struct PieceTable {
    /// Pieces of each instruction.
    pieces: Vec<Option<Vec<Piece>>>,
}

/// More pieces than this are found anew each time.
const MOST_PIECES: usize = 64;

impl PieceTable {
    pub(in crate::programs) fn of(
        program: &Program,
        extents: &[usize; MAX_DIMS],
        steps: &TileSteps,
        tensors: &[Option<Tensor>],
    ) -> Self {
        if !is_one_tile(program, extents, steps) {
            return Self::default();
        }
        let tiles = Tiles { starts: [0; MAX_DIMS], elements: *extents };
        let find = |instruction: &Instruction| match *instruction {
            Instruction::Load { target, source } => {
                pieces(tensors, source, &tiles, program.register(target).span)
            }
            Instruction::Store { target, .. } => {
                pieces(tensors, target, &tiles, program.operand(target).span)
            }
            _ => None,
        };
        Self { pieces: program.instructions().iter().map(find).collect() }
    }

    /// The pieces of the load or store at a place, if they are known.
    pub(in crate::programs) fn at(&self, at: usize) -> Option<&[Piece]> {
        self.pieces.get(at)?.as_deref()
    }
}

fn is_one_tile(program: &Program, extents: &[usize; MAX_DIMS], steps: &TileSteps) -> bool {
    program.instructions().iter().all(|instruction| match *instruction {
        Instruction::Begin { dim, tile, .. } => {
            let extent = extents[dim.index()];
            steps.elements(dim, tile, extent) == extent
        }
        _ => true,
    })
}

fn pieces(
    tensors: &[Option<Tensor>],
    operand: Operand,
    tiles: &Tiles,
    span: Span,
) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let tensor = tensors.get(operand.index())?.as_ref()?;
    let found = tensor.each_piece(tiles, dims(span), |piece| {
        if pieces.len() <= MOST_PIECES {
            pieces.push(piece);
        }
        Ok(())
    });
    (found.is_ok() && pieces.len() <= MOST_PIECES).then_some(pieces)
}
