use std::collections::BTreeMap;

use spyre_artifact::{
    Access, Binding, Code, CodeImage, CompilerOutput, CorrectionMetadata, CorrectionProgram,
    CorrectionWord, Dim, ExpectedSize, HEADER_BYTES, ImageId, InitPacket, InitTarget, Intermediate,
    IntermediateDim, MAX_DIMS, OperandType, Patch, Program, Role, Step, TensorMetadata, TileFlag,
};
use spyre_numerics::{DType, DataFormat};
use spyre_runtime::ExecutionPlan;

use crate::attack::{Attack, Outcome, Verdict};
use crate::bed::Bed;
use crate::launches::Launch;
use crate::programs;
use crate::random::Random;

/// Random plans, each launched a few times with random tensors.
pub(crate) struct Plans {
    bed: Bed,
    current: Option<Current>,
}

/// The plan that launches are tried with.
struct Current {
    seed: u64,
    /// `None` if it was refused.
    plan: Option<ExecutionPlan>,
    output: CompilerOutput,
    /// True if all of every table comes from the tensors: then only their elements are written.
    is_exact: bool,
}

/// Launches of one plan.
const LAUNCHES: u64 = 8;
const NAMES: [&str; MAX_DIMS] =
    ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];

impl Plans {
    pub(crate) fn new() -> Self {
        Self { bed: Bed::open(), current: None }
    }

    fn current(&mut self, seed: u64) -> &Current {
        if self.current.as_ref().is_none_or(|current| current.seed != seed) {
            self.current = None;
            let mut random = Random::new(!seed);
            let (output, is_exact) = output(&mut random);
            let plan = ExecutionPlan::from_compiler_output(output.clone()).ok();
            let plan = plan.filter(|plan| match plan.load(&self.bed.stream) {
                Ok(()) => true,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    false
                }
            });
            self.current = Some(Current { seed, plan, output, is_exact });
        }
        self.current.as_ref().expect("it was made")
    }
}

impl Attack for Plans {
    fn input(&mut self, seed: u64) -> Verdict {
        let mut random = Random::new(seed);
        if seed.is_multiple_of(64) {
            self.bed.refill(&mut random);
        }
        self.current(seed / LAUNCHES);
        if seed.is_multiple_of(1024) {
            self.bed.reset(); // what is loaded is gone: the next launch is refused, or loads again
        }
        let Some(Current { plan: Some(plan), output, is_exact, .. }) = &self.current else {
            return Verdict::launched(Outcome::Refused);
        };
        let launch = Launch::new(&self.bed, output, &mut random);
        let launched = launch.run(&self.bed.stream, plan, &mut random);
        let outcome = self.bed.settle(launched);
        let written = launch.written(output, *is_exact);
        self.bed.check(&written);
        Verdict::launched(outcome)
    }
}

/// A plan, most of whose parts belong together; and whether its tables come from tensors alone.
fn output(random: &mut Random) -> (CompilerOutput, bool) {
    let programs: Vec<Program> = (0..1 + random.below(2)).map(|_| program(random)).collect();
    let mut draft = Draft::new(random);
    for (at, program) in programs.iter().enumerate() {
        draft.put_program(at, program, random);
    }
    let steps = if random.one_in(3) { 1 + random.below(4) } else { programs.len() };
    for at in 0..steps {
        let nth = if at < programs.len() { at } else { random.below(programs.len()) };
        draft.add_step(nth, &programs[nth], random);
    }
    let Draft { mut output, is_exact, .. } = draft;
    if random.one_in(5) {
        break_something(&mut output, random);
        return (output, false);
    }
    (output, is_exact)
}

fn program(random: &mut Random) -> Program {
    let tape: Vec<u16> = (0..10 + random.below(90)).map(|_| random.number() as u16).collect();
    programs::program(&tape).expect("a tape of choices is a program")
}

struct Draft {
    output: CompilerOutput,
    sizes: BTreeMap<&'static str, ExpectedSize>,
    is_exact: bool,
    /// Per program, what its correction is given, and the packets that fill the rest.
    corrections: Vec<(CorrectionMetadata, Vec<InitPacket>)>,
}

impl Draft {
    fn new(random: &mut Random) -> Self {
        let size = |random: &mut Random| match random.below(3) {
            0 => ExpectedSize::fixed(1 + random.below(6) as u64).expect("above 0"),
            _ => ExpectedSize::Any,
        };
        let sizes = NAMES.map(|name| (name, size(random)));
        Self {
            output: CompilerOutput::default(),
            sizes: BTreeMap::from(sizes),
            is_exact: true,
            corrections: Vec::new(),
        }
    }

    /// The program's image and a correction for it.
    fn put_program(&mut self, at: usize, program: &Program, random: &mut Random) {
        let image = CodeImage::new(Code::Compute(program.clone()), vec![7; random.below(40)]);
        self.output.images.push(image.expect("small"));
        let full = CorrectionMetadata::full(program.table_shape());
        let (words, packets) = match random.below(4) {
            0 => self.part_of(full.words, program, at, random),
            _ => (full.words, Vec::new()),
        };
        let words = flags(words, program, random);
        let correction = correction(&words, program);
        self.output
            .images
            .push(CodeImage::new(Code::Correction(correction), Vec::new()).expect("small"));
        self.corrections.push((CorrectionMetadata::new(words), packets));
    }

    /// Some of the words, in any order. Init packets fill most of the rest, and some stay unfilled.
    fn part_of(
        &mut self,
        mut words: Vec<CorrectionWord>,
        program: &Program,
        at: usize,
        random: &mut Random,
    ) -> (Vec<CorrectionWord>, Vec<InitPacket>) {
        self.is_exact = false;
        let shape = program.table_shape();
        let mut packets = Vec::new();
        let share = 2 + random.below(40);
        words.retain(|word| {
            if !random.one_in(share) {
                return true;
            }
            let place = word.table_word(shape).unwrap_or(0);
            let value = if random.one_in(2) { random.below(5) as u64 } else { random.word() };
            if !random.one_in(10) {
                packets.push(InitPacket {
                    image: InitTarget::Entry(at as u32),
                    offset: (HEADER_BYTES + 8 * place) as u64,
                    bytes: value.to_le_bytes()[..8 - random.below(2) * random.below(8)].to_vec(),
                });
            }
            false
        });
        if random.one_in(2) {
            random.shuffle(&mut words);
        }
        (words, packets)
    }

    fn add_step(&mut self, nth: usize, program: &Program, random: &mut Random) {
        let mut names = NAMES;
        if random.one_in(3) {
            random.shuffle(&mut names);
        }
        let dims: Vec<&'static str> = names[..program.dims()].to_vec();
        let bindings =
            program.operands().iter().map(|operand| self.bind(operand, &dims, random)).collect();
        let at = self.output.steps.len();
        let (metadata, packets) = self.corrections[nth].clone();
        let packets = packets
            .into_iter()
            .map(|packet| InitPacket { image: InitTarget::Entry(at as u32), ..packet });
        self.output.init_packets.extend(packets);
        self.output.correction_metadata.push(metadata);
        self.output.steps.push(Step {
            name: format!("step {at}"),
            compute: ImageId(2 * nth as u32),
            correction: Some(ImageId(2 * nth as u32 + 1)),
            dims: dims.iter().map(|&name| name.to_owned()).collect(),
            bindings,
            scratch_bytes: if random.one_in(20) { random.word() % (1 << 41) } else { 0 },
        });
        let known = |name: &str| {
            let mut all = self.output.tensor_input_metadata.iter().flat_map(|tensor| &tensor.dims);
            all.any(|dim| dim.name == name)
        };
        let missing: Vec<&'static str> = dims.into_iter().filter(|name| !known(name)).collect();
        if !missing.is_empty() {
            self.tensor(DataFormat::IeeeFp32, Role::Input, missing);
        }
    }

    fn bind(
        &mut self,
        operand: &OperandType,
        dims: &[&'static str],
        random: &mut Random,
    ) -> Binding {
        let mut names: Vec<&'static str> =
            operand.span.dims().map(|dim| dims[dim.index()]).collect();
        match random.below(12) {
            0 => random.shuffle(&mut names),
            1 => names.extend(random.pick(&[&NAMES[..1], &NAMES[5..7], &[]])),
            2 => drop(names.pop()),
            _ => {}
        }
        if random.one_in(6) && names.iter().all(|name| self.is_known(name)) {
            return self.intermediate(operand.format, &names, random);
        }
        if random.one_in(6) {
            let fits = |tensor: &TensorMetadata| {
                tensor.format == operand.format
                    && (tensor.role.is_written() || !operand.access.writes())
            };
            let known = self.output.tensor_input_metadata.iter().position(fits);
            if let Some(at) = known {
                return Binding::Tensor(at as u32);
            }
        }
        let role = match operand.access {
            Access::Read if random.one_in(8) => Role::Both,
            Access::Read => Role::Input,
            Access::Write => Role::Output,
            Access::Both => Role::Both,
        };
        self.tensor(operand.format, role, names)
    }

    fn is_known(&self, name: &str) -> bool {
        let mut dims = self.output.tensor_input_metadata.iter().flat_map(|tensor| &tensor.dims);
        dims.any(|dim| dim.name == name)
    }

    fn tensor(&mut self, format: DataFormat, role: Role, names: Vec<&'static str>) -> Binding {
        let at = self.output.tensor_input_metadata.len();
        let dims: Vec<_> = names.into_iter().map(|name| (name, self.sizes[name])).collect();
        let tensor = TensorMetadata::new(&format!("t{at}"), dtype(format), format, &dims, role);
        self.output.tensor_input_metadata.push(tensor);
        Binding::Tensor(at as u32)
    }

    fn intermediate(
        &mut self,
        format: DataFormat,
        names: &[&'static str],
        random: &mut Random,
    ) -> Binding {
        let known = self.output.intermediates.iter().position(|known| known.format == format);
        if let Some(at) = known.filter(|_| random.one_in(2)) {
            return Binding::Intermediate(at as u32);
        }
        let at = self.output.intermediates.len();
        let mut dims: Vec<_> =
            names.iter().map(|name| IntermediateDim::Named((*name).to_owned())).collect();
        if random.one_in(4) {
            dims.push(IntermediateDim::Fixed(1 + random.below(70) as u64));
        }
        self.output.intermediates.push(Intermediate { name: format!("i{at}"), format, dims });
        Binding::Intermediate(at as u32)
    }
}

/// Tells some scalars where the tile is.
fn flags(
    words: Vec<CorrectionWord>,
    program: &Program,
    random: &mut Random,
) -> Vec<CorrectionWord> {
    let flag = |word| match word {
        CorrectionWord::Scalar(_) if program.dims() > 0 && random.one_in(2) => {
            let dim = Dim(random.below(program.dims()) as u8);
            CorrectionWord::Flag(dim, random.pick(&TileFlag::ALL))
        }
        word => word,
    };
    words.into_iter().map(flag).collect()
}

/// The correction that brings each word to its place; flags go where their scalars were.
fn correction(words: &[CorrectionWord], program: &Program) -> CorrectionProgram {
    let shape = program.table_shape();
    let mut taken: Vec<bool> = vec![false; shape.words()];
    for place in words.iter().filter_map(|word| word.table_word(shape)) {
        taken[place] = true;
    }
    let first = shape.scalar_word(spyre_artifact::ScalarWord(0));
    let mut free = (first..shape.words()).filter(|&place| !taken[place]);
    let places = words.iter().map(|word| word.table_word(shape).or_else(|| free.next()));
    let patches = places.enumerate().filter_map(|(source, target)| {
        Some(Patch { source_word: source as u32, target_word: target? as u32, words: 1 })
    });
    let patches = patches.collect();
    let input = words.len() as u32;
    let table = shape.words() as u32;
    CorrectionProgram::new(input, table, patches).expect("each word has a place")
}

pub(crate) fn dtype(format: DataFormat) -> DType {
    match format {
        DataFormat::IeeeFp16 | DataFormat::Sen169Fp16 => DType::Float16,
        DataFormat::IeeeFp64 => DType::Float64,
        DataFormat::IeeeInt64 => DType::Int64,
        DataFormat::Bool => DType::Bool,
        _ => DType::Float32,
    }
}

/// One thing that does not belong.
fn break_something(output: &mut CompilerOutput, random: &mut Random) {
    let number = random.word();
    let at = |length: usize, random: &mut Random| random.below(length);
    match random.below(18) {
        0 => output.images.truncate(random.below(4)),
        1 => output.images.reverse(),
        2 => drop(output.tensor_input_metadata.pop()),
        3 => output.tensor_input_metadata.reverse(),
        4 => output.intermediates.clear(),
        5 => drop(output.correction_metadata.pop()),
        6 => {
            output.init_packets.push(InitPacket {
                image: random.pick(&[InitTarget::Entry, InitTarget::Correction])(
                    random.below(3) as u32
                ),
                offset: random.pick(&[0, 128, 129, 200, 1000, number]),
                bytes: vec![number as u8; random.below(200)],
            });
        }
        7 => output.steps.clear(),
        8 => {
            let wide = 1 + random.below(300);
            for tensor in &mut output.tensor_input_metadata {
                let many = std::iter::repeat_n(tensor.dims.clone(), wide).flatten().take(300);
                tensor.dims = many.collect();
            }
        }
        9 => {
            let names = (0..random.below(600)).map(|at| format!("n{at}"));
            let many = names.map(|name| {
                let dims = [(name.as_str(), ExpectedSize::Any)];
                TensorMetadata::new(&name, DType::Bool, DataFormat::Bool, &dims, Role::Input)
            });
            output.tensor_input_metadata.extend(many);
        }
        10 => {
            let fixed = IntermediateDim::Fixed(number);
            output.intermediates.push(Intermediate {
                name: "large".into(),
                format: DataFormat::IeeeFp32,
                dims: vec![fixed; 1 + random.below(3)],
            });
        }
        _ => {
            let steps = output.steps.len();
            let Some(step) = output.steps.get_mut(at(steps, random)) else { return };
            match random.below(7) {
                0 => step.compute = ImageId(number as u32 % 5),
                1 => step.correction = None,
                2 => step.correction = Some(ImageId(number as u32 % 5)),
                3 => step.dims.reverse(),
                4 => step.bindings.reverse(),
                5 => step.bindings.push(Binding::Intermediate(number as u32 % 3)),
                _ => step.scratch_bytes = number,
            }
        }
    }
}
