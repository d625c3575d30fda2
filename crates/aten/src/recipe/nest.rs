//! Tensors as operands of a loop nest some of whose dims are reduced.

use smallvec::{SmallVec, smallvec};

use crate::dtypes::{is_complex, lane, part_of};
use crate::recipe::{KernelSource, Launch, OperandView, TensorRef};
use crate::template::{Template, Written};
use crate::views::{MOST_DIMS, Numbers};
use crate::{Decline, TensorView};
use spyre_numerics::DType;

/// A shape some of whose dims are reduced, and the tensors of it.
#[derive(Debug)]
pub(crate) struct Nest {
    axes: SmallVec<[Axis; 8]>,
    operands: SmallVec<[NestOperand; 6]>,
}

#[derive(Clone, Copy, Debug)]
struct NestOperand {
    place: TensorRef,
    dtype: DType,
    offset: usize,
}

#[derive(Clone, Debug)]
struct Axis {
    size: usize,
    is_reduced: bool,
    /// Per operand.
    strides: SmallVec<[usize; 6]>,
}

impl Nest {
    /// Loops over `size`; `reduced` says which dims are reduced.
    pub(crate) fn new(size: &[usize], reduced: impl Fn(usize) -> bool) -> Self {
        let axis = |(dim, &size)| Axis { size, is_reduced: reduced(dim), strides: smallvec![] };
        Self { axes: size.iter().enumerate().map(axis).collect(), operands: smallvec![] }
    }

    /// Adds a tensor whose strides along all dims are these. One of complex numbers is two operands, its
    /// parts.
    pub(crate) fn push(&mut self, place: TensorRef, dtype: DType, strides: &[usize]) {
        let parts = if is_complex(dtype) { 2 } else { 1 };
        for offset in 0..parts {
            for (axis, &stride) in self.axes.iter_mut().zip(strides) {
                axis.strides.push(parts * stride);
            }
            self.operands.push(NestOperand { place, dtype: part_of(dtype), offset });
        }
    }

    /// The launch of a template on it: in the order of the first tensor's memory, without dims of
    /// one element, and with dims that continue each other as one.
    pub(crate) fn launch(
        mut self,
        template: &'static Template,
        compute: DType,
        scalars: SmallVec<[u64; 4]>,
    ) -> Result<Launch, Decline> {
        self.axes.retain(|axis| axis.size != 1);
        self.axes.sort_by_key(|axis| std::cmp::Reverse(axis.strides[0]));
        self.merge(template);
        if !self.axes.iter().any(|axis| !axis.is_reduced) {
            let strides = smallvec![1; self.operands.len()];
            self.axes.insert(0, Axis { size: 1, is_reduced: false, strides });
        }
        if self.axes.len() > MOST_DIMS {
            return Err(Decline::Rank { dims: self.axes.len() });
        }
        for operand in &self.operands {
            lane(operand.dtype)?;
        }
        let kernel = Written {
            template,
            compute,
            dtypes: self.operands.iter().map(|operand| operand.dtype).collect(),
            reduced: self.axes.iter().map(|axis| axis.is_reduced).collect(),
        };
        let operands = (0..self.operands.len()).map(|at| self.view(template, at)).collect();
        Ok(Launch { kernel: KernelSource::Written(kernel), operands, scalars })
    }

    fn merge(&mut self, template: &Template) {
        for inner in (1..self.axes.len()).rev() {
            let outer = &self.axes[inner - 1];
            let axis = &self.axes[inner];
            let continues = template.operands.iter().enumerate().all(|(at, operand)| {
                !operand.spans.includes(axis.is_reduced)
                    || outer.strides[at] == axis.strides[at] * axis.size
            });
            if outer.is_reduced == axis.is_reduced && continues {
                let axis = self.axes.remove(inner);
                self.axes[inner - 1].size *= axis.size;
                self.axes[inner - 1].strides = axis.strides;
            }
        }
    }

    fn view(&self, template: &Template, at: usize) -> OperandView {
        let spans = template.operands[at].spans;
        let axes = || self.axes.iter().filter(|axis| spans.includes(axis.is_reduced));
        let NestOperand { place, offset, .. } = self.operands[at];
        OperandView {
            place,
            size: axes().map(|axis| axis.size).collect(),
            stride: axes().map(|axis| axis.strides[at]).collect(),
            offset,
        }
    }
}

/// A result's strides along the dims of what it is reduced from; those that it does not have are 0.
pub(crate) fn kept_strides(
    tensor: &TensorView<'_>,
    rank: usize,
    reduced: impl Fn(usize) -> bool,
) -> Numbers {
    let is_whole = tensor.size.len() == rank;
    let mut own = tensor.stride.iter();
    let mut stride = |dim| match (reduced(dim), is_whole) {
        (true, true) => own.next().map(|_| 0),
        (true, false) => Some(0),
        (false, _) => own.next().copied(),
    };
    (0..rank).map(|dim| stride(dim).unwrap_or(0)).collect()
}
