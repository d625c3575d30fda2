//! Loads and stores at random coordinates: affine ones, ones that come with the data, and ones that
//! are outside.

use spyre::artifact::{BinaryOp, Constant, Lane};
use spyre::compiler::{DimId, DimSet, OperandId, Refusal, Role, Store, StoreMode, ValueId};
use spyre::numerics::DType;

use super::{Known, LARGEST, Maker};

impl Maker<'_> {
    /// A tensor that is loaded elsewhere, too.
    pub(super) fn load_anywhere(&mut self) -> Result<(), Refusal> {
        let (operand, dims, lane) = match self.operands.len() {
            0 => return Ok(()),
            count => self.operands[self.choices.below(count)].clone(),
        };
        let is_inside = self.choices.below(2) == 0 && !self.is_empty(&dims);
        let axes = self.coordinates(&dims, is_inside)?;
        let otherwise = if is_inside { None } else { Some(self.otherwise(lane)?) };
        let made = self.builder.load_at(operand, axes, otherwise)?;
        self.know(made, 5.0)
    }

    /// A tensor that some places of are combined with values, in their order.
    pub(super) fn store_anywhere(&mut self, name: &str) -> Result<(), Refusal> {
        let known = self.any_value();
        let dims = self.some_dims();
        if known.lane == Lane::Bool || self.is_empty(&dims) {
            return Ok(());
        }
        let axes = self.coordinates(&dims, true)?;
        let condition = match self.choices.below(2) {
            0 => self.value_of(Lane::Bool).map(|known| known.value),
            _ => None,
        };
        let mode = self.mode(known, &axes, condition)?;
        let dtype = match known.lane {
            Lane::F32 => self.choices.pick(&[DType::Float32, DType::Float16, DType::BFloat16]),
            Lane::F64 => DType::Float64,
            _ => DType::Int64,
        };
        let operand: OperandId = self.builder.operand(name, Role::InOut, dtype, &dims)?;
        self.builder.store_at(Store { operand, axes, value: known.value, mode, condition })
    }

    /// Sums stay small, and each place has one value if it is set.
    fn mode(
        &mut self,
        known: Known,
        axes: &[ValueId],
        condition: Option<ValueId>,
    ) -> Result<StoreMode, Refusal> {
        let mut places = DimSet::NONE;
        for &axis in axes {
            places = places | self.builder.value(axis)?.span;
        }
        let mut span = self.builder.value(known.value)?.span;
        if let Some(condition) = condition {
            span = span | self.builder.value(condition)?.span;
        }
        let count: usize =
            (span | places).iter().map(|dim| self.extents[usize::from(dim.0)]).product();
        let mode = self.choices.pick(&[StoreMode::Set, StoreMode::Add, StoreMode::Min]);
        Ok(match mode {
            StoreMode::Set if !span.is_inside(places) => StoreMode::Max,
            StoreMode::Add if known.most * count as f64 > LARGEST => StoreMode::Max,
            mode => mode,
        })
    }

    fn coordinates(&mut self, dims: &[DimId], is_inside: bool) -> Result<Vec<ValueId>, Refusal> {
        dims.iter().map(|&dim| self.coordinate(dim, is_inside)).collect()
    }

    fn coordinate(&mut self, own: DimId, is_inside: bool) -> Result<ValueId, Refusal> {
        let index = match self.choices.below(4) {
            0 | 1 => return self.builder.index(own),
            2 => {
                let dims = self.dims.clone();
                let dim = self.choices.pick(&dims);
                let index = self.builder.index(dim)?;
                let scale = self.choices.pick(&[1, 2, -1]);
                let scale = self.integer(scale)?;
                self.builder.binary(BinaryOp::Mul, index, scale)?
            }
            _ => match self.value_of(Lane::I64) {
                Some(known) => known.value,
                None => self.integer(1)?,
            },
        };
        let offset = self.choices.pick(&[0, 1, -1, 3]);
        let offset = self.integer(offset)?;
        let index = self.builder.binary(BinaryOp::Add, index, offset)?;
        if !is_inside {
            return Ok(index);
        }
        let size = self.builder.size(own)?;
        self.builder.binary(BinaryOp::Modulo, index, size)
    }

    fn integer(&mut self, value: i64) -> Result<ValueId, Refusal> {
        self.builder.constant(Lane::I64, Constant::Int(value))
    }

    fn otherwise(&mut self, lane: Lane) -> Result<ValueId, Refusal> {
        let known = self.value_of(lane).filter(|known| known.most <= 5.0);
        match known {
            Some(known) if self.choices.below(2) == 0 => Ok(known.value),
            _ if lane == Lane::I64 => self.integer(4),
            _ => self.builder.constant(lane, Constant::Float(0.5)),
        }
    }

    fn is_empty(&self, dims: &[DimId]) -> bool {
        dims.iter().any(|dim| self.extents[usize::from(dim.0)] == 0)
    }
}
