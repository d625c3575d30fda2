//! Plans that are assembled by hand: what examples, tests and benchmarks launch.

use spyre_numerics::{DType, DataFormat};

use crate::{
    Access, BinaryOp, Binding, Code, CodeImage, CompilerOutput, Error, ExpectedSize, ImageId,
    Intermediate, IntermediateDim, Lane, Program, ProgramBuilder, Role, Step, TensorMetadata,
    TileFlag,
};

/// The elements of a plan's tensors: what the framework calls them, and how the device keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// The framework's name.
    pub dtype: DType,
    /// Format of the elements in device memory.
    pub format: DataFormat,
}

impl Elements {
    /// Kept as the host keeps them.
    pub fn exact(dtype: DType) -> Self {
        Self { dtype, format: dtype.host_format() }
    }

    fn tensor(self, name: &str, dims: &[(&str, ExpectedSize)], role: Role) -> TensorMetadata {
        TensorMetadata::new(name, self.dtype, self.format, dims, role)
    }
}

/// `c = a + b` for matrices of any size, or of a tile of `[rows, columns]`.
pub fn addition(elements: Elements, tile: Option<[u64; 2]>) -> Result<CompilerOutput, Error> {
    of_two("add", BinaryOp::Add, elements, tile)
}

/// `c = a / b` for matrices of any size, or of a tile. Integers are cut off, and a divisor of zero is a
/// fault.
pub fn division(elements: Elements, tile: Option<[u64; 2]>) -> Result<CompilerOutput, Error> {
    of_two("div", BinaryOp::Div, elements, tile)
}

/// `y = factor x + more` for matrices of any size, with two scalars at each launch.
pub fn scaling(elements: Elements) -> Result<CompilerOutput, Error> {
    let mut code = ProgramBuilder::new();
    let rows = code.dim();
    let columns = code.dim();
    let factor = code.scalar_word();
    let more = code.scalar_word();
    let x = code.operand(elements.format, Access::Read, [rows, columns]);
    let y = code.operand(elements.format, Access::Write, [rows, columns]);
    let lane = Lane::of(elements.format).unwrap_or(Lane::F32);
    code.each_parallel(rows, 16, |code| {
        code.each_parallel(columns, 256, |code| {
            let tile = code.load(x);
            let factor = code.scalar(lane, factor);
            let more = code.scalar(lane, more);
            let product = code.mul(tile, factor);
            let sum = code.add(product, more);
            code.store(y, sum);
        });
    });
    let dims = [("rows", ExpectedSize::Any), ("columns", ExpectedSize::Any)];
    let tensors =
        vec![elements.tensor("x", &dims, Role::Input), elements.tensor("y", &dims, Role::Output)];
    CompilerOutput::single("scale", code.build()?, &["rows", "columns"], tensors, Vec::new())
}

/// `c = a x b`, where a is `[m, k]` and b is `[k, n]`, of any size or of a tile of `[m, k, n]`.
///
/// A tiled launch may cut k, too: the partial sums of a tile wait in an f32 intermediate, and flags
/// say which tile is the first and which the last.
pub fn matmul(elements: Elements, tile: Option<[u64; 3]>) -> Result<CompilerOutput, Error> {
    let mut code = ProgramBuilder::new();
    let m = code.dim();
    let n = code.dim();
    let k = code.dim();
    let is_later = code.scalar_word();
    let is_last = code.scalar_word();
    let a = code.operand(elements.format, Access::Read, [m, k]);
    let b = code.operand(elements.format, Access::Read, [k, n]);
    let c = code.operand(elements.format, Access::Write, [m, n]);
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
    let program = code.build()?;
    let [m_size, k_size, n_size] = sizes(tile);
    let tensors = vec![
        elements.tensor("a", &[("m", m_size), ("k", k_size)], Role::Input),
        elements.tensor("b", &[("k", k_size), ("n", n_size)], Role::Input),
        elements.tensor("c", &[("m", m_size), ("n", n_size)], Role::Output),
    ];
    let partial = Intermediate {
        name: "partial".into(),
        format: DataFormat::IeeeFp32,
        dims: ["m", "n"].map(|name| IntermediateDim::Named(name.into())).into(),
    };
    let mut plan =
        CompilerOutput::single("matmul", program, &["m", "n", "k"], tensors, vec![partial])?;
    let metadata = plan.correction_metadata.remove(0);
    let metadata = metadata.with_flag(is_later, k, TileFlag::NotFirst);
    plan.correction_metadata.push(metadata.with_flag(is_last, k, TileFlag::Last));
    plan.check()?;
    Ok(plan)
}

/// `d = (a + b) + c` in two steps, with the first sum in memory of the plan's own.
pub fn two_additions(elements: Elements, tile: Option<[u64; 2]>) -> Result<CompilerOutput, Error> {
    let mut plan = addition(elements, tile)?;
    let [rows, columns] = sizes(tile);
    let dims = [("rows", rows), ("columns", columns)];
    plan.tensor_input_metadata = [("a", Role::Input), ("b", Role::Input), ("c", Role::Input)]
        .into_iter()
        .chain([("d", Role::Output)])
        .map(|(name, role)| elements.tensor(name, &dims, role))
        .collect();
    plan.intermediates.push(Intermediate {
        name: "sum".into(),
        format: elements.format,
        dims: ["rows", "columns"].map(|name| IntermediateDim::Named(name.into())).into(),
    });
    let [first, second] = [
        ("first", [Binding::Tensor(0), Binding::Tensor(1), Binding::Intermediate(0)]),
        ("second", [Binding::Intermediate(0), Binding::Tensor(2), Binding::Tensor(3)]),
    ]
    .map(|(name, bindings)| Step {
        name: name.into(),
        compute: ImageId(0),
        correction: Some(ImageId(1)),
        dims: vec!["rows".into(), "columns".into()],
        bindings: bindings.into(),
        scratch_bytes: 0,
    });
    plan.steps = vec![first, second];
    plan.correction_metadata.push(plan.correction_metadata[0].clone());
    plan.check()?;
    Ok(plan)
}

/// `y = sum of x` along the last dim, which a tiled launch cannot cut: no partial sum is kept.
pub fn row_sums(elements: Elements, tile: Option<[u64; 2]>) -> Result<CompilerOutput, Error> {
    let mut code = ProgramBuilder::new();
    let rows = code.dim();
    let columns = code.dim();
    let x = code.operand(elements.format, Access::Read, [rows, columns]);
    let y = code.operand(elements.format, Access::Write, [rows]);
    code.each_parallel(rows, 64, |code| {
        let sum = code.constant(Lane::F32, [rows], 0.0);
        code.each(columns, 1024, |code| {
            let tile = code.load(x);
            code.reduce(crate::ReduceOp::Sum, sum, tile);
        });
        code.store(y, sum);
    });
    let [row_size, column_size] = sizes(tile);
    let tensors = vec![
        elements.tensor("x", &[("rows", row_size), ("columns", column_size)], Role::Input),
        elements.tensor("y", &[("rows", row_size)], Role::Output),
    ];
    CompilerOutput::single("row_sums", code.build()?, &["rows", "columns"], tensors, Vec::new())
}

/// A plan whose extents are fixed when an instance is made: it takes no part of a tile.
pub fn fixed_addition(elements: Elements, tile: [u64; 2]) -> Result<CompilerOutput, Error> {
    use crate::{
        CorrectionMetadata, CorrectionProgram, CorrectionWord, InitPacket, InitTarget, Patch,
    };
    let mut plan = addition(elements, Some(tile))?;
    let shape = program_of_two(BinaryOp::Add, elements.format)?.table_shape();
    let first = shape.extent_word(crate::Dim(0));
    let operand_words: Vec<CorrectionWord> = plan.correction_metadata[0].words[..first].to_vec();
    let words = first as u32;
    let patch = Patch { source_word: 0, target_word: 0, words };
    let correction = CorrectionProgram::new(words, shape.words() as u32, vec![patch])?;
    plan.images[1] = CodeImage::new(Code::Correction(correction), Vec::new())?;
    plan.correction_metadata = vec![CorrectionMetadata::new(operand_words)];
    plan.init_packets = vec![InitPacket {
        image: InitTarget::Entry(0),
        offset: (crate::HEADER_BYTES + 8 * first) as u64,
        bytes: tile.iter().flat_map(|extent| extent.to_le_bytes()).collect(),
    }];
    plan.check()?;
    Ok(plan)
}

fn of_two(
    name: &str,
    op: BinaryOp,
    elements: Elements,
    tile: Option<[u64; 2]>,
) -> Result<CompilerOutput, Error> {
    let [rows, columns] = sizes(tile);
    let dims = [("rows", rows), ("columns", columns)];
    let tensors = vec![
        elements.tensor("a", &dims, Role::Input),
        elements.tensor("b", &dims, Role::Input),
        elements.tensor("c", &dims, Role::Output),
    ];
    let program = program_of_two(op, elements.format)?;
    CompilerOutput::single(name, program, &["rows", "columns"], tensors, Vec::new())
}

fn program_of_two(op: BinaryOp, format: DataFormat) -> Result<Program, Error> {
    let mut code = ProgramBuilder::new();
    let rows = code.dim();
    let columns = code.dim();
    let [a, b] = [(); 2].map(|()| code.operand(format, Access::Read, [rows, columns]));
    let c = code.operand(format, Access::Write, [rows, columns]);
    code.each_parallel(rows, 16, |code| {
        code.each_parallel(columns, 256, |code| {
            let left = code.load(a);
            let right = code.load(b);
            let result = code.binary(op, left, right);
            code.store(c, result);
        });
    });
    code.build()
}

fn sizes<const N: usize>(tile: Option<[u64; N]>) -> [ExpectedSize; N] {
    let size = |elements: u64| ExpectedSize::fixed(elements).unwrap_or(ExpectedSize::Any);
    tile.map_or([ExpectedSize::Any; N], |tile| tile.map(size))
}
