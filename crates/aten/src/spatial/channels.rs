//! Images as batches of channels of places.

use smallvec::{SmallVec, smallvec};
use spyre_numerics::DType;

use crate::dtypes::{Category, lane};
use crate::generated::Generated;
use crate::recipe::{KernelSource, Launch, OperandView, TensorRef};
use crate::views::Numbers;
use crate::{Decline, TensorView};

/// Tensors of one shape: a batch, channels, and as few dims of places as their memory allows. The
/// channels may be divided in groups.
#[derive(Debug)]
pub(super) struct Channels {
    /// The extents of all dims: batch, groups (if there are any), channels, places.
    pub(super) size: Numbers,
    /// Strides of each tensor along them.
    strides: SmallVec<[Numbers; 4]>,
    has_groups: bool,
}

impl Channels {
    /// Reads the channels of tensors of one shape, with at least a batch and channels.
    pub(super) fn of(tensors: &[TensorView<'_>]) -> Result<Self, Decline> {
        let size = Numbers::from(tensors[0].size);
        let is_alike = tensors.iter().all(|tensor| tensor.size == &size[..]);
        if size.len() < 2 || size.contains(&0) || !is_alike {
            return Err(Decline::Shapes);
        }
        let strides = tensors.iter().map(|tensor| Numbers::from(tensor.stride)).collect();
        let mut channels = Self { size, strides, has_groups: false };
        channels.merge_places();
        Ok(channels)
    }

    /// Divides the channels into so many groups.
    pub(super) fn in_groups(mut self, groups: usize) -> Result<Self, Decline> {
        let each = self.size[1].checked_div(groups).filter(|each| each * groups == self.size[1]);
        let each = each.ok_or(Decline::Shapes)?;
        self.size[1] = each;
        self.size.insert(1, groups);
        for strides in &mut self.strides {
            let stride = strides[1];
            strides.insert(1, stride * each);
        }
        self.has_groups = true;
        Ok(self)
    }

    fn merge_places(&mut self) {
        for inner in (3..self.size.len()).rev() {
            let size = self.size[inner];
            let continues = |strides: &Numbers| strides[inner - 1] == strides[inner] * size;
            if self.strides.iter().all(continues) {
                self.size[inner - 1] *= self.size.remove(inner);
                for strides in &mut self.strides {
                    strides.remove(inner - 1);
                }
            }
        }
    }

    /// The first dim of places.
    pub(super) fn first_place(&self) -> usize {
        if self.has_groups { 3 } else { 2 }
    }

    /// Elements of each channel in the whole batch.
    pub(super) fn elements(&self) -> usize {
        self.size[0] * self.size[self.first_place()..].iter().product::<usize>()
    }

    /// The operand that one of the tensors is.
    pub(super) fn tensor(&self, at: usize, place: TensorRef, dtype: DType) -> (DType, OperandView) {
        self.view(place, dtype, self.strides[at].clone())
    }

    /// An operand that differs along some dims only, with these strides, and is repeated along others.
    pub(super) fn view(
        &self,
        place: TensorRef,
        dtype: DType,
        stride: Numbers,
    ) -> (DType, OperandView) {
        (dtype, OperandView { place, size: self.size.clone(), stride, offset: 0 })
    }
}

/// A list with a number for each channel, as an operand.
pub(super) fn per_channel(place: TensorRef, tensor: &TensorView<'_>) -> (DType, OperandView) {
    let view =
        OperandView { place, size: tensor.size.into(), stride: tensor.stride.into(), offset: 0 };
    (tensor.dtype, view)
}

/// A launch on operands that are views already.
pub(super) fn launch(
    name: &'static str,
    write: fn(&Generated) -> String,
    numbers: SmallVec<[u32; 8]>,
    operands: SmallVec<[(DType, OperandView); 8]>,
) -> Result<Launch, Decline> {
    for &(dtype, _) in &operands {
        lane(dtype)?;
    }
    let (dtypes, operands) = operands.into_iter().unzip::<_, _, SmallVec<_>, SmallVec<_>>();
    let kernel = KernelSource::Generated(Generated { name, write, dtypes, numbers });
    Ok(Launch { kernel, operands, scalars: smallvec![] })
}

/// Returns the dtype that norms of these tensors are computed in: a float that has a lane, the same for all.
pub(super) fn common_lane(
    x: &TensorView<'_>,
    others: impl IntoIterator<Item = Option<DType>>,
) -> Result<DType, Decline> {
    let own = lane(x.dtype)?;
    if Category::of(x.dtype) != Category::Float {
        return Err(Decline::DType { dtype: x.dtype });
    }
    for dtype in others.into_iter().flatten() {
        if lane(dtype)? != own {
            return Err(Decline::DType { dtype });
        }
    }
    Ok(if x.dtype == DType::Float64 { DType::Float64 } else { DType::Float32 })
}
