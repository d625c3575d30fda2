//! Random kernels: arithmetic that is exact in every order, so results must be equal.

mod access;

use proptest::prelude::*;
use spyre::artifact::{BinaryOp, CompareOp, Constant, Lane, OrderOp, ReduceOp, ScanOp, UnaryOp};
use spyre::compiler::{
    DimId, DimSet, Kernel, KernelBuilder, OperandId, Refusal, Role, Seek, ValueId,
};
use spyre::numerics::DType;

use crate::bed::{Bed, Tolerance, arrays_of};

const EXTENTS: [usize; 13] = [1, 2, 5, 33, 63, 64, 65, 129, 2, 5, 33, 64, 0];

/// The interpreter is slow.
const MOST_PLACES: usize = 1000;

/// Enough for work to be divided among threads.
const LARGE_EXTENTS: [usize; 6] = [65, 129, 300, 1000, 2, 4000];
const MOST_LARGE_PLACES: usize = 150_000;

const FLOATS: [DType; 2] = [DType::Float32, DType::Float64];

/// Past this, sums of a few thousand would need more bits than an f32 has.
const LARGEST: f64 = 300.0;

/// Choices, one after the other; zeros when there are no more.
struct Choices<'a>(std::slice::Iter<'a, u32>);

impl Choices<'_> {
    fn below(&mut self, limit: usize) -> usize {
        self.0.next().copied().unwrap_or(0) as usize % limit.max(1)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// A value and how large it can be.
#[derive(Clone, Copy)]
struct Known {
    value: ValueId,
    lane: Lane,
    most: f64,
}

struct Maker<'a> {
    choices: Choices<'a>,
    builder: KernelBuilder,
    dims: Vec<DimId>,
    extents: Vec<usize>,
    values: Vec<Known>,
    /// Operands that can be loaded, with their dims and lanes.
    operands: Vec<(OperandId, Vec<DimId>, Lane)>,
    /// Lengths that dims may have, and the most places that they may have together.
    sizes: (&'static [usize], usize),
}

impl Maker<'_> {
    fn kernel(mut self) -> Result<(Kernel, Vec<usize>), Refusal> {
        for at in 0..=self.choices.below(3) {
            self.dims.push(self.builder.dim(&format!("d{at}"))?);
            let so_far: usize = self.extents.iter().product();
            let extent = self.choices.pick(self.sizes.0);
            self.extents.push(if so_far * extent > self.sizes.1 { 2 } else { extent });
        }
        for at in 0..=self.choices.below(3) {
            let dims = self.some_dims();
            let dtype = self.choices.pick(&[FLOATS[0], FLOATS[0], FLOATS[1], DType::Int64]);
            let operand = self.builder.operand(&format!("x{at}"), Role::In, dtype, &dims)?;
            let value = self.builder.load(operand)?;
            self.know(value, 5.0)?;
            let lane = self.builder.value(value)?.lane;
            self.operands.push((operand, dims, lane));
        }
        for _ in 0..self.choices.below(12) {
            self.step()?;
        }
        for at in 0..=self.choices.below(2) {
            let known = self.any_value();
            let span = self.builder.value(known.value)?.span;
            let dims: Vec<DimId> = span.iter().collect();
            let dtype = match known.lane {
                Lane::F32 => DType::Float32,
                Lane::F64 => self.choices.pick(&FLOATS),
                Lane::I64 => DType::Int64,
                _ => DType::Bool,
            };
            let operand = self.builder.operand(&format!("y{at}"), Role::Out, dtype, &dims)?;
            self.builder.store(operand, known.value)?;
        }
        if self.choices.below(2) == 1 {
            self.store_anywhere("z")?;
        }
        // Each dim must be a dim of a tensor.
        let whole = self.dims.clone();
        let all = self.builder.operand("whole", Role::In, DType::Int8, &whole)?;
        let _ = self.builder.load(all)?;
        Ok((self.builder.build()?, self.extents))
    }

    fn step(&mut self) -> Result<(), Refusal> {
        let Known { value, lane, most } = self.any_value();
        let is_number = lane != Lane::Bool;
        match self.choices.below(14) {
            0 if is_number => {
                let op =
                    self.choices.pick(&[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Sign, UnaryOp::Relu]);
                let made = self.builder.unary(op, value)?;
                self.know(made, most)
            }
            1 | 2 if is_number => self.join(value, lane, most),
            3 if is_number => self.compare(value, lane),
            4 => self.reduce(value, lane, most),
            5 => self.select(value, lane, most),
            6 if is_number => self.scan(value, lane, most),
            7 => self.seek(value),
            8 => self.sort(value, most),
            9 => self.size_or_random(value, lane),
            10 | 11 => self.load_anywhere(),
            _ => {
                let to = self.choices.pick(&[Lane::F32, Lane::F64, Lane::I64, Lane::Bool]);
                let made = self.builder.convert(to, value)?;
                self.know(made, most.max(1.0))
            }
        }
    }

    fn join(&mut self, value: ValueId, lane: Lane, most: f64) -> Result<(), Refusal> {
        let Some(other) = self.value_of(lane) else { return Ok(()) };
        let op = self.choices.pick(&[
            BinaryOp::Add,
            BinaryOp::Sub,
            BinaryOp::Mul,
            BinaryOp::Min,
            BinaryOp::Max,
        ]);
        let largest = match op {
            BinaryOp::Mul => most * other.most,
            BinaryOp::Add | BinaryOp::Sub => most + other.most,
            _ => most.max(other.most),
        };
        if largest > LARGEST {
            return Ok(());
        }
        let made = self.builder.binary(op, value, other.value)?;
        self.know(made, largest)
    }

    fn compare(&mut self, value: ValueId, lane: Lane) -> Result<(), Refusal> {
        let Some(other) = self.value_of(lane) else { return Ok(()) };
        let op = self.choices.pick(CompareOp::ALL);
        let made = self.builder.compare(op, value, other.value)?;
        self.know(made, 1.0)
    }

    fn select(&mut self, value: ValueId, lane: Lane, most: f64) -> Result<(), Refusal> {
        let condition = self.value_of(Lane::Bool);
        let other = self.value_of(lane);
        let (Some(condition), Some(other)) = (condition, other) else { return Ok(()) };
        let made = self.builder.select(condition.value, value, other.value)?;
        self.know(made, most.max(other.most))
    }

    fn reduce(&mut self, value: ValueId, lane: Lane, most: f64) -> Result<(), Refusal> {
        let span = self.builder.value(value)?.span;
        let over: DimSet = span.iter().filter(|_| self.choices.below(2) == 0).collect();
        let op = match lane {
            Lane::Bool => self.choices.pick(&[ReduceOp::Any, ReduceOp::All]),
            _ => self.choices.pick(&[ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max]),
        };
        let count: usize = over.iter().map(|dim| self.extents[usize::from(dim.0)]).product();
        let largest = if op == ReduceOp::Sum { most * count as f64 } else { most };
        if over.is_empty() || largest > LARGEST {
            return Ok(());
        }
        let made = self.builder.reduce(op, over, value)?;
        self.know(made, largest)
    }

    fn scan(&mut self, value: ValueId, lane: Lane, most: f64) -> Result<(), Refusal> {
        let Some(dim) = self.dim_of(value)? else { return Ok(()) };
        let op = self.choices.pick(&[ScanOp::Sum, ScanOp::Min, ScanOp::Max, ScanOp::Product]);
        let extent = self.extents[usize::from(dim.0)];
        let largest = match op {
            ScanOp::Sum => most * extent as f64,
            ScanOp::Product => most.powi(extent as i32),
            _ => most,
        };
        if largest > LARGEST && !(op == ScanOp::Product && lane == Lane::I64) {
            return Ok(());
        }
        let made = self.builder.scan(op, dim, value)?;
        self.know(made, largest)
    }

    fn seek(&mut self, value: ValueId) -> Result<(), Refusal> {
        let Some(dim) = self.dim_of(value)? else { return Ok(()) };
        let seek = self.choices.pick(&Seek::ALL);
        let made = self.builder.seek(seek, dim, value)?;
        self.know(made, self.extents[usize::from(dim.0)] as f64)
    }

    fn sort(&mut self, value: ValueId, most: f64) -> Result<(), Refusal> {
        let Some(dim) = self.dim_of(value)? else { return Ok(()) };
        let op = self.choices.pick(OrderOp::ALL);
        let made = self.builder.sort(op, dim, value)?;
        self.know(made, most)
    }

    /// Adds the length of a dim, or a few random bits for each of some numbers.
    fn size_or_random(&mut self, value: ValueId, lane: Lane) -> Result<(), Refusal> {
        if lane != Lane::I64 || self.choices.below(2) == 0 {
            let dims = self.dims.clone();
            let dim = self.choices.pick(&dims);
            let made = self.builder.size(dim)?;
            return self.know(made, self.extents[usize::from(dim.0)] as f64);
        }
        let seed =
            self.builder.constant(Lane::I64, Constant::Int(self.choices.below(1000) as i64))?;
        let word = self.choices.below(4) as u8;
        let bits = match self.choices.below(3) {
            0 => self.builder.random(value, seed, seed, word)?,
            1 => self.builder.random(seed, value, seed, word)?,
            _ => self.builder.random(seed, seed, value, word)?,
        };
        let few = self.builder.constant(Lane::I64, Constant::Int(7))?;
        let made = self.builder.binary(BinaryOp::And, bits, few)?;
        self.know(made, 7.0)
    }

    /// A dim that a value differs along.
    fn dim_of(&mut self, value: ValueId) -> Result<Option<DimId>, Refusal> {
        let dims: Vec<DimId> = self.builder.value(value)?.span.iter().collect();
        Ok(if dims.is_empty() { None } else { Some(self.choices.pick(&dims)) })
    }

    fn know(&mut self, value: ValueId, most: f64) -> Result<(), Refusal> {
        let lane = self.builder.value(value)?.lane;
        self.values.push(Known { value, lane, most });
        Ok(())
    }

    fn any_value(&mut self) -> Known {
        // The newest are likelier, so that chains grow.
        let back = self.choices.below(self.values.len()).min(self.choices.below(self.values.len()));
        self.values[self.values.len() - 1 - back]
    }

    fn value_of(&mut self, lane: Lane) -> Option<Known> {
        let fitting: Vec<Known> =
            self.values.iter().copied().filter(|known| known.lane == lane).collect();
        if fitting.is_empty() { None } else { Some(self.choices.pick(&fitting)) }
    }

    fn some_dims(&mut self) -> Vec<DimId> {
        let dims = self.dims.clone();
        dims.into_iter().filter(|_| self.choices.below(4) > 0).collect()
    }
}

fn made(choices: &[u32]) -> Result<(Kernel, Vec<usize>), Refusal> {
    made_of(choices, (&EXTENTS, MOST_PLACES))
}

fn made_of(
    choices: &[u32],
    sizes: (&'static [usize], usize),
) -> Result<(Kernel, Vec<usize>), Refusal> {
    Maker {
        choices: Choices(choices.iter()),
        builder: KernelBuilder::new("made_up"),
        dims: Vec::new(),
        extents: Vec::new(),
        values: Vec::new(),
        operands: Vec::new(),
        sizes,
    }
    .kernel()
}

thread_local! {
    static BED: Bed = Bed::open().expect("a card");
    static THREADED: [Bed; 3] =
        [1, 2, 7].map(|threads| Bed::with_threads(threads).expect("a card"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn a_random_kernel_gives_what_the_interpreter_gives(
        choices in prop::collection::vec(any::<u32>(), 0..80)
    ) {
        let (kernel, extents) = made(&choices).expect("a kernel");
        let scalars: [Constant; 0] = [];
        BED.with(|bed| bed.check_kernel(&kernel, &extents, &scalars, Tolerance::None))
            .unwrap_or_else(|error| panic!("{error}\n{kernel}"));
    }

    #[test]
    fn the_text_of_a_random_kernel_is_a_kernel_with_that_text(
        choices in prop::collection::vec(any::<u32>(), 0..80)
    ) {
        let (kernel, _) = made(&choices).expect("a kernel");
        let text = kernel.to_string();
        let again: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
        prop_assert_eq!(again.to_string(), text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_random_kernel_gives_the_same_bits_on_one_two_and_seven_threads(
        choices in prop::collection::vec(any::<u32>(), 20..80)
    ) {
        let (kernel, extents) =
            made_of(&choices, (&LARGE_EXTENTS, MOST_LARGE_PLACES)).expect("a kernel");
        let arrays = arrays_of(&kernel, &extents);
        let [one, two, seven] = THREADED.with(|beds| beds.each_ref().map(|bed| {
            bed.run(&kernel, &[], &arrays).unwrap_or_else(|error| panic!("{error}\n{kernel}"))
        }));
        prop_assert!(one == two && one == seven, "{}", kernel);
    }
}
