//! Lowering of a kernel to a plan.

mod access;
mod error;
mod hoist_loads;
mod mask_bounds;
mod nest;
mod online_softmax;
mod partials;
mod pressure;
mod product;
mod registers;
mod restickify_steps;
mod reuse;
mod scans;
mod scope;
mod shared_loops;
mod short_scalars;
mod tile_order;
mod tileable_dims;
mod tiles;

use std::num::NonZeroU32;

use spyre_artifact::{
    Access, CompilerOutput, ExpectedSize, Intermediate, IntermediateDim, Lane, MAX_REGISTERS,
    ProgramBuilder, Span, TensorMetadata,
};
use spyre_numerics::{DataFormat, Profile};

use crate::{DimId, DimSet, Expression, Kernel, OperandId, Role, ValueId};

use access::Axes;
pub use error::CompileError;
use nest::Blocked;
pub(crate) use partials::is_partial;

/// Target of a compilation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CompileOptions {
    /// Profile of the device: its formats of elements.
    pub profile: Profile,
    /// The most elements of each dim that a program is made for: larger tensors are launched tile by
    /// tile. Dims that are reduced over in one pass are cut, too: what a tile has reduced is kept in 32
    /// bits for the next one, and rounded by the last. Dims that something else goes along are not cut.
    /// By default, plans of the card profile are cut at a card's limits, and others are not.
    pub max_tile: Option<NonZeroU32>,
}

/// Elements along a dim of a tile on a real card. Two such dims of 16-bit elements are 32 MB, 1 MB for
/// each of 32 cores, whose scratchpads have 1.6 MB to use; programs step through the dims before them.
const CARD_TILE: NonZeroU32 = NonZeroU32::new(1 << 12).unwrap();

/// Elements along the only dim of a tile on a real card.
const CARD_RUN: NonZeroU32 = NonZeroU32::new(1 << 24).unwrap();

impl CompileOptions {
    /// Options for devices of a profile. Those of the card take tensors tile by tile, at a card's limits.
    pub const fn for_profile(profile: Profile) -> Self {
        Self { profile, max_tile: None }
    }

    /// The most elements of each dim, for a kernel with so many dims that can be cut.
    fn tile(&self, dims: usize) -> Option<NonZeroU32> {
        match (self.max_tile, self.profile) {
            (Some(tile), _) => Some(tile),
            (None, Profile::Open) => None,
            (None, Profile::Card) => Some(if dims < 2 { CARD_RUN } else { CARD_TILE }),
        }
    }
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
        let is_card = options.profile == Profile::Card;
        let merged = if is_card { self.with_card_constants().merged() } else { self.merged() };
        let mut keep = access::overtaken(&merged);
        loop {
            match merged.compile_keeping(options, &keep) {
                Ok(plan) => return Ok(plan),
                Err(Blocked::Error(error)) => return Err(error),
                // What it is made from comes before it.
                Err(Blocked::NeedsIntermediate(value)) if !keep.contains(&value) => {
                    keep.push(value);
                    keep.sort_unstable();
                }
                Err(Blocked::NeedsIntermediate(_)) => return Err(CompileError::Nest),
            }
        }
    }

    fn compile_keeping(
        &self,
        options: &CompileOptions,
        keep: &[ValueId],
    ) -> Result<CompilerOutput, Blocked> {
        let mut code = ProgramBuilder::with_registers_to_share();
        let axes = Axes::of(self, used_dims(self), &mut code);
        let mut operands = Vec::new();
        for (at, operand) in self.operands().iter().enumerate() {
            let format = options.profile.supported_format(operand.dtype)?;
            let id = OperandId(at as u32);
            let span = Span::of(axes.of_operand(id));
            operands.push((code.operand(format, access::access(self, id), span), format));
        }
        let dims = axes.dims;
        let span = |own: &mut dyn Iterator<Item = DimId>| {
            Span::of(&own.filter_map(|dim| dims[usize::from(dim.0)]).collect::<Vec<_>>())
        };
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
        let cut = self.cut_reductions(options, keep);
        let mut partials = Vec::new();
        for value in partials::reductions(self, cut) {
            let known = self.value(value);
            let format = kept_format(known.lane);
            partials
                .push((value, code.operand(format, Access::Both, span(&mut known.span.iter()))));
            let named = |dim| IntermediateDim::Named(self.dim_name(dim).to_owned());
            let dims = known.span.iter().map(named).collect();
            intermediates.push(Intermediate { name: partials::name(value), format, dims });
        }
        let scalars = self.scalars().iter().map(|_| code.scalar_word()).collect();
        let partials = partials::Partials::new(cut, partials, &mut code);
        let names = axes.names.clone();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let tensors = (0..self.operands().len() as u32).map(OperandId);
        let tiled = tileable_dims::dims(self) | cut;
        let tile = options.tile(tiled.iter().count());
        let size = |name: &str| match tile {
            Some(tile) if tiled.iter().any(|dim| self.dim_name(dim) == name) => {
                ExpectedSize::Fixed(tile.into())
            }
            _ => ExpectedSize::Any,
        };
        let tensors = tensors.map(|operand| self.metadata(operand, &axes, options.profile, size));
        let tensors = tensors.collect::<Result<Vec<_>, CompileError>>()?;
        let mut nest = nest::Nest::new(self, options.profile, axes, operands, scalars, partials);
        nest.write(&mut code, &kept)?;
        let mut draft = code.draft()?;
        hoist_loads::hoist_narrow_loads(&mut draft);
        registers::share(&mut draft);
        if draft.registers.len() > MAX_REGISTERS
            && let Some(value) = pressure::value_to_keep(self, keep)
        {
            return Err(Blocked::NeedsIntermediate(value));
        }
        let program = draft.verify()?;
        let mut plan =
            CompilerOutput::single(self.name(), program, &names, tensors, intermediates)?;
        plan.options.profile = options.profile;
        plan.options.max_tile = tile;
        if !cut.is_empty() {
            let metadata = plan.correction_metadata.remove(0);
            plan.correction_metadata.push(nest.partials.flagged(&nest, metadata));
            plan.check()?;
        }
        Ok(plan)
    }

    /// The dims that are reduced over and cut. What is kept for other reasons needs them whole.
    fn cut_reductions(&self, options: &CompileOptions, keep: &[ValueId]) -> DimSet {
        if options.tile(1).is_some() && keep.is_empty() {
            partials::dims(self)
        } else {
            DimSet::NONE
        }
    }

    fn metadata(
        &self,
        operand: OperandId,
        axes: &Axes,
        profile: Profile,
        size: impl Fn(&str) -> ExpectedSize,
    ) -> Result<TensorMetadata, CompileError> {
        let dims: Vec<_> = axes.names_of(operand).map(|name| (name, size(name))).collect();
        let operand = self.operand(operand);
        let format = profile.supported_format(operand.dtype)?;
        let role = match operand.role {
            Role::In => spyre_artifact::Role::Input,
            Role::Out => spyre_artifact::Role::Output,
            Role::InOut => spyre_artifact::Role::Both,
        };
        Ok(TensorMetadata::new(&operand.name, operand.dtype, format, &dims, role))
    }
}

/// Returns the format that keeps a value as it is.
fn kept_format(lane: Lane) -> DataFormat {
    match lane {
        Lane::F64 => DataFormat::IeeeFp64,
        Lane::I64 => DataFormat::IeeeInt64,
        Lane::Bool => DataFormat::Bool,
        _ => DataFormat::IeeeFp32,
    }
}

/// The dims that something differs along: others are extents, and no loop runs over them.
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
            Expression::Size(dim) if !used.contains(*dim) => {
                return Err(CompileError::Extent { dim: kernel.dim_name(*dim).to_owned() });
            }
            _ => {}
        }
    }
    Ok(())
}
