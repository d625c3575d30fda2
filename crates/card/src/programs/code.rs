use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use spyre_artifact::{CodeImage, Instruction, Program};
use spyre_hal::{DeviceHandle, Location};

use super::{Stop, compute_program};

/// Code that was decoded and verified, by where it lies.
///
/// It is used again only if the bytes there are still the same, all of them: a comparison costs
/// less than a decoding, and notices every way in which code can change, be freed or be replaced.
#[derive(Default)]
pub(crate) struct Programs {
    known: Mutex<HashMap<Location, Arc<LoadedCode>>>,
}

/// A verified program, and what is looked up while it runs.
#[derive(Debug)]
pub(super) struct LoadedCode {
    image: Vec<u8>,
    program: Program,
    /// For each `Begin`, the place of its `End`.
    ends: Vec<usize>,
}

/// How many programs are kept; when there are more, all are forgotten.
const MOST_PROGRAMS: usize = 256;
/// Larger images are decoded anew each time.
const MOST_KEPT_BYTES: usize = 1 << 20;

impl Programs {
    /// The compute program in the image that was just read from `place`.
    pub(super) fn at(&self, place: DeviceHandle, image: Vec<u8>) -> Result<Arc<LoadedCode>, Stop> {
        let place = place.location();
        if let Some(code) = self.known.lock().get(&place)
            && code.image == image
        {
            return Ok(Arc::clone(code));
        }
        let code = Arc::new(LoadedCode::new(image)?);
        if code.image.len() <= MOST_KEPT_BYTES {
            let mut known = self.known.lock();
            if known.len() >= MOST_PROGRAMS {
                known.clear();
            }
            known.insert(place, Arc::clone(&code));
        }
        Ok(code)
    }
}

/// Says nothing of places.
impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Programs({} kept)", self.known.lock().len())
    }
}

impl LoadedCode {
    fn new(image: Vec<u8>) -> Result<Self, Stop> {
        let program = compute_program(CodeImage::decode(&image)?.code())?.clone();
        let ends = ends(program.instructions());
        Ok(Self { image, program, ends })
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    /// Where the loop that begins here ends.
    pub(super) fn end_of(&self, begin: usize) -> usize {
        self.ends[begin]
    }
}

fn ends(instructions: &[Instruction]) -> Vec<usize> {
    let (mut ends, mut open) = (vec![0; instructions.len()], Vec::new());
    for (at, instruction) in instructions.iter().enumerate() {
        match instruction {
            Instruction::Begin { .. } => open.push(at),
            Instruction::End => ends[open.pop().unwrap_or(at)] = at,
            _ => {}
        }
    }
    ends
}
