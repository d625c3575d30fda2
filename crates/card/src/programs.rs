//! Programs run from device memory.
//!
//! A launch has its [`Work`]: the memory that the program lies in and works on, the threads, and the
//! turn that tells it to end. It copies an image out of device memory before it looks at it, since
//! other blocks may change the original meanwhile. Programs are data: whatever the bytes are, a
//! launch ends, takes bounded memory, and touches only what its operands name.

mod buffer;
mod code;
mod dot;
mod elementwise;
mod erf;
mod limits;
mod machine;
mod nest;
mod operand;
mod reduce;
mod registers;
mod stop;
mod tiles;

use spyre_artifact::{
    Code, CorrectionImage, EntryHeader, EntryImage, HEADER_BYTES, HandleWords, Image,
    MAX_IMAGE_BYTES,
};
use spyre_hal::{DeviceHandle, DeviceRange, Fault, Outcome};
use zerocopy::IntoBytes;

use crate::handle_words::handle_from_words;
use crate::memory::Way;
use crate::work::Work;
pub(crate) use code::Programs;
use machine::Machine;
use stop::Stop;

impl Work<'_> {
    /// Runs the program that lies at a handle.
    pub(crate) fn launch(&self, program: DeviceHandle) -> Outcome {
        let run = || match Image::decode(&self.image(program)?)? {
            Image::Entry(entry) => self.compute(&entry),
            Image::Correction(correction) => self.correct(&correction),
            Image::Code(_) => Err(Stop::refused("it is shared code: launch an entry image of it")),
        };
        run().map_err(|stop| match stop {
            Stop::Fault(fault) => fault,
            Stop::Refused(why) => Fault::BadProgram { program, why },
        })
    }

    fn compute(&self, entry: &EntryImage) -> Result<(), Stop> {
        let place = named(entry.header().code, "code image")?;
        let code = self.programs.at(place, self.image(place)?)?;
        entry.header().check_program(code.program())?;
        Machine::new(self, &code, entry)?.run()
    }

    /// Patches the word table of the entry image that a correction names, where it lies.
    fn correct(&self, correction: &CorrectionImage) -> Result<(), Stop> {
        let target = named(correction.target(), "entry image")?;
        let header = EntryHeader::decode(&self.bytes(target, HEADER_BYTES)?)?;
        let (found, expected) = (header.shape.words(), correction.program().table_words() as usize);
        if found != expected {
            let why = format!("its target's table has {found} words, not {expected}");
            return Err(Stop::refused(why));
        }
        let mut table = vec![0_u64; found];
        let (offset, bytes) = (header.table_offset() as u64, size_of_val(&table[..]) as u64);
        let window = self.memory.window(DeviceRange { handle: target, offset, bytes })?;
        window.read(0, table.as_mut_bytes(), Way::Cached);
        correction.program().apply(correction.input(), &mut table);
        window.write(0, table.as_bytes(), Way::Cached);
        Ok(())
    }

    /// A copy of the image at a handle: as many bytes as its header says.
    fn image(&self, handle: DeviceHandle) -> Result<Vec<u8>, Stop> {
        let header = self.bytes(handle, HEADER_BYTES)?;
        let length = header[16..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        match usize::try_from(length) {
            Ok(bytes @ HEADER_BYTES..=MAX_IMAGE_BYTES) if header.starts_with(b"SPYR") => {
                self.bytes(handle, bytes)
            }
            _ => Ok(header), // which decodes as nothing, and says why
        }
    }

    fn bytes(&self, handle: DeviceHandle, bytes: usize) -> Result<Vec<u8>, Stop> {
        let window = self.memory.window(DeviceRange::start_of(handle, bytes as u64))?;
        let mut copy = vec![0; bytes];
        window.read(0, &mut copy, Way::Cached);
        Ok(copy)
    }
}

fn named(words: HandleWords, what: &str) -> Result<DeviceHandle, Stop> {
    handle_from_words(words).ok_or_else(|| Stop::refused(format!("its {what} has no handle")))
}

/// Compute programs only: what else code images hold has its own images.
fn compute_program(code: &Code) -> Result<&spyre_artifact::Program, Stop> {
    match code {
        Code::Compute(program) => Ok(program),
        Code::Correction(_) => Err(Stop::refused("its code is a correction")),
    }
}
