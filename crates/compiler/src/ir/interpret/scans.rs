//! Scans, seeks and sorts along a dim, row by row.

use spyre_artifact::{BinaryOp, Constant, Lane, OrderOp, ScanOp};

use super::{Evaluation, InterpretError, Point, math};
use crate::{DimId, DimSet, Seek, ValueId};

impl Evaluation<'_> {
    pub(super) fn scanned(
        &self,
        op: ScanOp,
        dim: DimId,
        source: ValueId,
    ) -> Result<Vec<Constant>, InterpretError> {
        let lane = self.kernel.value(source).lane;
        // Sums of singles are carried along in double.
        let wide = if lane == Lane::F32 { Lane::F64 } else { lane };
        let mut made = self.made[source.0 as usize].clone();
        for row in self.rows(dim, source) {
            let mut carried: Option<Constant> = None;
            for place in row {
                let next = match carried {
                    None => Some(made[place]),
                    Some(carried) => carry(op, wide, carried, made[place]),
                };
                let next = next.ok_or(InterpretError::DivisionByZero)?;
                carried = Some(next);
                made[place] = math::convert(lane, next);
            }
        }
        Ok(made)
    }

    pub(super) fn sought(&self, seek: Seek, dim: DimId, source: ValueId) -> Vec<Constant> {
        let elements = &self.made[source.0 as usize];
        let mut found =
            vec![Constant::Int(0); if seek.is_reduction() { 0 } else { elements.len() }];
        for row in self.rows(dim, source) {
            let order = self.in_order(seek, &row, source);
            if seek.is_reduction() {
                // Of nothing, no element is the one.
                found.push(Constant::Int(order.first().map_or(-1, |&nth| nth as i64)));
            } else {
                let pairs = row.iter().zip(order);
                pairs.for_each(|(&place, nth)| found[place] = Constant::Int(nth as i64));
            }
        }
        found
    }

    pub(super) fn sorted(&self, op: OrderOp, dim: DimId, source: ValueId) -> Vec<Constant> {
        let elements = &self.made[source.0 as usize];
        let mut sorted = elements.clone();
        let seek = if op == OrderOp::Descending { Seek::OrderDescending } else { Seek::Order };
        for row in self.rows(dim, source) {
            let pairs = row.iter().zip(self.in_order(seek, &row, source));
            pairs.for_each(|(&place, nth)| sorted[place] = elements[row[nth]]);
        }
        sorted
    }

    /// The coordinates of a row's elements, the sought one first.
    fn in_order(&self, seek: Seek, row: &[usize], source: ValueId) -> Vec<usize> {
        let elements = &self.made[source.0 as usize];
        let is_nan = |value: Constant| matches!(value, Constant::Float(value) if value.is_nan());
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|&a, &b| {
            let a = elements[row[a]];
            let b = elements[row[b]];
            match seek {
                Seek::Order => math::sort_order(a, b),
                Seek::OrderDescending | Seek::ArgMax => math::sort_order(b, a),
                Seek::ArgMin => is_nan(b).cmp(&is_nan(a)).then(math::sort_order(a, b)),
            }
        });
        order
    }

    /// Returns the indices of a value's elements, row by row along a dim.
    fn rows(&self, dim: DimId, value: ValueId) -> Vec<Vec<usize>> {
        let span = self.kernel.value(value).span;
        let start: Point = [0; DimSet::MOST];
        let starts = self.points_from(span.without(dim), &start);
        let row = |point: &Point| {
            let points = self.points_from(DimSet::NONE.with(dim), point);
            points.iter().map(|point| self.place(span, point)).collect()
        };
        starts.iter().map(row).collect()
    }
}

fn carry(op: ScanOp, lane: Lane, a: Constant, b: Constant) -> Option<Constant> {
    let step = match op {
        ScanOp::Sum => BinaryOp::Add,
        ScanOp::Product => BinaryOp::Mul,
        ScanOp::Min => BinaryOp::Min,
        ScanOp::Max => BinaryOp::Max,
        ScanOp::LogSumExp => {
            let (Constant::Float(a), Constant::Float(b)) = (a, b) else { return None };
            return Some(Constant::Float(log_add_exp(a, b)));
        }
        _ => return None,
    };
    math::binary(step, lane, a, b)
}

fn log_add_exp(a: f64, b: f64) -> f64 {
    if a == b {
        a + std::f64::consts::LN_2
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.max(b) + (-(a - b).abs()).exp().ln_1p()
    }
}
