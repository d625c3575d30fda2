//! Programs and plans that several tests use.

use spyre_artifact::*;
use spyre_numerics::{DType, DataFormat};

/// `c = a + b`.
pub(crate) fn add() -> Result<Program, Error> {
    let mut code = ProgramBuilder::new();
    let i = code.dim();
    let a = code.operand(DataFormat::IeeeFp16, Access::Read, [i]);
    let b = code.operand(DataFormat::IeeeFp16, Access::Read, [i]);
    let c = code.operand(DataFormat::IeeeFp16, Access::Write, [i]);
    code.each_parallel(i, 4096, |code| {
        let left = code.load(a);
        let right = code.load(b);
        let sum = code.add(left, right);
        code.store(c, sum);
    });
    code.build()
}

/// A matrix product over one tile of k per launch, with partial sums in scratch.
pub(crate) fn matmul() -> Result<Program, Error> {
    let mut code = ProgramBuilder::new();
    let m = code.dim();
    let n = code.dim();
    let k = code.dim();
    let is_later = code.scalar_word();
    let is_last = code.scalar_word();
    let a = code.operand(DataFormat::IeeeFp16, Access::Read, [m, k]);
    let b = code.operand(DataFormat::IeeeFp16, Access::Read, [k, n]);
    let c = code.operand(DataFormat::IeeeFp16, Access::Write, [m, n]);
    let partial = code.operand(DataFormat::IeeeFp32, Access::Both, [m, n]);
    code.each_parallel(m, 64, |code| {
        code.each_parallel(n, 64, |code| {
            let sum = code.constant(Lane::F32, [m, n], 0.0);
            code.when(is_later, |code| code.load_into(sum, partial));
            code.each(k, 256, |code| code.dot(sum, a, b, k));
            code.store(partial, sum);
            code.when(is_last, |code| code.store(c, sum));
        });
    });
    code.build()
}

/// Rows divided by their sums of exponentials, the usual way: two passes over the columns.
pub(crate) fn softmax() -> Result<Program, Error> {
    let mut code = ProgramBuilder::new();
    let row = code.dim();
    let column = code.dim();
    let x = code.operand(DataFormat::Sen169Fp16, Access::Read, [row, column]);
    let y = code.operand(DataFormat::Sen169Fp16, Access::Write, [row, column]);
    code.each_parallel(row, 32, |code| {
        let largest = code.constant(Lane::F32, [row], f64::NEG_INFINITY);
        code.each(column, 512, |code| {
            let tile = code.load(x);
            code.reduce(ReduceOp::Max, largest, tile);
        });
        let sum = code.constant(Lane::F32, [row], 0.0);
        code.each(column, 512, |code| {
            let power = shifted_exp(code, x, largest);
            code.reduce(ReduceOp::Sum, sum, power);
        });
        code.each(column, 512, |code| {
            let power = shifted_exp(code, x, largest);
            let share = code.binary(BinaryOp::Div, power, sum);
            code.store(y, share);
        });
    });
    code.build()
}

fn shifted_exp(code: &mut ProgramBuilder, x: Operand, largest: Register) -> Register {
    let tile = code.load(x);
    let shifted = code.binary(BinaryOp::Sub, tile, largest);
    code.unary(UnaryOp::Exp, shifted)
}

/// A causal mask, and one of every instruction that the others do not have.
pub(crate) fn causal() -> Result<Program, Error> {
    let mut code = ProgramBuilder::new();
    let row = code.dim();
    let column = code.dim();
    let scale = code.scalar_word();
    let x = code.operand(DataFormat::BFloat16, Access::Both, [row, column]);
    code.each(row, 0, |code| {
        code.each(column, 128, |code| {
            let i = code.index(row);
            let j = code.index(column);
            let is_past = code.compare(CompareOp::LessEqual, j, i);
            let tile = code.load(x);
            let factor = code.scalar(Lane::F32, scale);
            let scaled = code.mul(tile, factor);
            let rounded = code.round(scaled, DataFormat::BFloat16);
            let hidden = code.constant(Lane::F32, Span::NONE, f64::NEG_INFINITY);
            let masked = code.select(is_past, rounded, hidden);
            let wide = code.convert(Lane::F64, masked);
            code.store_narrow(x, wide);
        });
    });
    code.build()
}

/// Store of a wide register, which is converted first.
trait StoreNarrow {
    fn store_narrow(&mut self, target: Operand, source: Register);
}

impl StoreNarrow for ProgramBuilder {
    fn store_narrow(&mut self, target: Operand, source: Register) {
        let narrow = self.convert(Lane::F32, source);
        self.store(target, narrow);
    }
}

/// A plan of two steps that share an intermediate: `d = (a + b) @ b`, tiled along k.
pub(crate) fn plan() -> Result<CompilerOutput, Error> {
    let add = add()?;
    let matmul = matmul()?;
    let (add_correction, add_words) = CompilerOutput::full_correction(&add)?;
    let (matmul_correction, mut matmul_words) = CompilerOutput::full_correction(&matmul)?;
    let flags = matmul_words.words.len() - 2;
    matmul_words.words[flags] = CorrectionWord::Flag(Dim(2), TileFlag::NotFirst);
    matmul_words.words[flags + 1] = CorrectionWord::Flag(Dim(2), TileFlag::Last);
    let codes = [
        Code::Compute(add),
        Code::Correction(add_correction),
        Code::Compute(matmul),
        Code::Correction(matmul_correction),
    ];
    let images: Result<_, _> =
        codes.into_iter().map(|code| CodeImage::new(code, Vec::new())).collect();
    Ok(CompilerOutput {
        images: images?,
        tensor_input_metadata: vec![
            tensor("a", &["m", "k"], Role::Input),
            tensor("b", &["k", "n"], Role::Input),
            tensor("d", &["m", "n"], Role::Output),
            tensor("flat", &["i"], Role::Input),
        ],
        intermediates: vec![
            intermediate("sum", DataFormat::IeeeFp16, &["i"]),
            intermediate("partial", DataFormat::IeeeFp32, &["m", "n"]),
        ],
        steps: vec![
            Step {
                name: "add".into(),
                compute: ImageId(0),
                correction: Some(ImageId(1)),
                dims: vec!["i".into()],
                bindings: vec![Binding::Tensor(3), Binding::Tensor(3), Binding::Intermediate(0)],
                scratch_bytes: 0,
            },
            Step {
                name: "matmul".into(),
                compute: ImageId(2),
                correction: Some(ImageId(3)),
                dims: ["m", "n", "k"].map(String::from).into(),
                bindings: vec![
                    Binding::Tensor(0),
                    Binding::Tensor(1),
                    Binding::Tensor(2),
                    Binding::Intermediate(1),
                ],
                scratch_bytes: 64 * 64 * 4,
            },
        ],
        correction_metadata: vec![add_words, matmul_words],
        init_packets: vec![InitPacket {
            image: InitTarget::Entry(1),
            offset: 128,
            bytes: vec![0xAB; 16],
        }],
        ..CompilerOutput::default()
    })
}

fn tensor(name: &str, dims: &[&str], role: Role) -> TensorMetadata {
    let dims = dims.iter().map(|&name| ExpectedDim {
        name: name.into(),
        size: match name {
            "k" => ExpectedSize::Fixed(std::num::NonZero::new(1024).expect("not zero")),
            _ => ExpectedSize::Any,
        },
    });
    TensorMetadata {
        name: name.into(),
        dtype: DType::Float16,
        format: DataFormat::IeeeFp16,
        dims: dims.collect(),
        role,
    }
}

fn intermediate(name: &str, format: DataFormat, dims: &[&str]) -> Intermediate {
    let dims = dims.iter().map(|&name| IntermediateDim::Named(name.into())).collect();
    Intermediate { name: name.into(), format, dims }
}
