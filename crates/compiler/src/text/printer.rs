use std::collections::HashSet;
use std::fmt::{self, Display, Formatter, Write};

use spyre_artifact::{Constant, Lane, UnaryOp};

use super::words::{INFIX, Infix, PREFIX, PREFIX_STRENGTH};
use crate::ir::sort_name;
use crate::{Expression, Kernel, OperandId, Store, Value, ValueId};

/// The text of a kernel. It is the same for the kernel that the text is parsed to.
impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel {}({}) {{", self.name(), self.dims().join(", "))?;
        for operand in self.operands() {
            let dims: Vec<&str> = operand.dims.iter().map(|&dim| self.dim_name(dim)).collect();
            let role = operand.role.name();
            let dims = dims.join(", ");
            writeln!(f, "    {role} {}: {}[{dims}]", operand.name, operand.dtype)?;
        }
        for scalar in self.scalars() {
            writeln!(f, "    scalar {}: {}", scalar.name, scalar.lane)?;
        }
        Printer::new(self).body(f)?;
        writeln!(f, "}}")
    }
}

struct Printer<'a> {
    kernel: &'a Kernel,
    /// Name of each value that has a line of its own.
    names: Vec<Option<String>>,
    written: HashSet<ValueId>,
}

/// Source from which the lane of a number is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hint {
    Nothing,
    /// It is used where this lane is needed.
    Needed(Lane),
}

impl<'a> Printer<'a> {
    fn new(kernel: &'a Kernel) -> Self {
        let mut uses = vec![0_u32; kernel.values().len()];
        let stores = kernel.stores().iter().flat_map(store_sources);
        let sources = kernel.values().iter().flat_map(|value| value.expression.sources());
        stores.chain(sources).for_each(|value| uses[value.0 as usize] += 1);
        let mut printer = Self { kernel, names: Vec::new(), written: HashSet::new() };
        printer.names = (0..)
            .zip(kernel.values())
            .map(|(at, value)| {
                let is_shared = uses[at as usize] > 1 && !printer.is_leaf(value);
                value.name.clone().or_else(|| is_shared.then(|| printer.free_name(at)))
            })
            .collect();
        printer
    }

    fn body(&mut self, f: &mut Formatter<'_>) -> fmt::Result {
        for store in self.kernel.stores() {
            for value in store_sources(store) {
                self.lines_before(f, value)?;
            }
            self.store(f, store)?;
        }
        (0..self.kernel.values().len() as u32).try_for_each(|at| self.line(f, ValueId(at)))
    }

    /// Lines for all values with a name that this one is made from, and for itself.
    fn lines_before(&mut self, f: &mut Formatter<'_>, value: ValueId) -> fmt::Result {
        let mut needed = vec![false; value.0 as usize + 1];
        needed[value.0 as usize] = true;
        for at in (0..needed.len()).rev() {
            if needed[at] {
                let sources = self.kernel.values()[at].expression.sources();
                sources.into_iter().for_each(|source| needed[source.0 as usize] = true);
            }
        }
        let needed = (0..).zip(needed).filter(|(_, is_needed)| *is_needed);
        needed.into_iter().try_for_each(|(at, _)| self.line(f, ValueId(at)))
    }

    fn line(&mut self, f: &mut Formatter<'_>, value: ValueId) -> fmt::Result {
        let Some(name) = self.names[value.0 as usize].clone() else { return Ok(()) };
        if !self.written.insert(value) {
            return Ok(());
        }
        write!(f, "    {name} = ")?;
        self.expression(f, value, 0, Hint::Nothing)?;
        writeln!(f)
    }

    fn store(&self, f: &mut Formatter<'_>, store: &Store) -> fmt::Result {
        f.write_str("    ")?;
        self.place(f, store.operand, &store.axes)?;
        write!(f, " {} ", store.mode.sign())?;
        self.side(f, store.value, 0, self.lane_of(store.operand))?;
        if let Some(condition) = store.condition {
            f.write_str(" if ")?;
            self.side(f, condition, 0, Hint::Nothing)?;
        }
        writeln!(f)
    }

    fn place(&self, f: &mut Formatter<'_>, operand: OperandId, axes: &[ValueId]) -> fmt::Result {
        let known = self.kernel.operand(operand);
        f.write_str(&known.name)?;
        let is_own = axes
            .iter()
            .zip(&known.dims)
            .all(|(&axis, &dim)| self.kernel.value(axis).expression == Expression::Index(dim));
        if is_own {
            return Ok(());
        }
        f.write_char('[')?;
        for (at, &axis) in axes.iter().enumerate() {
            f.write_str(if at > 0 { ", " } else { "" })?;
            self.side(f, axis, 0, Hint::Needed(Lane::I64))?;
        }
        f.write_char(']')
    }

    /// A value by its name, or how it is made.
    fn side(&self, f: &mut Formatter<'_>, value: ValueId, strength: u8, hint: Hint) -> fmt::Result {
        match &self.names[value.0 as usize] {
            Some(name) => f.write_str(name),
            None => self.expression(f, value, strength, hint),
        }
    }

    fn expression(
        &self,
        f: &mut Formatter<'_>,
        value: ValueId,
        strength: u8,
        hint: Hint,
    ) -> fmt::Result {
        let Value { expression, lane, .. } = self.kernel.value(value);
        match expression {
            Expression::Constant(constant) => write_constant(f, *constant, *lane, hint),
            Expression::Scalar(scalar) => f.write_str(&self.kernel.scalar(*scalar).name),
            Expression::Index(dim) => f.write_str(self.kernel.dim_name(*dim)),
            Expression::Size(dim) => write!(f, "size({})", self.kernel.dim_name(*dim)),
            Expression::Load { operand, axes, otherwise } => {
                self.place(f, *operand, axes)?;
                let Some(other) = otherwise else { return Ok(()) };
                f.write_str(" else ")?;
                self.side(f, *other, PREFIX_STRENGTH, self.lane_of(*operand))
            }
            Expression::Unary(op, source) => self.unary(f, *op, *source),
            Expression::Binary(op, left, right) => {
                let infix = Infix::Binary(*op);
                self.pair(f, infix, op.name(), [*left, *right], strength)
            }
            Expression::Compare(op, left, right) => {
                let infix = Infix::Compare(*op);
                self.pair(f, infix, op.name(), [*left, *right], strength)
            }
            Expression::Select(condition, yes, no) => {
                f.write_str("where(")?;
                self.side(f, *condition, 0, Hint::Nothing)?;
                f.write_str(", ")?;
                self.side(f, *yes, 0, self.beside(*no))?;
                f.write_str(", ")?;
                self.side(f, *no, 0, self.beside(*yes))?;
                f.write_char(')')
            }
            Expression::Convert(lane, source) => self.call(f, lane, *source),
            Expression::Round(dtype, source) => self.call(f, &format!("round<{dtype}>"), *source),
            Expression::Reduce(op, dims, source) => {
                let dims: Vec<&str> = dims.iter().map(|dim| self.kernel.dim_name(dim)).collect();
                self.call(f, &format!("{op}<{}>", dims.join(", ")), *source)
            }
            Expression::Scan(op, dim, source) => {
                self.call(f, &format!("{}<{}>", op.name(), self.kernel.dim_name(*dim)), *source)
            }
            Expression::Seek(seek, dim, source) => {
                self.call(f, &format!("{}<{}>", seek.name(), self.kernel.dim_name(*dim)), *source)
            }
            Expression::Sort(op, dim, source) => {
                let what = format!("{}<{}>", sort_name(*op), self.kernel.dim_name(*dim));
                self.call(f, &what, *source)
            }
            Expression::Random { word, seed, offset, index } => {
                f.write_str("random(")?;
                for source in [*seed, *offset, *index] {
                    self.side(f, source, 0, Hint::Needed(Lane::I64))?;
                    f.write_str(", ")?;
                }
                write!(f, "{word})")
            }
        }
    }

    fn unary(&self, f: &mut Formatter<'_>, op: UnaryOp, source: ValueId) -> fmt::Result {
        let is_sign = PREFIX.iter().find(|prefix| prefix.1 == op);
        match is_sign.filter(|_| !self.is_number(source)) {
            Some((sign, _)) => {
                f.write_str(sign)?;
                self.side(f, source, PREFIX_STRENGTH, Hint::Nothing)
            }
            None => self.call(f, &op, source),
        }
    }

    fn call(&self, f: &mut Formatter<'_>, what: &dyn Display, source: ValueId) -> fmt::Result {
        write!(f, "{what}(")?;
        self.side(f, source, 0, Hint::Nothing)?;
        f.write_char(')')
    }

    fn pair(
        &self,
        f: &mut Formatter<'_>,
        infix: Infix,
        name: &str,
        [left, right]: [ValueId; 2],
        strength: u8,
    ) -> fmt::Result {
        let hints = [self.beside(right), self.beside(left)];
        let Some(&(sign, binds, _)) = INFIX.iter().find(|known| known.2 == infix) else {
            write!(f, "{name}(")?;
            self.side(f, left, 0, hints[0])?;
            f.write_str(", ")?;
            self.side(f, right, 0, hints[1])?;
            return f.write_char(')');
        };
        let is_inside = binds < strength;
        let is_chain = matches!(infix, Infix::Binary(_));
        f.write_str(if is_inside { "(" } else { "" })?;
        self.side(f, left, if is_chain { binds } else { binds + 1 }, hints[0])?;
        write!(f, " {sign} ")?;
        self.side(f, right, binds + 1, hints[1])?;
        f.write_str(if is_inside { ")" } else { "" })
    }

    /// Returns the hint that the other side gives a number.
    fn beside(&self, other: ValueId) -> Hint {
        if self.is_number(other) {
            Hint::Nothing
        } else {
            Hint::Needed(self.kernel.value(other).lane)
        }
    }

    fn is_number(&self, value: ValueId) -> bool {
        let is_constant = matches!(self.kernel.value(value).expression, Expression::Constant(_));
        is_constant && self.names[value.0 as usize].is_none()
    }

    fn lane_of(&self, operand: OperandId) -> Hint {
        let format = self.kernel.operand(operand).dtype.host_format();
        Lane::of(format).map_or(Hint::Nothing, Hint::Needed)
    }

    /// Returns true if it costs nothing to write it twice.
    fn is_leaf(&self, value: &Value) -> bool {
        match &value.expression {
            Expression::Constant(_)
            | Expression::Scalar(_)
            | Expression::Index(_)
            | Expression::Size(_) => true,
            Expression::Load { operand, axes, otherwise: None } => {
                let dims = &self.kernel.operand(*operand).dims;
                axes.iter().zip(dims).all(|(&axis, &dim)| {
                    self.kernel.value(axis).expression == Expression::Index(dim)
                })
            }
            _ => false,
        }
    }

    fn free_name(&self, at: u32) -> String {
        let kernel = self.kernel;
        let is_taken = |name: &str| {
            kernel.dims().iter().any(|dim| dim == name)
                || kernel.operands().iter().any(|operand| operand.name == name)
                || kernel.scalars().iter().any(|scalar| scalar.name == name)
                || kernel.values().iter().any(|value| value.name.as_deref() == Some(name))
        };
        let mut name = format!("v{at}");
        while is_taken(&name) {
            name.push('_');
        }
        name
    }
}

fn store_sources(store: &Store) -> Vec<ValueId> {
    store.axes.iter().chain([&store.value]).chain(&store.condition).copied().collect()
}

fn write_constant(
    f: &mut Formatter<'_>,
    constant: Constant,
    lane: Lane,
    hint: Hint,
) -> fmt::Result {
    let plain = match constant {
        Constant::Float(_) => Lane::F32,
        Constant::Int(_) => Lane::I64,
        Constant::Bool(_) => Lane::Bool,
    };
    match constant {
        Constant::Float(value) if value.is_nan() => f.write_str("nan")?,
        Constant::Float(value) => write!(f, "{value:?}")?,
        Constant::Int(value) => write!(f, "{value}")?,
        Constant::Bool(value) => write!(f, "{value}")?,
    }
    let expected = match hint {
        Hint::Nothing => plain,
        Hint::Needed(lane) => lane,
    };
    if expected == lane { Ok(()) } else { f.write_str(lane.name()) }
}
