//! The copy engine: blocks that move bytes.

use std::sync::Arc;

use parking_lot::Mutex;
use spyre_artifact::cost;
use spyre_hal::{
    CopyDevice, CopyFromDevice, CopyPeer, CopyToDevice, DeviceRange, Fault, Outcome, Pattern,
};
use spyre_layout::{Crew, DmaNest, Error, STREAM_BYTES};

use crate::abortable_crew::AbortableCrew;
use crate::memory::{Way, Window};
use crate::work::Work;

/// Bytes that go to another card at a time, by way of a buffer that stays in the cache.
const PEER_BYTES: usize = 256 << 10;

impl Work<'_> {
    /// Copies from the host, and returns the modelled nanoseconds on a real card.
    pub(crate) fn copy_to_device(&self, copy: &CopyToDevice) -> Result<u64, Fault> {
        let source = copy.source.bytes();
        match &copy.nest {
            None => self.load(copy.target, source.get(..length(copy.target)).unwrap_or(source)),
            Some(nest) => self.noted(copy.target, || {
                let target = self.memory.window(copy.target)?;
                self.run(nest, |crew| target.gather(nest, source, crew))
            }),
        }
    }

    /// Writes as many bytes to a range, which may hold programs. What it takes on a real card comes back.
    pub(crate) fn load(&self, target: DeviceRange, source: &[u8]) -> Result<u64, Fault> {
        self.noted(target, || self.write(target, source))
    }

    /// Has what was decoded from a range forgotten, before and after it is written. A write to programs is
    /// part of what a launch takes, and takes nothing of its own.
    fn noted(&self, target: DeviceRange, write: impl FnOnce() -> Outcome) -> Result<u64, Fault> {
        let place = self.memory.place(&target)?;
        let is_for_programs = self.programs.note_write(place, target.bytes);
        let outcome = write();
        self.programs.note_write(place, target.bytes);
        outcome.map(|()| if is_for_programs { 0 } else { cost::transfer(target.bytes) })
    }

    pub(crate) fn copy_from_device(&self, copy: &mut CopyFromDevice) -> Outcome {
        let source = self.memory.window(copy.source)?;
        let target = copy.target.bytes_mut();
        match &copy.nest {
            None => {
                same_length(copy.source.bytes, target.len().min(source.bytes()) as u64)?;
                self.read(&source, &mut target[..source.bytes()])
            }
            Some(nest) => self.run(nest, |crew| source.scatter(nest, target, crew)),
        }
    }

    pub(crate) fn copy_on_device(&self, copy: &CopyDevice) -> Outcome {
        let source = self.memory.window(copy.source)?;
        let target = self.plain(copy.target)?;
        if source.overlaps(&target) {
            return Err(failed(format!("{} and {} overlap", copy.source, copy.target)));
        }
        match &copy.nest {
            Some(nest) => self.run(nest, |crew| source.permute_to(&target, nest, crew)),
            None => {
                same_length(copy.source.bytes, copy.target.bytes)?;
                let way = way(source.bytes());
                self.in_pieces(source.bytes(), |at, bytes| source.copy_to(&target, at, bytes, way))
            }
        }
    }

    /// Copies to the other card's memory itself, where that can be had; else by way of a buffer, as the bytes
    /// that it is given must not change.
    ///
    /// A fault on the other card is a failed copy here: if the other card is lost, this one need not be.
    pub(crate) fn copy_to_peer(&self, copy: &CopyPeer) -> Outcome {
        same_length(copy.source.bytes, copy.target.bytes)?;
        let source = self.memory.window(copy.source)?;
        let on_peer = |fault| failed(format!("on the other card, {fault}"));
        let window = copy.peer.window(copy.target).map_err(on_peer)?;
        let window = window.and_then(|window| window.downcast::<Window>().ok());
        // The other card may be this one.
        if let Some(target) = window.filter(|target| !source.overlaps(target)) {
            let way = way(source.bytes());
            return self
                .in_pieces(source.bytes(), |at, bytes| source.copy_to(&target, at, bytes, way));
        }
        let mut buffer = vec![0; source.bytes().min(PEER_BYTES)];
        for at in (0..source.bytes()).step_by(PEER_BYTES) {
            if self.turn.is_to_end() {
                return Err(self.turn.cut_short());
            }
            let buffer = &mut buffer[..PEER_BYTES.min(source.bytes() - at)];
            source.read(at, buffer, Way::Cached);
            let accepted = copy.peer.accept(piece(copy.target, at, buffer.len()), buffer);
            accepted.map_err(on_peer)?;
        }
        Ok(())
    }

    pub(crate) fn fill(&self, target: DeviceRange, pattern: Pattern) -> Outcome {
        let target = self.plain(target)?;
        self.in_pieces(target.bytes(), |at, bytes| target.fill(at, bytes, pattern))
    }

    /// A range that another card of this kind is to write.
    pub(crate) fn window_for_peer(&self, target: DeviceRange) -> Result<Window, Fault> {
        self.plain(target)
    }

    /// Takes bytes of another card.
    pub(crate) fn accept(&self, target: DeviceRange, source: &[u8]) -> Outcome {
        drop(self.plain(target)?);
        self.write(target, source)
    }

    /// A range that holds no programs.
    fn plain(&self, range: DeviceRange) -> Result<Window, Fault> {
        let window = self.memory.window(range)?;
        self.programs.check_plain(self.memory.place(&range)?, range)?;
        Ok(window)
    }

    /// Writes as many bytes to a range.
    fn write(&self, target: DeviceRange, source: &[u8]) -> Outcome {
        let window = self.memory.window(target)?;
        same_length(source.len() as u64, target.bytes)?;
        let way = way(source.len());
        self.in_pieces(source.len(), |at, bytes| window.write(at, &source[at..][..bytes], way))
    }

    fn read(&self, source: &Window, target: &mut [u8]) -> Outcome {
        let way = way(target.len());
        let crew = self.crew(target.len());
        let bytes = crew.piece_bytes();
        if crew.pieces() <= 1 {
            source.read(0, target, way);
            return Ok(());
        }
        // Each is taken once; the locks only show that no two threads have the same.
        let pieces: Vec<Mutex<&mut [u8]>> = target.chunks_mut(bytes).map(Mutex::new).collect();
        crew.run(pieces.len(), &|at| source.read(at * bytes, &mut pieces[at].lock(), way));
        crew.outcome()
    }

    /// Calls `act` with the start and the length of every piece of so many bytes.
    fn in_pieces(&self, bytes: usize, act: impl Fn(usize, usize) + Sync) -> Outcome {
        let crew = self.crew(bytes);
        let piece = crew.piece_bytes();
        crew.run(crew.pieces(), &|nth| act(nth * piece, piece.min(bytes - nth * piece)));
        crew.outcome()
    }

    fn run(
        &self,
        nest: &Arc<DmaNest>,
        copy: impl FnOnce(&AbortableCrew<'_>) -> Result<(), Error>,
    ) -> Outcome {
        let width = nest.target_format().element_bytes().unwrap_or(1);
        let crew = self.crew(nest.elements() * width);
        copy(&crew).map_err(|error| failed(error.to_string()))?;
        crew.outcome()
    }
}

/// A piece of a range.
fn piece(range: DeviceRange, at: usize, bytes: usize) -> DeviceRange {
    DeviceRange { offset: range.offset.saturating_add(at as u64), bytes: bytes as u64, ..range }
}

fn length(range: DeviceRange) -> usize {
    usize::try_from(range.bytes).unwrap_or(usize::MAX)
}

fn way(bytes: usize) -> Way {
    if bytes >= STREAM_BYTES { Way::PastCache } else { Way::Cached }
}

fn same_length(source_bytes: u64, target_bytes: u64) -> Outcome {
    if source_bytes == target_bytes {
        return Ok(());
    }
    Err(failed(format!("{source_bytes} bytes do not fill {target_bytes}")))
}

fn failed(why: String) -> Fault {
    Fault::CopyFailed { why: why.into() }
}
