use spyre_artifact::{CompilerOutput, HEADER_BYTES, OPERAND_WORDS};
use spyre_hal::{DeviceHandle, DeviceRange};
use spyre_layout::{SpyreTensorLayout, View};
use spyre_runtime::{
    Error, ExecutionPlan, SpyreCompute, SpyreStream, SpyreTensor, launch_kernel_with,
};

use crate::attack::{Attack, Verdict};
use crate::bed::{Bed, Written};
use crate::random::Random;
use crate::samples::{self, Sample};

/// Good plans on a card, whose corrections are given other words.
pub(crate) struct Words {
    bed: Bed,
    samples: Vec<Sample>,
    loaded: Vec<Loaded>,
}

/// A step of a good plan, where it is and the words that it was given.
struct Loaded {
    /// Keeps it there.
    _plan: ExecutionPlan,
    correction: DeviceHandle,
    entry: DeviceHandle,
    input: Vec<u64>,
    /// Number of operands of its program.
    operands: usize,
}

impl Words {
    pub(crate) fn new() -> Self {
        let mut words = Self { bed: Bed::open(), samples: samples::plans(), loaded: Vec::new() };
        words.load();
        words
    }

    fn load(&mut self) {
        let bed = &self.bed;
        let samples = &self.samples;
        self.loaded = samples.iter().map(|sample| Loaded::new(bed, sample)).collect();
        let written = [Written::Tensors];
        self.bed.check(&written);
    }

    fn launch(stream: &SpyreStream, step: &Loaded, words: &[u64]) -> Result<(), Error> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let handle = step.correction;
        let offset = HEADER_BYTES as u64;
        let target = DeviceRange { handle, offset, bytes: bytes.len() as u64 };
        stream.flex().copy_staged(&bytes, target)?;
        stream.flex().launch(step.correction)?;
        stream.flex().launch(step.entry)?;
        Ok(())
    }
}

impl Attack for Words {
    fn input(&mut self, seed: u64) -> Verdict {
        let mut random = Random::new(seed);
        if seed.is_multiple_of(2048) {
            self.bed.reset();
            self.load();
        }
        if seed.is_multiple_of(64) {
            self.bed.refill(&mut random);
        }
        let step = &self.loaded[random.below(self.loaded.len())];
        let mut words = step.input.clone();
        for _ in 0..1 + random.below(3) {
            change(&mut words, step.operands, &mut random);
        }
        let epoch = self.bed.slot(0).tag().epoch;
        let launched = Self::launch(&self.bed.stream, step, &words);
        let outcome = self.bed.settle(launched);
        if self.bed.slot(0).tag().epoch != epoch {
            self.load();
        }
        self.bed.check(&[Written::Tensors]);
        Verdict::launched(outcome)
    }
}

/// Another word somewhere: any, one of another operand, or one that is nearly right.
fn change(words: &mut [u64], operands: usize, random: &mut Random) {
    let at = random.below(words.len());
    match random.below(4) {
        0 | 1 => words[at] = random.word(),
        2 => words[at] = words[at].wrapping_add(random.below(9) as u64).wrapping_sub(4),
        _ if operands > 1 && words.len() >= operands * OPERAND_WORDS => {
            let from = random.below(operands);
            let to = random.below(operands);
            let field = random.below(OPERAND_WORDS);
            let fields = if random.one_in(2) { 0..OPERAND_WORDS } else { field..field + 1 };
            for field in fields {
                words[to * OPERAND_WORDS + field] = words[from * OPERAND_WORDS + field];
            }
        }
        _ => words[at] = 0,
    }
}

impl Loaded {
    fn new(bed: &Bed, sample: &Sample) -> Self {
        let plan = ExecutionPlan::from_compiler_output(sample.output.clone()).expect("good");
        plan.load(&bed.stream).expect("there is room");
        let tensors = tensors(bed, &sample.output, &sample.shapes);
        launch_kernel_with(&bed.stream, &plan, &tensors, &sample.scalars).expect("it fits");
        bed.stream.synchronize().expect("a good launch");
        let compute = plan.operations()[0].compute().expect("it computes").clone();
        let table = compute.read_entry(&bed.stream).expect("it is there");
        let [correction, entry, _] = plan.operations()[0].device_handles()[..] else {
            panic!("a correction, an entry, code")
        };
        let shape = table.header().shape;
        let input =
            input(&compute, |word| word.table_word(shape).map_or(1, |at| table.table()[at]));
        Self { _plan: plan, correction, entry, input, operands: shape.operands }
    }
}

fn input(
    compute: &SpyreCompute,
    value: impl Fn(spyre_artifact::CorrectionWord) -> u64,
) -> Vec<u64> {
    compute.correction_metadata().words.iter().map(|&word| value(word)).collect()
}

/// Tensors in the slots of the bed, as a plan wants them.
pub(crate) fn tensors(
    bed: &Bed,
    output: &CompilerOutput,
    shapes: &[Vec<usize>],
) -> Vec<SpyreTensor> {
    let tensor = |(at, shape): (usize, &Vec<usize>)| {
        let expected = &output.tensor_input_metadata[at];
        let layout = SpyreTensorLayout::contiguous(shape, expected.format).expect("a layout");
        let view = View::contiguous(shape).expect("small");
        let handle = bed.slot(at);
        SpyreTensor::at(&bed.device, handle, layout, expected.dtype, view).expect("it fits")
    };
    shapes.iter().enumerate().map(tensor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::Outcome;

    #[test]
    fn good_words_run() {
        let mut words = Words::new();
        for step in &words.loaded {
            let launched = Words::launch(&words.bed.stream, step, &step.input);
            assert_eq!(launched.and(words.bed.stream.synchronize()), Ok(()));
        }
        words.bed.check(&[Written::Tensors]);
        assert_eq!(words.bed.settle(Ok(())), Outcome::Ran);
    }
}
