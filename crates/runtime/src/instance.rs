use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use spyre_artifact::{
    CorrectionImage, CorrectionProgram, EntryHeader, EntryImage, HEADER_BYTES, HandleWords,
    InitPacket, InitTarget, TableShape,
};
use spyre_flex::FailureEpoch;
use spyre_hal::{ControlBlock, DeviceRange};

use crate::batch::Batch;
use crate::binary::Binary;
use crate::definition::Definition;
use crate::load::Load;
use crate::recipe::StepRecipe;
use crate::words::Words;
use crate::{Error, SpyreStream};

/// One stream's own part of a loaded plan: what correction patches, and memory between steps.
#[derive(Debug)]
pub(crate) struct Instance {
    steps: Vec<StepInstance>,
    /// The copies of its images.
    load: Load,
    /// Held while a launch is put together and queued: its steps share the scratch.
    scratch: Mutex<Scratch>,
}

/// Buffers in which launches on a stream are put together, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) words: Words,
    pub(crate) batch: Batch,
    /// Inputs of the last corrections by a cached launch, step by step.
    pub(crate) inputs: Vec<Vec<u64>>,
    /// Last correction of the programs, if it was by a cached launch.
    pub(crate) corrected: Option<Corrected>,
}

/// Correction of a plan's programs, with the inputs that are in the scratch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Corrected {
    /// The cached launch that corrected them.
    pub(crate) by: u64,
    /// Failure epoch from before the corrections were queued.
    pub(crate) epoch: FailureEpoch,
}

/// The entry image and the correction of one step.
#[derive(Debug)]
pub(crate) struct StepInstance {
    entry: Binary,
    /// One, and another one on a device that can copy the inputs of the next tile while this one computes;
    /// none if the step was compiled without.
    corrections: SmallVec<[Correction; 2]>,
    code: Arc<Binary>,
}

/// A correction image, and the part of it that each launch writes.
#[derive(Debug)]
pub(crate) struct Correction {
    pub(crate) binary: Binary,
    pub(crate) input: DeviceRange,
}

/// Parts that instances are made from.
#[derive(Debug)]
pub(crate) struct Parts {
    steps: Vec<StepParts>,
    packets: Vec<InitPacket>,
}

#[derive(Debug)]
struct StepParts {
    code: Arc<Binary>,
    table: TableShape,
    scratch_bytes: u64,
    correction: Option<CorrectionProgram>,
}

impl Instance {
    pub(crate) fn steps(&self) -> &[StepInstance] {
        &self.steps
    }

    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    pub(crate) fn scratch(&self) -> MutexGuard<'_, Scratch> {
        self.scratch.lock()
    }

    pub(crate) fn is_live(&self) -> bool {
        self.steps.iter().all(|step| step.entry.is_live())
    }
}

/// Keeps memory that its launches use, and that no block names, until they are done.
impl Drop for Instance {
    fn drop(&mut self) {
        let Scratch { words, batch, .. } = self.scratch.get_mut();
        if let Some(last) = batch.last() {
            self.steps.iter().for_each(|step| step.code.note_use(last));
            words.note_uses(last);
        }
    }
}

impl StepInstance {
    pub(crate) fn entry(&self) -> &Binary {
        &self.entry
    }

    pub(crate) fn correction(&self) -> Option<&Correction> {
        self.corrections.first()
    }

    /// The corrections that tiles take in turns.
    pub(crate) fn corrections(&self) -> &[Correction] {
        &self.corrections
    }

    /// The code, which no block names.
    pub(crate) fn code(&self) -> &Binary {
        &self.code
    }

    /// Adds the blocks that copy a part of a correction's input, and correct the program with it.
    #[inline(always)]
    pub(crate) fn push_correction(
        &self,
        batch: &mut Batch,
        stream: &SpyreStream,
        recipe: &StepRecipe,
        correction: &Correction,
        (bytes, target): (&[u8], DeviceRange),
    ) -> Result<(), Error> {
        batch.push(stream, stream.flex().stage(bytes, target))?;
        let program = correction.binary.handle();
        batch.push(stream, ControlBlock::launch(program, recipe.correction_label))
    }

    /// Adds the block that launches the program.
    #[inline(always)]
    pub(crate) fn push_launch(
        &self,
        batch: &mut Batch,
        stream: &SpyreStream,
        recipe: &StepRecipe,
        lasts: bool,
    ) -> Result<(), Error> {
        let program = self.entry.handle();
        batch.push(stream, ControlBlock::launch(program, recipe.label).lasting(lasts))
    }
}

impl Parts {
    pub(crate) fn new(
        definition: &Definition,
        codes: &[Option<Arc<Binary>>],
    ) -> Result<Self, Error> {
        let output = definition.output();
        let step = |(step, recipe): (&spyre_artifact::Step, &StepRecipe)| {
            let code = codes.get(step.compute.0 as usize).and_then(Option::as_ref);
            let code = code.ok_or_else(|| Error::NotLoaded { operation: step.name.clone() })?;
            let correction = step.correction.and_then(|image| output.correction(image)).cloned();
            let table = recipe.table;
            let scratch_bytes = step.scratch_bytes;
            Ok(StepParts { code: Arc::clone(code), table, scratch_bytes, correction })
        };
        let steps: Result<_, Error> =
            output.steps.iter().zip(definition.recipes()).map(step).collect();
        Ok(Self { steps: steps?, packets: output.init_packets.clone() })
    }

    /// An instance for a stream: each image is copied by a block of its own on the device's loader.
    pub(crate) fn instance(&self, loader: &SpyreStream) -> Result<Instance, Error> {
        let steps: Result<Vec<_>, _> =
            (0..self.steps.len()).map(|step| self.step(step, loader)).collect();
        Ok(Instance { steps: steps?, load: Load::of(loader)?, scratch: Mutex::default() })
    }

    fn step(&self, at: usize, loader: &SpyreStream) -> Result<StepInstance, Error> {
        let parts = &self.steps[at];
        let code = HandleWords(parts.code.handle().to_words());
        let entry = EntryImage::new(code, parts.table, parts.scratch_bytes)?;
        let header: &EntryHeader = entry.header();
        let entry = Binary::load(loader, entry.encode(), header.allocation_bytes())?;
        self.init(InitTarget::Entry(at as u32), &entry, loader)?;
        let engines = loader.device().context().hardware().description().engines;
        let count = if engines > 1 { 2 } else { 1 };
        let corrections = match &parts.correction {
            None => SmallVec::new(),
            Some(program) => {
                let made = (0..count).map(|_| self.correction(at, program, &entry, loader));
                made.collect::<Result<_, Error>>()?
            }
        };
        Ok(StepInstance { entry, corrections, code: Arc::clone(&parts.code) })
    }

    fn correction(
        &self,
        at: usize,
        program: &CorrectionProgram,
        entry: &Binary,
        loader: &SpyreStream,
    ) -> Result<Correction, Error> {
        let image = CorrectionImage::new(HandleWords(entry.handle().to_words()), program.clone());
        let bytes = image.encode();
        let length = bytes.len() as u64;
        let binary = Binary::load(loader, bytes, length)?;
        self.init(InitTarget::Correction(at as u32), &binary, loader)?;
        let input = DeviceRange {
            handle: binary.handle(),
            offset: HEADER_BYTES as u64,
            bytes: 8 * image.input().len() as u64,
        };
        Ok(Correction { binary, input })
    }

    fn init(&self, target: InitTarget, binary: &Binary, loader: &SpyreStream) -> Result<(), Error> {
        let packets = self.packets.iter().filter(|packet| packet.image == target);
        packets
            .into_iter()
            .try_for_each(|packet| binary.write(loader, packet.offset, packet.bytes.clone()))
    }
}
