//! Programs run from device memory.
//!
//! A launch has its [`Work`]: the memory that the program lies in and works on, the threads, and the
//! turn that tells it to end. It copies an image out of device memory before it looks at it, since
//! other blocks may change the original meanwhile. Programs are data: whatever the bytes are, a
//! launch ends, takes bounded memory, and touches only what its operands name.

mod access;
mod execute;
mod load;
mod math;
mod matmul;
mod schedule;
mod strips;

use std::sync::Arc;

use spyre_artifact::{HEADER_BYTES, Image, MAX_IMAGE_BYTES};
use spyre_hal::{CheckedOperands, DeviceHandle, DeviceRange, Fault};
use zerocopy::IntoBytes;

use crate::memory::Way;
use crate::work::Work;
use load::allocations::Lookup;
pub(crate) use load::allocations::Programs;
use load::binding::LaunchBinding;
use load::code::LoadedCode;
use load::decoded_image::{Corrector, DecodedImage, Instance, LoadedImage, Patching};
use schedule::machine::Machine;
use schedule::stop::{Stop, handle_of};

impl Work<'_> {
    /// Runs the program that lies at a handle. What that would take on a real card comes back: nothing for a
    /// correction, which is part of what a launch takes.
    pub(crate) fn launch(
        &self,
        program: DeviceHandle,
        checked_operands: CheckedOperands,
    ) -> Result<u64, Fault> {
        let run = || match self.loaded(program)?.image() {
            LoadedImage::Entry(instance) => self.compute(program, instance, checked_operands),
            LoadedImage::Correction(corrector) => self.correct(program, corrector).map(|()| 0),
            LoadedImage::Code(_) => {
                Err(Stop::refused("it is shared code: launch an entry image of it"))
            }
        };
        run().map_err(|stop| stop.fault(program))
    }

    fn compute(
        &self,
        entry: DeviceHandle,
        instance: &Instance,
        checked_operands: CheckedOperands,
    ) -> Result<u64, Stop> {
        // Two launches of one instance at once are the caller's mistake: the second one binds anew.
        let mut kept = instance.binding.try_lock();
        let mut own = None;
        let binding = match kept.as_deref_mut() {
            Some(kept) => kept,
            None => own.insert(LaunchBinding::default()),
        };
        let updated = binding.update(self, entry, &instance.header, checked_operands);
        let outcome = updated.and_then(|()| self.run_bound(binding, instance));
        binding.close();
        outcome.map(|()| binding.modelled_nanoseconds())
    }

    fn run_bound(&self, binding: &mut LaunchBinding, instance: &Instance) -> Result<(), Stop> {
        let buffers = binding.take_buffers(self.programs);
        let mut machine = Machine::new(self, binding, instance.header.shape, buffers)?;
        let outcome = machine.run();
        let buffers = machine.into_buffers();
        binding.give_back(buffers, self.programs);
        outcome
    }

    /// Patches the word table of the entry image that a correction names, where it lies.
    fn correct(&self, place: DeviceHandle, corrector: &Corrector) -> Result<(), Stop> {
        let target = handle_of(corrector.target, "entry image")?;
        let Patching { entry, words } = &mut *corrector.patching.lock();
        if !entry.as_ref().is_some_and(|entry| entry.is_current()) {
            *entry = Some(self.entry(target, corrector)?);
        }
        words.resize(corrector.program.input_words() as usize, 0);
        let offset = corrector.input_offset;
        let bytes = size_of_val(&words[..]) as u64;
        let input = self.memory.window(DeviceRange { handle: place, offset, bytes })?;
        input.read(0, words.as_mut_bytes(), Way::Cached);
        let offset = HEADER_BYTES as u64;
        let bytes = corrector.table_bytes();
        let table = self.memory.window(DeviceRange { handle: target, offset, bytes })?;
        for patch in corrector.program.patches() {
            let words = &words[patch.source_word as usize..][..patch.words as usize];
            let at = patch.target_word as usize * size_of::<u64>();
            table.write(at, words.as_bytes(), Way::Cached);
        }
        Ok(())
    }

    /// The entry image that a correction patches.
    fn entry(
        &self,
        target: DeviceHandle,
        corrector: &Corrector,
    ) -> Result<Arc<DecodedImage>, Stop> {
        let entry = self.loaded(target)?;
        let LoadedImage::Entry(instance) = entry.image() else {
            return Err(Stop::refused("its target is no entry image"));
        };
        let shape = instance.header.shape;
        let found = shape.words();
        let expected = corrector.program.table_words();
        if shape.bytes() as u64 == corrector.table_bytes() {
            Ok(entry)
        } else {
            let why = format!("its target's table has {found} words, not {expected}");
            Err(Stop::refused(why))
        }
    }

    /// The image at a handle, decoded.
    fn loaded(&self, handle: DeviceHandle) -> Result<Arc<DecodedImage>, Stop> {
        let place = self.memory.place(&DeviceRange::start_of(handle, 0))?;
        let (room, writes) = match self.programs.lookup(place) {
            Lookup::Known(image) => return Ok(image),
            Lookup::Unknown { room, writes } => (room, writes),
            Lookup::Outside => {
                let why = format!("{handle} is not in an allocation for programs");
                return Err(Stop::refused(why));
            }
        };
        let bytes = self.image(handle, room)?;
        let image = Arc::new(match Image::decode(&bytes)? {
            Image::Entry(entry) => DecodedImage::entry(place.start, *entry.header()),
            Image::Correction(image) => DecodedImage::correction(place.start, bytes.len(), &image),
            Image::Code(code) => {
                DecodedImage::code(place.start, bytes.len(), LoadedCode::new(code.code())?)
            }
        });
        self.programs.keep(place, &image, writes);
        Ok(image)
    }

    /// A copy of the image at a handle: as many bytes as its header says, of those that are left
    /// of its allocation.
    fn image(&self, handle: DeviceHandle, room: u64) -> Result<Vec<u8>, Stop> {
        if room < HEADER_BYTES as u64 {
            return Err(Stop::refused(format!("{room} bytes are left of its allocation")));
        }
        let header = self.bytes(handle, HEADER_BYTES)?;
        let length = header[16..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        match usize::try_from(length) {
            Ok(bytes @ HEADER_BYTES..=MAX_IMAGE_BYTES) if header.starts_with(b"SPYR") => {
                if length > room {
                    let why = format!("it has {length} bytes, {room} are left of its allocation");
                    return Err(Stop::refused(why));
                }
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
