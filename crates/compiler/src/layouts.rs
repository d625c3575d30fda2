//! Dims along which the sticks of tensors and values run, and places where they must be restickified.
//!
//! The card computes on whole sticks, so what meets in an operation must have its sticks along one dim;
//! what has no such dim must have one element in each stick. A matrix product wants the sticks of its
//! left side along what is summed over, and those of its right side and of its result along the
//! right side's own dim. What lies otherwise is copied by a `restickify` before.

mod pass;
mod product_sticks;

use std::fmt;

use crate::{DimId, Kernel, OperandId, ValueId};

/// Arrangement of the elements of a tensor or of a value in sticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stick {
    /// Neighbours along this dim lie side by side.
    Along(DimId),
    /// One element in each stick.
    Sparse,
}

/// The layouts of a kernel's tensors, and the restickifies that the card needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layouts {
    /// Layout of each tensor.
    pub operands: Vec<Stick>,
    /// Turns, in the order in which they are needed; none where any layout will do.
    pub restickify: Vec<Restickify>,
    /// Tensors that something needs as they lie.
    pub used_as_they_lie: Vec<OperandId>,
}

/// A tensor or a value that is restickified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restickify {
    /// Tensor or value that is restickified.
    pub what: Restickified,
    /// Its layout.
    pub from: Stick,
    /// Layout that it must have.
    pub to: Stick,
}

/// Subject of a restickify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Restickified {
    /// A tensor that is read.
    Operand(OperandId),
    /// Something that was computed.
    Value(ValueId),
    /// The value that is stored to a tensor whose layout was given.
    Stored(OperandId),
}

impl Kernel {
    /// Returns the default layout of a tensor: its sticks run along its last dim.
    pub fn default_stick(&self, operand: OperandId) -> Stick {
        self.operand(operand).dims.last().map_or(Stick::Sparse, |&dim| Stick::Along(dim))
    }

    /// The layouts of all tensors: as given; else inputs lie as by default, and outputs as what is
    /// stored to them.
    ///
    /// ```
    /// use spyre_compiler::Kernel;
    /// use spyre_numerics::Profile;
    ///
    /// let matmul: Kernel = "kernel matmul(m, k, n) {
    ///     in a: float16[m, k]
    ///     in b: float16[n, k]
    ///     out c: float16[m, n]
    ///     c = sum<k>(a * b)
    /// }".parse()?;
    /// let layouts = matmul.layouts(Profile::Card, &[]);
    /// let shown = layouts.show(&matmul).to_string();
    /// assert!(shown.ends_with("restickify\n  b  from k to n\n"));
    /// # Ok::<(), spyre_compiler::ParseError>(())
    /// ```
    pub fn layouts(
        &self,
        profile: spyre_numerics::Profile,
        given: &[(OperandId, Stick)],
    ) -> Layouts {
        pass::Pass::new(self, profile, given).run()
    }
}

impl Stick {
    /// Its dim's name, or `sparse`.
    pub fn name(self, kernel: &Kernel) -> &str {
        match self {
            Self::Along(dim) => kernel.dim_name(dim),
            Self::Sparse => "sparse",
        }
    }
}

impl Restickified {
    /// Returns its name in the text.
    pub fn name(self, kernel: &Kernel) -> String {
        match self {
            Self::Operand(operand) => kernel.operand(operand).name.clone(),
            Self::Stored(operand) => format!("what is stored to {}", kernel.operand(operand).name),
            Self::Value(value) => {
                let known = kernel.value(value);
                known.name.clone().unwrap_or_else(|| format!("v{}", value.0))
            }
        }
    }
}

impl Layouts {
    /// The layouts as text.
    pub fn show<'a>(&'a self, kernel: &'a Kernel) -> impl fmt::Display + 'a {
        Shown { layouts: self, kernel }
    }
}

struct Shown<'a> {
    layouts: &'a Layouts,
    kernel: &'a Kernel,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernel = self.kernel;
        let width = kernel.operands().iter().map(|operand| operand.name.len()).max().unwrap_or(0);
        let dims = |at: usize| {
            let dims = kernel.operands()[at].dims.iter().map(|&dim| kernel.dim_name(dim));
            let dims = dims.collect::<Vec<_>>().join(" x ");
            if dims.is_empty() { "scalar".to_owned() } else { dims }
        };
        let most = (0..kernel.operands().len()).map(|at| dims(at).len()).max().unwrap_or(0);
        for (at, operand) in kernel.operands().iter().enumerate() {
            let name = &operand.name;
            let role = operand.role.name();
            let dims = dims(at);
            write!(f, "  {name:<width$}  {role:<5}  {dims:<most$}  ")?;
            match self.layouts.operands[at] {
                Stick::Along(dim) => writeln!(f, "sticks along {}", kernel.dim_name(dim))?,
                Stick::Sparse => writeln!(f, "one element in each stick")?,
            }
        }
        if !self.layouts.restickify.is_empty() {
            writeln!(f, "restickify")?;
        }
        for restickify in &self.layouts.restickify {
            let from = restickify.from.name(kernel);
            let to = restickify.to.name(kernel);
            writeln!(f, "  {}  from {from} to {to}", restickify.what.name(kernel))?;
        }
        Ok(())
    }
}
