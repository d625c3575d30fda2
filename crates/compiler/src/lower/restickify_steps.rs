//! Tensors that lie otherwise than the card needs them, restickified by steps of their own.

use spyre_artifact::{Binding, CompilerOutput, ImageId, Intermediate, IntermediateDim, Step};

use super::access;
use crate::{
    CompileError, CompileOptions, DimId, DimSet, Kernel, KernelBuilder, Layouts, OperandId,
    Refusal, Restickified, Restickify, Role, Stick, StoreMode,
};

impl Kernel {
    /// Compiles as [`compile`](Self::compile) does, for tensors of which some lie as given. What the
    /// card needs otherwise is restickified by a step before, into memory of the plan's own, or by a step
    /// after. Values between, and tensors that are needed in two layouts, stay as they are:
    /// [`Self::layouts`] lists them.
    ///
    /// ```
    /// use spyre_compiler::{CompileOptions, Kernel};
    /// use spyre_numerics::Profile;
    ///
    /// let scores: Kernel = "kernel scores(m, k, n) {
    ///     in a: float16[m, k]
    ///     in b: float16[n, k]
    ///     out c: float16[m, n]
    ///     c = sum<k>(a * b)
    /// }".parse()?;
    /// let plan = scores.compile_laid_out(&CompileOptions::for_profile(Profile::Card), &[])?;
    /// let steps: Vec<&str> = plan.steps.iter().map(|step| &*step.name).collect();
    /// assert_eq!(steps, ["restickify b", "scores"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compile_laid_out(
        &self,
        options: &CompileOptions,
        given: &[(OperandId, Stick)],
    ) -> Result<CompilerOutput, CompileError> {
        let layouts = self.layouts(options.profile, given);
        let mut steps =
            RestickifySteps { kernel: self, options, plan: self.compile(options)?, main: 0 };
        for restickify in &layouts.restickify {
            match restickify.what {
                Restickified::Operand(operand) if self.is_turned_before(operand, &layouts) => {
                    steps.before(operand, restickify.to)?;
                }
                Restickified::Stored(operand) if self.is_turned_after(operand) => {
                    steps.after(operand, restickify.from)?;
                }
                _ => {}
            }
        }
        steps.plan.check()?;
        Ok(steps.plan)
    }

    /// Returns true if a step before the kernel may give a tensor another layout.
    fn is_turned_before(&self, operand: OperandId, layouts: &Layouts) -> bool {
        let is_it = |restickify: &&Restickify| restickify.what == Restickified::Operand(operand);
        let is_one = layouts.restickify.iter().filter(is_it).count() == 1;
        let is_read = self.operand(operand).role == Role::In;
        let is_free = !layouts.used_as_they_lie.contains(&operand);
        is_one && is_read && is_free && self.is_walked_once(operand)
    }

    fn is_turned_after(&self, operand: OperandId) -> bool {
        let mut stores = self.stores().iter().filter(|store| store.operand == operand);
        let is_plain =
            stores.all(|store| store.mode == StoreMode::Set && store.condition.is_none());
        is_plain && self.operand(operand).role == Role::Out && self.is_walked_once(operand)
    }

    /// Returns true if a tensor has each of its dims once, and is only accessed along them.
    fn is_walked_once(&self, operand: OperandId) -> bool {
        let dims = &self.operand(operand).dims;
        let is_once = dims.iter().copied().collect::<DimSet>().iter().count() == dims.len();
        is_once && access::is_walked_only(self, operand)
    }
}

/// A plan on its way to one with more steps.
struct RestickifySteps<'a> {
    kernel: &'a Kernel,
    options: &'a CompileOptions,
    plan: CompilerOutput,
    /// Index of the kernel's own step.
    main: usize,
}

impl RestickifySteps<'_> {
    /// Has the kernel read a copy of a tensor.
    fn before(&mut self, operand: OperandId, to: Stick) -> Result<(), CompileError> {
        let restickified = self.memory(operand, to)?;
        self.copy(self.main, operand, [Binding::Tensor(operand.0), restickified])?;
        self.main += 1;
        self.rebind(operand, restickified);
        Ok(())
    }

    /// Has the kernel write what a tensor is copied from.
    fn after(&mut self, operand: OperandId, from: Stick) -> Result<(), CompileError> {
        let restickified = self.memory(operand, from)?;
        self.copy(self.plan.steps.len(), operand, [restickified, Binding::Tensor(operand.0)])?;
        self.rebind(operand, restickified);
        Ok(())
    }

    fn rebind(&mut self, operand: OperandId, to: Binding) {
        let bindings = &mut self.plan.steps[self.main].bindings;
        bindings
            .iter_mut()
            .filter(|binding| **binding == Binding::Tensor(operand.0))
            .for_each(|binding| *binding = to);
    }

    /// Memory for a tensor whose sticks run along another dim: the last one of an intermediate.
    fn memory(&mut self, operand: OperandId, stick: Stick) -> Result<Binding, CompileError> {
        let known = self.kernel.operand(operand);
        let named = |dim: DimId| IntermediateDim::Named(self.kernel.dim_name(dim).to_owned());
        let is_last = |dim: &DimId| stick == Stick::Along(*dim);
        let mut dims: Vec<IntermediateDim> =
            known.dims.iter().copied().filter(|dim| !is_last(dim)).map(named).collect();
        dims.push(match stick {
            Stick::Along(dim) => named(dim),
            Stick::Sparse => IntermediateDim::Fixed(1),
        });
        let name = format!("{} along {}", known.name, stick.name(self.kernel));
        let format = self.options.profile.supported_format(known.dtype)?;
        self.plan.intermediates.push(Intermediate { name, format, dims });
        Ok(Binding::Intermediate(self.plan.intermediates.len() as u32 - 1))
    }

    /// Puts a step that copies a tensor in this place.
    fn copy(
        &mut self,
        at: usize,
        operand: OperandId,
        bindings: [Binding; 2],
    ) -> Result<(), CompileError> {
        let name = format!("restickify {}", self.kernel.operand(operand).name);
        let mut copy = copy_of(self.kernel, operand)?.compile(self.options)?;
        let first = self.plan.images.len() as u32;
        self.plan.images.append(&mut copy.images);
        let moved = |image: ImageId| ImageId(first + image.0);
        for step in copy.steps {
            let compute = moved(step.compute);
            let correction = step.correction.map(moved);
            let name = name.clone();
            let bindings = bindings.to_vec();
            self.plan.steps.insert(at, Step { name, compute, correction, bindings, ..step });
        }
        for metadata in copy.correction_metadata {
            self.plan.correction_metadata.insert(at, metadata);
        }
        Ok(())
    }
}

/// A kernel that copies a tensor, with the tensor's dims under their own names.
fn copy_of(kernel: &Kernel, operand: OperandId) -> Result<Kernel, CompileError> {
    let known = kernel.operand(operand);
    let mut copy = KernelBuilder::new("restickify");
    let build = |copy: &mut KernelBuilder| {
        let dims = known.dims.iter().map(|&dim| copy.dim(kernel.dim_name(dim)));
        let dims = dims.collect::<Result<Vec<DimId>, Refusal>>()?;
        // Names that no dim has: a name is used once.
        let name = |start: &str| {
            let longest = kernel.dims().iter().map(String::len).max().unwrap_or(0);
            format!("{start}{}", "_".repeat(longest))
        };
        let source = copy.operand(&name("source"), Role::In, known.dtype, &dims)?;
        let target = copy.operand(&name("target"), Role::Out, known.dtype, &dims)?;
        let value = copy.load(source)?;
        copy.store(target, value)
    };
    build(&mut copy).and_then(|()| copy.build()).map_err(|_| CompileError::Nest)
}
