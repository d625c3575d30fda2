//! From a kernel to a plan.

mod along;
mod error;
mod nest;
mod product;
mod registers;
mod scope;
mod tiles;

use spyre_artifact::{
    Access, CompilerOutput, ExpectedSize, Intermediate, IntermediateDim, Lane, ProgramBuilder,
    Span, TensorMetadata,
};
use spyre_numerics::{DataFormat, Profile};

use crate::{DimId, DimSet, Expression, Kernel, Operand, Role, Store, StoreMode, ValueId};

pub use error::CompileError;
use nest::Stuck;

/// What plans are compiled for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CompileOptions {
    /// How the device keeps elements.
    pub profile: Profile,
}

impl Kernel {
    /// A plan that does what the kernel says, for tensors of any extents.
    ///
    /// ```
    /// use spyre_compiler::{CompileOptions, Kernel};
    ///
    /// let double: Kernel = "kernel double(i) {
    ///     in x: float32[i]
    ///     out y: float32[i]
    ///     y = x * 2
    /// }".parse()?;
    /// let plan = double.compile(&CompileOptions::default())?;
    /// assert_eq!(plan.steps[0].name, "double");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compile(&self, options: &CompileOptions) -> Result<CompilerOutput, CompileError> {
        check_plain(self)?;
        let merged = self.merged();
        let mut keep = Vec::new();
        loop {
            match merged.compile_keeping(options, &keep) {
                Ok(plan) => return Ok(plan),
                Err(Stuck::Error(error)) => return Err(error),
                // What it is made from comes before it.
                Err(Stuck::Keep(value)) if !keep.contains(&value) => {
                    keep.push(value);
                    keep.sort_unstable();
                }
                Err(Stuck::Keep(_)) => return Err(CompileError::Nest),
            }
        }
    }

    fn compile_keeping(
        &self,
        options: &CompileOptions,
        keep: &[ValueId],
    ) -> Result<CompilerOutput, Stuck> {
        let mut code = ProgramBuilder::with_registers_to_share();
        let used = used_dims(self);
        let mut dims = [None; DimSet::MOST];
        used.iter().for_each(|dim| dims[usize::from(dim.0)] = Some(code.dim()));
        let span = |own: &mut dyn Iterator<Item = DimId>| {
            Span::of(&own.filter_map(|dim| dims[usize::from(dim.0)]).collect::<Vec<_>>())
        };
        let mut operands = Vec::new();
        for operand in self.operands() {
            let format = options.profile.supported_format(operand.dtype)?;
            let access = match operand.role {
                Role::In => Access::Read,
                Role::Out => Access::Write,
                Role::InOut => Access::Both,
            };
            let span = span(&mut operand.dims.iter().copied());
            operands.push((code.operand(format, access, span), format));
        }
        let mut kept = Vec::new();
        let mut intermediates = Vec::new();
        for &value in keep {
            let known = self.value(value);
            let format = kept_format(known.lane);
            kept.push((value, code.operand(format, Access::Both, span(&mut known.span.iter()))));
            let named = |dim| IntermediateDim::Named(self.dim_name(dim).to_owned());
            let dims = known.span.iter().map(named).collect();
            intermediates.push(Intermediate { name: format!("kept {}", value.0), format, dims });
        }
        let scalars = self.scalars().iter().map(|_| code.scalar_word()).collect();
        let nest = nest::Nest::new(self, options.profile, dims, operands, scalars);
        nest.write(&mut code, &kept)?;
        let names: Vec<&str> = used.iter().map(|dim| self.dim_name(dim)).collect();
        let tensors = self.operands().iter().map(|operand| self.metadata(operand, options));
        let tensors = tensors.collect::<Result<Vec<_>, CompileError>>()?;
        let mut draft = code.draft()?;
        registers::share(&mut draft);
        let program = draft.verify()?;
        let mut plan =
            CompilerOutput::single(self.name(), program, &names, tensors, intermediates)?;
        plan.options.profile = options.profile;
        Ok(plan)
    }

    fn metadata(
        &self,
        operand: &Operand,
        options: &CompileOptions,
    ) -> Result<TensorMetadata, CompileError> {
        let format = options.profile.supported_format(operand.dtype)?;
        let dims: Vec<_> =
            operand.dims.iter().map(|&dim| (self.dim_name(dim), ExpectedSize::Any)).collect();
        let role = match operand.role {
            Role::In => spyre_artifact::Role::Input,
            Role::Out => spyre_artifact::Role::Output,
            Role::InOut => spyre_artifact::Role::Both,
        };
        Ok(TensorMetadata::new(&operand.name, operand.dtype, format, &dims, role))
    }
}

/// How a value is kept: as it is.
fn kept_format(lane: Lane) -> DataFormat {
    match lane {
        Lane::F64 => DataFormat::IeeeFp64,
        Lane::I64 => DataFormat::IeeeInt64,
        Lane::Bool => DataFormat::Bool,
        _ => DataFormat::IeeeFp32,
    }
}

/// The dims that something differs along: others are extents that nobody walks over.
fn used_dims(kernel: &Kernel) -> DimSet {
    let of_operands = kernel.operands().iter().flat_map(|operand| operand.dims.iter().copied());
    of_operands.collect()
}

/// Refuses what no program can say yet.
fn check_plain(kernel: &Kernel) -> Result<(), CompileError> {
    let used = used_dims(kernel);
    for value in kernel.values() {
        if let Some(dim) = value.span.minus(used).iter().next() {
            return Err(CompileError::Extent { dim: kernel.dim_name(dim).to_owned() });
        }
        match &value.expression {
            Expression::Load { operand, axes, otherwise } => {
                let known = kernel.operand(*operand);
                if otherwise.is_some() || !is_own(kernel, axes, &known.dims) {
                    return Err(CompileError::Access { operand: known.name.clone() });
                }
            }
            Expression::Size(dim) if !used.contains(*dim) => {
                return Err(CompileError::Extent { dim: kernel.dim_name(*dim).to_owned() });
            }
            _ => {}
        }
    }
    kernel.stores().iter().try_for_each(|store| check_store(kernel, store))
}

fn check_store(kernel: &Kernel, store: &Store) -> Result<(), CompileError> {
    let known = kernel.operand(store.operand);
    let operand = || known.name.clone();
    if !is_own(kernel, &store.axes, &known.dims) {
        return Err(CompileError::Access { operand: operand() });
    }
    if store.mode != StoreMode::Set {
        return Err(CompileError::Operation { name: store.mode.sign() });
    }
    match store.condition.is_some() && known.role != Role::InOut {
        true => Err(CompileError::Condition { operand: operand() }),
        false => Ok(()),
    }
}

/// Whether coordinates are those of the tensor's own dims, each of which it has once.
fn is_own(kernel: &Kernel, axes: &[ValueId], dims: &[DimId]) -> bool {
    let is_once = dims.iter().copied().collect::<DimSet>().iter().count() == dims.len();
    let is_index =
        |(&axis, &dim): (&ValueId, &DimId)| kernel.value(axis).expression == Expression::Index(dim);
    is_once && axes.iter().zip(dims).all(is_index)
}
