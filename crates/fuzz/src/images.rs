use spyre_artifact::{
    CorrectionImage, EntryImage, HEADER_BYTES, HandleWords, Image, MAX_IMAGE_BYTES, Patch,
};
use spyre_hal::{DeviceHandle, DeviceRange};
use spyre_runtime::Error;

use crate::attack::{Attack, Outcome, Verdict};
use crate::bed::{Bed, Written};
use crate::bytes::{damage, seal};
use crate::random::Random;
use crate::samples::{self, Sample};
use crate::words::tensors;

/// Program images in device memory, with damage to one of them before each launch.
pub(crate) struct Images {
    bed: Bed,
    samples: Vec<Sample>,
    programs: Vec<Program>,
}

/// The three images of a program.
struct Program {
    code: StoredImage,
    entry: StoredImage,
    correction: StoredImage,
}

/// An image, and the allocation that holds it.
struct StoredImage {
    handle: DeviceHandle,
    image: Vec<u8>,
    room: usize,
}

/// More room than an image has, for those that claim to be longer.
const SPARE_BYTES: usize = 512;

impl Images {
    pub(crate) fn new() -> Self {
        let mut images = Self { bed: Bed::open(), samples: samples::plans(), programs: Vec::new() };
        images.load();
        images
    }

    fn load(&mut self) {
        let bed = &self.bed;
        let samples = &self.samples;
        self.programs = samples.iter().map(|sample| Program::new(bed, sample)).collect();
    }

    /// Writes an image, and launches what uses it.
    fn launch(&self, program: &Program, which: usize, image: &[u8]) -> Result<(), Error> {
        let flex = self.bed.stream.flex();
        let place = program.places()[which];
        place.write(&self.bed, image)?;
        if which == 2 {
            flex.launch(program.correction.handle)?;
        }
        flex.launch(program.entry.handle)?;
        Ok(())
    }
}

impl Attack for Images {
    fn input(&mut self, seed: u64) -> Verdict {
        let mut random = Random::new(seed);
        if seed.is_multiple_of(2048) {
            self.bed.reset();
            self.load();
        }
        if seed.is_multiple_of(64) {
            self.bed.refill(&mut random);
        }
        let nth = random.below(self.programs.len());
        let which = random.below(3);
        let program = &self.programs[nth];
        let place = program.places()[which];
        let mut image = place.image.clone();
        damage(&mut image, &mut random);
        if !random.one_in(4) {
            seal(&mut image);
        }
        image.truncate(place.room);
        let is_sound = place.is_sound(&image);
        let epoch = self.bed.slot(0).tag().epoch;
        let launched = self.launch(program, which, &image);
        let outcome = self.bed.settle(launched);
        assert!(is_sound || outcome != Outcome::Ran, "what does not decode has run");
        if self.bed.slot(0).tag().epoch != epoch {
            self.load();
        }
        for place in self.programs[nth].places() {
            place.restore(&self.bed);
        }
        self.bed.check(&[Written::Tensors]);
        if is_sound {
            Verdict::launched(outcome)
        } else {
            Verdict::read(Outcome::Refused, image.len())
        }
    }
}

impl Program {
    fn new(bed: &Bed, sample: &Sample) -> Self {
        let output = &sample.output;
        let image = output.images[output.steps[0].compute.0 as usize].clone();
        let program = image.program().expect("the first step computes").clone();
        let shape = program.table_shape();
        let code = StoredImage::new(bed, image.encode());
        let mut entry =
            EntryImage::new(HandleWords(code.handle.to_words()), shape, 0).expect("a small table");
        fill(bed, sample, &program, entry.table_mut());
        let table = entry.table().to_vec();
        let entry = StoredImage::new(bed, entry.encode());
        let words = table.len() as u32;
        let patch = Patch { source_word: 0, target_word: 0, words };
        let patches = spyre_artifact::CorrectionProgram::new(words, words, vec![patch])
            .expect("inside the table");
        let mut correction = CorrectionImage::new(HandleWords(entry.handle.to_words()), patches);
        correction.input_mut().copy_from_slice(&table);
        let correction = StoredImage::new(bed, correction.encode());
        let program = Self { code, entry, correction };
        for launched in [&program.correction, &program.entry] {
            bed.stream.flex().launch(launched.handle).expect("queued");
        }
        bed.stream.synchronize().expect("a good program");
        program
    }

    fn places(&self) -> [&StoredImage; 3] {
        [&self.code, &self.entry, &self.correction]
    }
}

/// Fills the table of the first step's program, as a launch would.
fn fill(bed: &Bed, sample: &Sample, program: &spyre_artifact::Program, table: &mut [u64]) {
    use spyre_artifact::{Binding, Dim, Operand, OperandWords, ScalarWord};
    let output = &sample.output;
    let shape = program.table_shape();
    let step = &output.steps[0];
    let tensors = tensors(bed, output, &sample.shapes);
    let metadata = &output.tensor_input_metadata;
    for (at, binding) in step.bindings.iter().enumerate() {
        // Memory of a plan's own lies where the last tensor does: no check compares numbers here.
        let nth = match *binding {
            Binding::Tensor(nth) => nth as usize,
            Binding::Intermediate(_) => tensors.len() - 1,
        };
        let tensor = &tensors[nth];
        let operand = &program.operands()[at];
        let layout = spyre_layout::SpyreTensorLayout::contiguous(tensor.shape(), operand.format)
            .expect("a layout");
        let handle = HandleWords(tensor.device_handle().to_words());
        let limit_bytes = layout.device_bytes() as u64;
        let mut words = OperandWords::of_layout(handle, limit_bytes, &layout).expect("small");
        for (dim, name) in step.dims.iter().enumerate() {
            let along = metadata[nth].dims.iter().position(|known| known.name == *name);
            if let Some(along) = along.filter(|_| operand.span.contains(Dim(dim as u8))) {
                words.strides[operand.span.place(Dim(dim as u8))] =
                    tensor.view().stride()[along] as i64;
            }
        }
        table[shape.operand_words(Operand(at as u8))].copy_from_slice(&words.encode());
    }
    for (dim, name) in step.dims.iter().enumerate() {
        let extent = metadata.iter().zip(&tensors).find_map(|(tensor, given)| {
            let along = tensor.dims.iter().position(|known| known.name == *name)?;
            Some(given.shape()[along] as u64)
        });
        table[shape.extent_word(Dim(dim as u8))] = extent.unwrap_or(0);
    }
    for scalar in 0..program.scalars() {
        let word = shape.scalar_word(ScalarWord(scalar as u8));
        table[word] = sample.scalars.get(scalar).copied().unwrap_or(1);
    }
}

impl StoredImage {
    fn new(bed: &Bed, image: Vec<u8>) -> Self {
        let room = image.len() + SPARE_BYTES;
        let handle = bed.stream.flex().allocate_program(room as u64).expect("there is room");
        let place = Self { handle, image, room };
        let zeros = vec![0; room];
        place.write(bed, &zeros).expect("queued");
        place.restore(bed);
        place
    }

    fn restore(&self, bed: &Bed) {
        let mut image = self.image.clone();
        image.resize(self.room, 0);
        self.write(bed, &image).expect("queued");
    }

    fn write(&self, bed: &Bed, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        let target = DeviceRange::start_of(self.handle, bytes.len() as u64);
        bed.stream.flex().copy_to_device(bytes.to_vec(), target)?;
        Ok(())
    }

    /// Returns true if the allocation holds an image once these bytes are written to it.
    fn is_sound(&self, bytes: &[u8]) -> bool {
        let mut memory = self.image.clone();
        memory.resize(self.room, 0);
        memory[..bytes.len()].copy_from_slice(bytes);
        let length = u64::from_le_bytes(memory[16..24].try_into().expect("eight bytes"));
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if !(HEADER_BYTES..=MAX_IMAGE_BYTES.min(self.room)).contains(&length) {
            return false;
        }
        let image = &memory[..length];
        let Ok(decoded) = Image::decode(image) else { return false };
        let encoded = match decoded {
            Image::Code(code) => code.encode(),
            Image::Entry(entry) => entry.encode(),
            Image::Correction(correction) => correction.encode(),
        };
        assert!(encoded == image, "an image with a second spelling");
        true
    }
}
