//! Operations that a card has.

use std::collections::HashSet;

use spyre_artifact::{BinaryOp, Lane, ReduceOp, UnaryOp};
use spyre_numerics::DType;

use super::CardNote;
use crate::matrix_product::MatrixProduct;
use crate::{Expression, Kernel, Stick, StoreMode, Value, ValueId};

/// Support of an operation by the card, or by a front end.
#[derive(Clone, Copy)]
enum Support {
    /// The card does it for 16-bit floats, and for 32-bit ones.
    Both,
    /// The card does it for 16-bit floats, the host for others.
    Half,
    /// The card does it for 16-bit floats. For others, it is made from other operations.
    HalfOrMade(&'static str),
    /// It is made from other operations.
    Made(&'static str),
    /// The host does it.
    Host,
}

pub(super) fn of(kernel: &Kernel) -> Vec<CardNote> {
    let finder = Finder { kernel, single: single_precision(kernel) };
    let mut notes: Vec<CardNote> =
        finder.reached().into_iter().flat_map(|value| finder.notes(value)).collect();
    notes.extend(kernel.stores().iter().flat_map(|store| finder.stored(store)));
    notes
}

struct Finder<'a> {
    kernel: &'a Kernel,
    /// True for each value that is a 32-bit float.
    single: Vec<bool>,
}

impl Finder<'_> {
    /// Values that are computed for a store; coordinates are looked at where they are used.
    fn reached(&self) -> Vec<ValueId> {
        let stores = self.kernel.stores().iter();
        let mut rest: Vec<ValueId> =
            stores.flat_map(|store| [Some(store.value), store.condition]).flatten().collect();
        let mut reached = HashSet::new();
        while let Some(value) = rest.pop() {
            if !reached.insert(value) {
                continue;
            }
            let expression = &self.kernel.value(value).expression;
            match MatrixProduct::find(self.kernel, expression) {
                Some(product) => rest.extend(product.sides),
                None => match expression {
                    Expression::Load { otherwise, .. } => rest.extend(otherwise),
                    _ => rest.extend(expression.sources()),
                },
            }
        }
        let mut reached: Vec<ValueId> = reached.into_iter().collect();
        reached.sort_unstable();
        reached
    }

    fn notes(&self, value: ValueId) -> Vec<CardNote> {
        let known = self.kernel.value(value);
        let is_single = self.single[value.0 as usize];
        match &known.expression {
            Expression::Load { operand, axes, otherwise } => {
                self.access(&self.kernel.operand(*operand).name, axes, otherwise.is_some())
            }
            Expression::Index(_) => vec![on_host("index")],
            Expression::Unary(op, source) => {
                note(op.name(), self.lane(*source), unary(*op), self.single(*source))
            }
            Expression::Binary(op, left, right) => {
                let is_single = self.single(*left) || self.single(*right);
                note(op.name(), self.lane(*left), binary(*op, known.lane), is_single)
            }
            Expression::Compare(op, left, right) => {
                let is_single = self.single(*left) || self.single(*right);
                note(op.name(), self.lane(*left), Support::Half, is_single)
            }
            Expression::Convert(..) if known.lane == Lane::I64 => {
                vec![on_host("cast to integers")]
            }
            Expression::Reduce(op, ..) => self.reduction(*op, value, known, is_single),
            Expression::Scan(op, ..) => vec![on_host(op.name())],
            Expression::Seek(seek, ..) => vec![on_host(seek.name())],
            Expression::Sort(..) => vec![on_host("sort")],
            Expression::Random { .. } => vec![on_host("random")],
            _ => Vec::new(),
        }
    }

    /// Coordinates are dims, or indices from a tensor.
    fn access(&self, operand: &str, axes: &[ValueId], is_padded: bool) -> Vec<CardNote> {
        let is_plain = |&axis: &ValueId| {
            let axis = self.kernel.value(axis);
            matches!(axis.expression, Expression::Index(_) | Expression::Load { .. })
        };
        let mut notes = Vec::new();
        if !axes.iter().all(is_plain) {
            notes.push(CardNote::Access { operand: operand.to_owned() });
        }
        if is_padded {
            notes
                .push(CardNote::Decomposed { operation: "else".to_owned(), into: "a padded copy" });
        }
        notes
    }

    fn reduction(
        &self,
        op: ReduceOp,
        value: ValueId,
        known: &Value,
        is_single: bool,
    ) -> Vec<CardNote> {
        let Expression::Reduce(_, over, source) = known.expression else { return Vec::new() };
        if MatrixProduct::find(self.kernel, &known.expression).is_some() {
            let name = || "matrix product".to_owned();
            return if is_single {
                vec![CardNote::SinglePrecision { operation: name() }]
            } else {
                Vec::new()
            };
        }
        let support = match op {
            ReduceOp::Sum | ReduceOp::Min | ReduceOp::Max => Support::Both,
            _ => Support::Host,
        };
        let mut notes = note(op.name(), self.lane(source), support, is_single);
        let along_sticks = self.stick_of(value).is_some_and(|stick| match stick {
            Stick::Along(dim) => over.contains(dim),
            Stick::Sparse => false,
        });
        if along_sticks && over.iter().count() > 1 {
            let dims = self.kernel.dim_names(over.iter());
            notes.push(CardNote::ReducedTogether { operation: op.name().to_owned(), dims });
        }
        notes
    }

    /// Returns the dim along which the sticks of what a reduction goes over run: those of its widest tensor.
    fn stick_of(&self, reduction: ValueId) -> Option<Stick> {
        let mut rest = vec![reduction];
        let mut widest = None;
        while let Some(value) = rest.pop() {
            let expression = &self.kernel.value(value).expression;
            match expression {
                Expression::Load { operand, .. } => {
                    let rank = self.kernel.operand(*operand).dims.len();
                    widest = widest.max(Some((rank, operand.0)));
                }
                _ => rest.extend(expression.sources()),
            }
        }
        widest.map(|(_, operand)| self.kernel.default_stick(crate::OperandId(operand)))
    }

    fn stored(&self, store: &crate::Store) -> Vec<CardNote> {
        let operand = self.kernel.operand(store.operand);
        let is_own = store
            .axes
            .iter()
            .zip(&operand.dims)
            .all(|(&axis, &dim)| self.kernel.value(axis).expression == Expression::Index(dim));
        match (is_own, store.mode) {
            (true, StoreMode::Set) => Vec::new(),
            _ => vec![on_host(&format!("store to `{}`", operand.name))],
        }
    }

    fn lane(&self, value: ValueId) -> Lane {
        self.kernel.value(value).lane
    }

    fn single(&self, value: ValueId) -> bool {
        self.single[value.0 as usize]
    }
}

fn note(operation: &str, lane: Lane, support: Support, is_single: bool) -> Vec<CardNote> {
    let operation = operation.to_owned();
    if matches!(lane, Lane::I64 | Lane::F64) {
        return vec![CardNote::Arithmetic { operation, lane }];
    }
    match support {
        Support::Half if is_single => vec![CardNote::SinglePrecision { operation }],
        Support::HalfOrMade(into) if is_single => vec![CardNote::Decomposed { operation, into }],
        Support::Both | Support::Half | Support::HalfOrMade(_) => Vec::new(),
        Support::Made(into) => vec![CardNote::Decomposed { operation, into }],
        Support::Host => vec![CardNote::OnHost { operation }],
    }
}

fn on_host(operation: &str) -> CardNote {
    CardNote::OnHost { operation: operation.to_owned() }
}

fn unary(op: UnaryOp) -> Support {
    use UnaryOp as Op;
    match op {
        Op::Neg
        | Op::Abs
        | Op::Sqrt
        | Op::Rsqrt
        | Op::Reciprocal
        | Op::Exp
        | Op::Floor
        | Op::Relu
        | Op::Sigmoid => Support::Both,
        Op::Log | Op::Tanh | Op::Gelu | Op::GeluTanh | Op::Softplus => Support::Half,
        Op::Silu => Support::HalfOrMade("sigmoid and mul"),
        Op::Ceil => Support::Made("neg, floor and neg"),
        Op::Trunc => Support::Made("floor, where, and ceil below zero"),
        Op::Sign => Support::Made("greaterthan minus lesserthan"),
        Op::Not => Support::Made("equal to zero"),
        Op::Exp2 => Support::Made("exp of a product"),
        Op::Expm1 => Support::Made("exp and sub"),
        Op::Log2 | Op::Log10 => Support::Made("log and mul"),
        Op::Log1p => Support::Made("add and log"),
        _ => Support::Host,
    }
}

fn binary(op: BinaryOp, lane: Lane) -> Support {
    use BinaryOp as Op;
    match op {
        Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Min | Op::Max => Support::Both,
        Op::And if lane == Lane::Bool => Support::Made("mul"),
        Op::Pow => Support::Made("products, or log, mul and exp"),
        Op::FloorDiv => Support::Made("realdiv and floor"),
        Op::Modulo | Op::Rem => Support::Made("realdiv, floor, mul and sub"),
        _ => Support::Host,
    }
}

/// Returns, for each value, true if it is a 32-bit float: it comes from one, and nothing rounded it since.
fn single_precision(kernel: &Kernel) -> Vec<bool> {
    let mut single: Vec<bool> = Vec::new();
    for value in kernel.values() {
        let is_single = match &value.expression {
            Expression::Load { operand, .. } => kernel.operand(*operand).dtype == DType::Float32,
            Expression::Round(dtype, _) => *dtype == DType::Float32,
            Expression::Compare(..) => false,
            expression => expression.sources().iter().any(|source| single[source.0 as usize]),
        };
        single.push(is_single);
    }
    single
}
