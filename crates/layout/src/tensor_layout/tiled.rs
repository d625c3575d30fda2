//! Device size and stride map from a host shape: the tiling rules.

use smallvec::SmallVec;

use super::{CARD_RANK, MAX_DEVICE_RANK};
use crate::{Dims, Error};

/// A device shape, and what it was made from.
pub(super) struct Shape {
    pub(super) device_size: Dims,
    pub(super) stride_map: SmallVec<[i64; 8]>,
    pub(super) tiling: Tiling,
}

/// Knowledge of a tiling rule about the layout that it made.
#[derive(Clone, Debug)]
pub(super) struct Tiling {
    /// The host dimension of each device dimension; of dimensions that were merged, the outermost.
    pub(super) dim_map: SmallVec<[Option<usize>; 8]>,
    /// The host dimensions that are padded to whole sticks.
    pub(super) stick_dims: SmallVec<[usize; 2]>,
}

/// A host dimension to be tiled.
#[derive(Clone, Copy)]
struct Dim {
    dim: Option<usize>,
    size: usize,
    stride: usize,
    role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Lies as it is.
    Plain,
    /// Is padded to whole sticks.
    Stick,
    /// Is not there: the lane of a sparse layout.
    Synthetic,
}

/// One device dimension, innermost last.
struct DeviceDim {
    dim: Option<usize>,
    size: usize,
    stride: i64,
}

/// The tiling rule: the dimensions in `dim_order`, the last along the stick.
pub(super) fn by_dim_order(
    size: &[usize],
    stride: &[usize],
    per_stick: usize,
    dim_order: &[i64],
) -> Result<Shape, Error> {
    let rank = size.len();
    if stride.len() != rank {
        return Err(Error::RankMismatch { sizes: rank, strides: stride.len() });
    }
    check_dim_order(rank, dim_order)?;
    let dims: SmallVec<[Dim; 8]> = dim_order
        .iter()
        .enumerate()
        .map(|(at, &dim)| match dim {
            -1 => Dim { dim: None, size: 1, stride: 1, role: Role::Synthetic },
            dim => {
                let role = if at + 1 == dim_order.len() { Role::Stick } else { Role::Plain };
                let dim = dim as usize;
                Dim { dim: Some(dim), size: size[dim], stride: stride[dim], role }
            }
        })
        .collect();
    let lane = dims.last().copied();
    tile(dims, lane.as_slice(), per_stick)
}

/// The tiling rule for any number of stick dimensions: all others first, in order.
pub(super) fn by_stick_dims(
    size: &[usize],
    stride: &[usize],
    per_stick: usize,
    stick_dims: &[usize],
) -> Result<Shape, Error> {
    let rank = size.len();
    if stride.len() != rank {
        return Err(Error::RankMismatch { sizes: rank, strides: stride.len() });
    }
    check_stick_dims(rank, stick_dims)?;
    let others = (0..rank).filter(|dim| !stick_dims.contains(dim));
    let order = others.chain(stick_dims.iter().copied()).map(|dim| dim as i64);
    if stick_dims.len() < 2 {
        let sparse = (stick_dims.is_empty() && rank > 0).then_some(-1);
        let order: SmallVec<[i64; 8]> = order.chain(sparse).collect();
        return by_dim_order(size, stride, per_stick, &order);
    }
    let dim = |dim: usize| {
        let role = if stick_dims.contains(&dim) { Role::Stick } else { Role::Plain };
        Dim { dim: Some(dim), size: size[dim], stride: stride[dim], role }
    };
    let lanes: SmallVec<[Dim; 2]> = stick_dims.iter().map(|&at| dim(at)).collect();
    tile(order.map(|at| dim(at as usize)).collect(), &lanes, per_stick)
}

fn check_dim_order(rank: usize, dim_order: &[i64]) -> Result<(), Error> {
    let refused = || Error::DimOrder { rank, dim_order: dim_order.to_vec() };
    let dims = match dim_order {
        [dims @ .., -1] if dims.len() == rank => dims,
        dims => dims,
    };
    let is_permutation = dims.len() == rank && (0..rank as i64).all(|dim| dims.contains(&dim));
    if is_permutation { Ok(()) } else { Err(refused()) }
}

fn check_stick_dims(rank: usize, stick_dims: &[usize]) -> Result<(), Error> {
    let is_wrong = |(at, dim): &(usize, &usize)| **dim >= rank || stick_dims[..*at].contains(dim);
    match stick_dims.iter().enumerate().find(is_wrong) {
        Some((_, &dim)) => Err(Error::StickDim { dim, rank, stick_dims: stick_dims.to_vec() }),
        None => Ok(()),
    }
}

/// Device dimensions, outermost first: the second to the last, then the first, then the lanes.
fn tile(mut dims: SmallVec<[Dim; 8]>, lanes: &[Dim], per_stick: usize) -> Result<Shape, Error> {
    let most = CARD_RANK.min(MAX_DEVICE_RANK - lanes.len().min(MAX_DEVICE_RANK - 1));
    collapse(&mut dims, most.max(1))?;
    if dims.len() > 1 {
        dims.rotate_left(1);
    }
    let outer = dims.iter().map(|dim| dim.outer(per_stick));
    let inner = lanes.iter().map(|dim| dim.lane(per_stick));
    let mut places: SmallVec<[DeviceDim; 8]> = outer.chain(inner).collect::<Result<_, _>>()?;
    if places.is_empty() {
        // A scalar: one element in a stick of its own.
        places.push(DeviceDim { dim: None, size: 1, stride: -1 });
        places.push(DeviceDim { dim: None, size: per_stick, stride: -1 });
    }
    let sticks = lanes.iter().filter(|dim| dim.role == Role::Stick);
    Ok(Shape {
        device_size: places.iter().map(|place| place.size).collect(),
        stride_map: places.iter().map(|place| place.stride).collect(),
        tiling: Tiling {
            dim_map: places.iter().map(|place| place.dim).collect(),
            stick_dims: sticks.filter_map(|dim| dim.dim).collect(),
        },
    })
}

impl Dim {
    fn outer(&self, per_stick: usize) -> Result<DeviceDim, Error> {
        let (size, span) = match self.role {
            Role::Stick => (self.size.div_ceil(per_stick), per_stick),
            Role::Plain | Role::Synthetic => (self.size, 1),
        };
        Ok(DeviceDim { dim: self.dim, size, stride: self.map_entry(span)? })
    }

    fn lane(&self, per_stick: usize) -> Result<DeviceDim, Error> {
        Ok(DeviceDim { dim: self.dim, size: per_stick, stride: self.map_entry(1)? })
    }

    /// The host elements that a step of `span` along this dimension spans.
    fn map_entry(&self, span: usize) -> Result<i64, Error> {
        if self.size == 1 || self.role == Role::Synthetic {
            return Ok(-1);
        }
        let elements = self.stride.checked_mul(span).and_then(|stride| stride.try_into().ok());
        elements.ok_or_else(|| Error::TooLarge { size: vec![self.size], stride: vec![self.stride] })
    }
}

/// Merges plain dimensions that lie behind each other on the host, outermost first, until at most
/// `most` are left.
fn collapse(dims: &mut SmallVec<[Dim; 8]>, most: usize) -> Result<(), Error> {
    let rank = dims.len();
    while dims.len() > most {
        let (outer, inner) = neighbours(dims).ok_or(Error::Rank { rank, max: most })?;
        let large = dims[outer];
        let small = dims[inner];
        let size = large.size.checked_mul(small.size);
        let size = size.ok_or_else(|| super::too_large(&[large.size, small.size]))?;
        let stride = if small.size == 1 { large.stride } else { small.stride };
        dims[outer.min(inner)] = Dim { dim: large.dim, size, stride, role: Role::Plain };
        dims.remove(outer.max(inner));
    }
    Ok(())
}

/// Two plain dimensions of which the first steps over the whole of the second.
fn neighbours(dims: &[Dim]) -> Option<(usize, usize)> {
    let plain = |at: &usize| dims[*at].role == Role::Plain;
    let adjoin = |outer: &Dim, inner: &Dim| {
        inner.size == 1
            || outer.size == 1
            || inner.stride.checked_mul(inner.size.max(1)) == Some(outer.stride)
    };
    (0..dims.len()).filter(plain).find_map(|outer| {
        let mut others = (0..dims.len()).filter(plain).filter(|&inner| inner != outer);
        others.find(|&inner| adjoin(&dims[outer], &dims[inner])).map(|inner| (outer, inner))
    })
}
