//! Good plans and programs, to be damaged.

use spyre_artifact::samples::{self, Elements};
use spyre_artifact::{
    Access, BinaryOp, CompareOp, CompilerOutput, Error, ExpectedSize, Lane, OrderOp, Program,
    ProgramBuilder, ReduceOp, Role, ScanOp, SeekOp, TensorMetadata, UnaryOp,
};
use spyre_numerics::DType;
use spyre_numerics::DataFormat::{IeeeFp16, IeeeFp32, IeeeInt64};

/// A good plan, and shapes that it takes.
pub(crate) struct Sample {
    pub(crate) output: CompilerOutput,
    pub(crate) shapes: Vec<Vec<usize>>,
    pub(crate) scalars: Vec<u64>,
}

/// Plans of every kind that there is: one step and two, tiles, intermediates, flags, init packets.
pub(crate) fn plans() -> Vec<Sample> {
    let f32 = Elements::exact(DType::Float32);
    let f16 = Elements::exact(DType::Float16);
    let plain = |output: Result<CompilerOutput, Error>, shapes: &[&[usize]]| Sample {
        output: output.expect("a good plan"),
        shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
        scalars: Vec::new(),
    };
    vec![
        plain(samples::addition(f32, None), &[[9, 40].as_slice(); 3]),
        plain(samples::addition(f16, Some([4, 32])), &[[7, 70].as_slice(); 3]),
        plain(samples::matmul(f32, None), &[&[9, 33], &[33, 40], &[9, 40]]),
        plain(samples::matmul(f16, Some([8, 16, 32])), &[&[9, 33], &[33, 40], &[9, 40]]),
        plain(samples::two_additions(f32, None), &[[5, 33].as_slice(); 4]),
        plain(samples::row_sums(f32, None), &[&[9, 65], &[9]]),
        plain(samples::fixed_addition(f32, [8, 40]), &[[8, 40].as_slice(); 3]),
        everything_plan(),
    ]
}

fn everything_plan() -> Sample {
    let tensor = |name: &str, dtype: DType, dims: &[&str], role| {
        let dims: Vec<_> = dims.iter().map(|name| (*name, ExpectedSize::Any)).collect();
        TensorMetadata::new(name, dtype, dtype.host_format(), &dims, role)
    };
    let tensors = vec![
        tensor("a", DType::Float16, &["m", "k"], Role::Input),
        tensor("b", DType::Float32, &["k", "n"], Role::Input),
        tensor("c", DType::Float32, &["m", "n"], Role::Both),
        tensor("counts", DType::Int64, &["m"], Role::Output),
    ];
    let names = ["m", "n", "k"];
    let output = CompilerOutput::single("everything", everything(), &names, tensors, Vec::new());
    let shapes = vec![vec![9, 33], vec![33, 40], vec![9, 40], vec![9]];
    Sample { output: output.expect("a good plan"), shapes, scalars: vec![1, 35] }
}

/// A little of everything: loops, loads, a product, reductions, choices, stores.
pub(crate) fn everything() -> Program {
    let mut code = ProgramBuilder::new();
    let m = code.dim();
    let n = code.dim();
    let k = code.dim();
    let flag = code.scalar_word();
    let limit = code.scalar_word();
    let a = code.operand(IeeeFp16, Access::Read, [m, k]);
    let b = code.operand(IeeeFp32, Access::Read, [k, n]);
    let c = code.operand(IeeeFp32, Access::Both, [m, n]);
    let counts = code.operand(IeeeInt64, Access::Write, [m]);
    code.each_parallel(m, 4, |code| {
        code.each(n, 30, |code| {
            let sum = code.constant(Lane::F32, [m, n], 0.0);
            code.when(flag, |code| code.load_into(sum, c));
            code.each(k, 16, |code| code.dot(sum, a, b, k));
            let root = code.unary(UnaryOp::Exp, sum);
            let place = code.index(n);
            let limit = code.scalar(Lane::I64, limit);
            let is_early = code.compare(CompareOp::Less, place, limit);
            let chosen = code.select(is_early, root, sum);
            let chosen = code.round(chosen, IeeeFp16);
            code.store(c, chosen);
        });
        let count = code.constant(Lane::I64, [m], 0_i64);
        let [best, at] = [0, -1].map(|start: i64| code.constant(Lane::I64, [m], start));
        let carry = code.constant(Lane::F64, [m], 0.0);
        code.each(k, 0, |code| {
            let tile = code.load(a);
            let [places, sorted] = code.order(OrderOp::Descending, tile, k);
            let summed = code.scan(ScanOp::Sum, sorted, carry, k);
            let summed = code.convert(Lane::I64, summed);
            let length = code.extent(k);
            let index = code.index(k);
            let bits = code.random(1, summed, length, index);
            let mixed = code.binary(BinaryOp::Xor, bits, places);
            code.seek(SeekOp::ArgMax, best, at, mixed, k);
            code.reduce(ReduceOp::Max, count, mixed);
        });
        let count = code.add(count, at);
        code.store(counts, count);
    });
    code.build().expect("it follows the rules")
}
