use std::path::Path;

use super::{
    Binding, CompilerOptions, CorrectionMetadata, ExpectedSize, ImageId, InitPacket, Intermediate,
    Step, TensorMetadata, check, files, folder,
};
use crate::Error;
use crate::isa::{Code, CodeImage, CorrectionProgram, Program};

/// The version of the plan's form.
pub const FORMAT_VERSION: u32 = 1;

/// A whole plan: steps, the images that they name, and what launches need to know.
///
/// As files it is a folder: `plan.json`, and one binary per image.
///
/// ```
/// use spyre_artifact::*;
/// use spyre_numerics::{DType, DataFormat::IeeeFp16};
///
/// let mut code = ProgramBuilder::new();
/// let n = code.dim();
/// let x = code.operand(IeeeFp16, Access::Both, [n]);
/// code.each_parallel(n, 4096, |code| {
///     let tile = code.load(x);
///     let root = code.unary(UnaryOp::Sqrt, tile);
///     code.store(x, root);
/// });
/// let program = code.build()?;
///
/// let dims = [("n", ExpectedSize::Any)];
/// let x = TensorMetadata::new("x", DType::Float16, IeeeFp16, &dims, Role::Both);
/// let plan = CompilerOutput::single("sqrt_", program, &["n"], vec![x], Vec::new())?;
///
/// let folder = std::env::temp_dir().join(format!("sqrt-plan-{}", std::process::id()));
/// plan.save(&folder)?;
/// assert_eq!(CompilerOutput::load(&folder)?, plan);
/// # let _ = std::fs::remove_dir_all(&folder);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompilerOutput {
    /// Options that the compiler was given.
    pub options: CompilerOptions,
    /// Shared code; [`ImageId`]s are places in this list.
    pub images: Vec<CodeImage>,
    /// The tensors that a launch is given, in order: the segment table.
    pub tensor_input_metadata: Vec<TensorMetadata>,
    /// Device memory of the plan's own.
    pub intermediates: Vec<Intermediate>,
    /// Steps that run, in order.
    pub steps: Vec<Step>,
    /// Per step, what its correction is given.
    pub correction_metadata: Vec<CorrectionMetadata>,
    /// Bytes that are written when an instance is made.
    pub init_packets: Vec<InitPacket>,
}

impl CompilerOutput {
    /// A plan of one step that patches its whole table at each launch: operands are the tensors, and
    /// behind them the intermediates, in order.
    pub fn single(
        name: &str,
        program: Program,
        dims: &[&str],
        tensors: Vec<TensorMetadata>,
        intermediates: Vec<Intermediate>,
    ) -> Result<Self, Error> {
        let (correction, metadata) = Self::full_correction(&program)?;
        let of_tensors = (0..tensors.len() as u32).map(Binding::Tensor);
        let of_intermediates = (0..intermediates.len() as u32).map(Binding::Intermediate);
        let plan = Self {
            images: vec![
                CodeImage::new(Code::Compute(program), Vec::new())?,
                CodeImage::new(Code::Correction(correction), Vec::new())?,
            ],
            steps: vec![Step {
                name: name.to_owned(),
                compute: ImageId(0),
                correction: Some(ImageId(1)),
                dims: dims.iter().copied().map(str::to_owned).collect(),
                bindings: of_tensors.chain(of_intermediates).collect(),
                scratch_bytes: 0,
            }],
            correction_metadata: vec![metadata],
            tensor_input_metadata: tensors,
            intermediates,
            ..Self::default()
        };
        plan.check()?;
        Ok(plan)
    }

    /// Refuses a plan whose parts do not belong together.
    pub fn check(&self) -> Result<(), Error> {
        check::check(self)
    }

    /// Writes the plan to a folder that is not there yet: all of it, or nothing.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), Error> {
        self.check()?;
        folder::save(self, folder.as_ref())
    }

    /// Reads a plan and checks all of it.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, Error> {
        folder::load(folder.as_ref())
    }

    /// Like [`save`](Self::save), but returns names and bytes: nothing is written.
    pub fn to_files(&self) -> Result<Vec<(String, Vec<u8>)>, Error> {
        self.check()?;
        files::of_plan(self)
    }

    /// Like [`load`](Self::load), from files that `file` gives by their names.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use spyre_artifact::CompilerOutput;
    /// use spyre_artifact::samples::{Elements, addition};
    /// use spyre_numerics::DType;
    ///
    /// let plan = addition(Elements::exact(DType::Float32), None)?;
    /// let files: BTreeMap<String, Vec<u8>> = plan.to_files()?.into_iter().collect();
    /// assert_eq!(CompilerOutput::from_files(|name| files.get(name))?, plan);
    /// # Ok::<(), spyre_artifact::Error>(())
    /// ```
    pub fn from_files<B: AsRef<[u8]>>(file: impl Fn(&str) -> Option<B>) -> Result<Self, Error> {
        files::from_files(file)
    }

    /// Number of programs that run for tensors of these extents: each step once, or once for every tile.
    pub fn launches(&self, extent: impl Fn(&str) -> Option<u64>) -> u64 {
        let tiles = |dim: &String| {
            let mut sizes = self.tensor_input_metadata.iter().flat_map(|tensor| &tensor.dims);
            let expected = sizes.find(|expected| expected.name == *dim);
            match (expected.map(|expected| expected.size), extent(dim)) {
                (Some(ExpectedSize::Fixed(tile)), Some(extent)) => {
                    extent.div_ceil(tile.get()).max(1)
                }
                _ => 1,
            }
        };
        let of_step = |step: &Step| step.dims.iter().map(tiles).fold(1, u64::saturating_mul);
        self.steps.iter().map(of_step).fold(0, u64::saturating_add)
    }

    /// The compute program in an image.
    pub fn program(&self, image: ImageId) -> Option<&Program> {
        self.images.get(image.0 as usize)?.program()
    }

    /// The correction program in an image.
    pub fn correction(&self, image: ImageId) -> Option<&CorrectionProgram> {
        self.images.get(image.0 as usize)?.correction()
    }

    /// The correction that patches a program's whole table, in the order of the table.
    pub fn full_correction(
        program: &Program,
    ) -> Result<(CorrectionProgram, CorrectionMetadata), Error> {
        let shape = program.table_shape();
        let metadata = CorrectionMetadata::full(shape);
        let words = shape.words() as u32;
        let patch = crate::isa::Patch { source_word: 0, target_word: 0, words };
        Ok((CorrectionProgram::new(words, words, vec![patch])?, metadata))
    }
}
