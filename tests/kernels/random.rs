//! Random kernels: arithmetic that is exact in every order, so results must be equal.

use proptest::prelude::*;
use spyre::artifact::{BinaryOp, CompareOp, Constant, Lane, ReduceOp, UnaryOp};
use spyre::compiler::{DimId, DimSet, Kernel, KernelBuilder, Refusal, Role, ValueId};
use spyre::numerics::DType;

use crate::bed::{Bed, Tolerance};

const EXTENTS: [usize; 6] = [1, 2, 5, 33, 64, 65];

/// The interpreter is slow.
const MOST_PLACES: usize = 1000;

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
}

impl Maker<'_> {
    fn kernel(mut self) -> Result<(Kernel, Vec<usize>), Refusal> {
        for at in 0..=self.choices.below(3) {
            self.dims.push(self.builder.dim(&format!("d{at}"))?);
            let so_far: usize = self.extents.iter().product();
            let extent = self.choices.pick(&EXTENTS);
            self.extents.push(if so_far * extent > MOST_PLACES { 2 } else { extent });
        }
        for at in 0..=self.choices.below(3) {
            let dims = self.some_dims();
            let dtype = self.choices.pick(&[FLOATS[0], FLOATS[0], FLOATS[1], DType::Int64]);
            let operand = self.builder.operand(&format!("x{at}"), Role::In, dtype, &dims)?;
            let value = self.builder.load(operand)?;
            self.know(value, 5.0)?;
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
        // A dim that no tensor has is nobody's.
        let whole = self.dims.clone();
        let all = self.builder.operand("whole", Role::In, DType::Int8, &whole)?;
        let _ = self.builder.load(all)?;
        Ok((self.builder.build()?, self.extents))
    }

    fn step(&mut self) -> Result<(), Refusal> {
        let Known { value, lane, most } = self.any_value();
        let is_number = lane != Lane::Bool;
        match self.choices.below(7) {
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
        let (condition, other) = (self.value_of(Lane::Bool), self.value_of(lane));
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
    Maker {
        choices: Choices(choices.iter()),
        builder: KernelBuilder::new("random"),
        dims: Vec::new(),
        extents: Vec::new(),
        values: Vec::new(),
    }
    .kernel()
}

thread_local! {
    static BED: Bed = Bed::open().expect("a card");
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
