//! The naive loop nest: a storage's layout as plain nested loops over host dimensions, written
//! down without the library's own idea of it.

use spyre_layout::SpyreTensorLayout;
use spyre_numerics::DataFormat;

use crate::random::Random;

/// One device dimension, outermost first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceDim {
    pub(crate) size: usize,
    pub(crate) meaning: Meaning,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning {
    /// Steps of `block` along host dimension `dim`, within the next larger block.
    Steps { dim: usize, block: usize },
    /// Copies of everything.
    Replica,
    /// Only its first position is used.
    Inert,
}

/// A storage: its host shape and the loops that lay it out.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    pub(crate) size: Vec<usize>,
    pub(crate) stride: Vec<usize>,
    pub(crate) format: DataFormat,
    pub(crate) dims: Vec<DeviceDim>,
    pub(crate) layout: SpyreTensorLayout,
}

impl Storage {
    /// A storage of this host size, in a layout of any kind.
    pub(crate) fn random(random: &mut Random, size: &[usize], format: DataFormat) -> Self {
        let stride = random_stride(random, size);
        match random.below(6) {
            0 => Self::by_order(random, size, &stride, format, false),
            1 => Self::by_order(random, size, &stride, format, true),
            2 => Self::by_stick_dims(random, size, &stride, format),
            3 | 4 => Self::explicit(random, size, &stride, format),
            _ => Self::row_major(size, format),
        }
    }

    pub(crate) fn row_major(size: &[usize], format: DataFormat) -> Self {
        let order: Vec<usize> = (0..size.len()).collect();
        let layout = SpyreTensorLayout::contiguous(size, format).expect("a default layout");
        let dims = tiled(size, &order, format, false);
        Self { size: size.to_vec(), stride: contiguous(size), format, dims, layout }
    }

    fn by_order(
        random: &mut Random,
        size: &[usize],
        stride: &[usize],
        format: DataFormat,
        is_sparse: bool,
    ) -> Self {
        let order = random.permutation(size.len());
        let sparse = is_sparse.then_some(-1);
        let dim_order: Vec<i64> = order.iter().map(|&dim| dim as i64).chain(sparse).collect();
        let layout = SpyreTensorLayout::with_dim_order(size, stride, format, &dim_order)
            .expect("a permutation");
        let dims = tiled(size, &order, format, is_sparse);
        Self { size: size.to_vec(), stride: stride.to_vec(), format, dims, layout }
    }

    /// Several stick dimensions: blocks of as many elements as a stick holds in each of them.
    fn by_stick_dims(
        random: &mut Random,
        size: &[usize],
        stride: &[usize],
        format: DataFormat,
    ) -> Self {
        let most = size.len().min(2);
        let sticks: Vec<usize> =
            random.permutation(size.len()).into_iter().take(random.between(0, most)).collect();
        let layout = SpyreTensorLayout::with_stick_dims(size, stride, format, &sticks)
            .expect("dimensions that exist");
        let others = (0..size.len()).filter(|dim| !sticks.contains(dim));
        let order: Vec<usize> = others.chain(sticks.iter().copied()).collect();
        let dims = match sticks[..] {
            [first, last] => blocked(size, &order, format, [first, last]),
            _ => tiled(size, &order, format, sticks.is_empty() && !size.is_empty()),
        };
        Self { size: size.to_vec(), stride: stride.to_vec(), format, dims, layout }
    }

    /// Random splits of every host dimension, in a random order, with room to spare.
    fn explicit(random: &mut Random, size: &[usize], stride: &[usize], format: DataFormat) -> Self {
        let lanes = format.elements_per_stick();
        let stick_dim = (!size.is_empty() && !random.once_in(8)).then(|| random.below(size.len()));
        let mut outer = Vec::new();
        for dim in 0..size.len() {
            let mut parent = size[dim];
            let smallest = if stick_dim == Some(dim) { random.between(1, lanes) } else { 1 };
            while parent > smallest {
                let is_last = random.once_in(2);
                let block = if is_last { smallest } else { random.between(smallest, parent) };
                // A single block has no room to spare: it would be a step of the next dimension.
                let has_spare = block < parent && random.once_in(3);
                let spare = if has_spare { random.below(4) } else { 0 };
                let size = parent.div_ceil(block) + spare;
                outer.push(DeviceDim { size, meaning: Meaning::Steps { dim, block } });
                parent = block;
            }
            if random.once_in(8) {
                outer.push(DeviceDim {
                    size: 1,
                    meaning: Meaning::Steps { dim, block: parent.max(1) },
                });
            }
        }
        if random.once_in(6) {
            outer.push(DeviceDim { size: random.between(2, 3), meaning: Meaning::Replica });
        }
        if random.once_in(4) {
            outer.push(DeviceDim { size: random.between(1, 3), meaning: Meaning::Inert });
        }
        if outer.len() > 7 {
            return Self::row_major(size, format);
        }
        let order = random.permutation(outer.len());
        let mut dims: Vec<DeviceDim> = order.into_iter().map(|at| outer[at]).collect();
        let lane = match stick_dim {
            Some(dim) => Meaning::Steps { dim, block: 1 },
            None => Meaning::Inert,
        };
        dims.push(DeviceDim { size: lanes, meaning: lane });
        if counts_sticks_of_another(&dims, stride, stick_dim, lanes) {
            return Self::row_major(size, format);
        }
        Self::from_dims(size, stride, format, dims)
    }

    fn from_dims(
        size: &[usize],
        stride: &[usize],
        format: DataFormat,
        dims: Vec<DeviceDim>,
    ) -> Self {
        let device_size: Vec<usize> = dims.iter().map(|dim| dim.size).collect();
        let stride_map: Vec<i64> = dims
            .iter()
            .map(|dim| match dim.meaning {
                Meaning::Steps { dim, block, .. } => (block * stride[dim]) as i64,
                Meaning::Replica => 0,
                Meaning::Inert => -1,
            })
            .collect();
        let layout = SpyreTensorLayout::explicit(&device_size, &stride_map, format)
            .and_then(|layout| layout.for_host(size, stride))
            .unwrap_or_else(|error| panic!("{size:?} {stride:?} {dims:?}: {error}"));
        Self { size: size.to_vec(), stride: stride.to_vec(), format, dims, layout }
    }

    /// Host elements from the first to the last.
    pub(crate) fn elements(&self) -> usize {
        if self.size.contains(&0) {
            return 0;
        }
        1 + self
            .size
            .iter()
            .zip(&self.stride)
            .map(|(size, stride)| (size - 1) * stride)
            .sum::<usize>()
    }

    /// The device places of each host element, first place first; none for the gaps of the host.
    pub(crate) fn places(&self) -> Vec<Vec<usize>> {
        let mut places = vec![Vec::new(); self.elements()];
        each_index(&self.size, |index| {
            let host: usize = index.iter().zip(&self.stride).map(|(i, stride)| i * stride).sum();
            places[host] = self.places_of(index);
        });
        places
    }

    fn places_of(&self, index: &[usize]) -> Vec<usize> {
        let steps = self.steps_of(index);
        let mut places = vec![0];
        for (dim, step) in self.dims.iter().zip(steps) {
            places.iter_mut().for_each(|place| *place = *place * dim.size + step);
            if let Meaning::Replica = dim.meaning {
                let copies =
                    |place: &usize| (0..dim.size).map(|copy| place + copy).collect::<Vec<_>>();
                places = places.iter().flat_map(copies).collect();
            }
        }
        places.sort_unstable();
        places
    }

    /// The position along each device dimension: per host dimension, the largest blocks first.
    fn steps_of(&self, index: &[usize]) -> Vec<usize> {
        let mut steps = vec![0; self.dims.len()];
        for (host, &position) in index.iter().enumerate() {
            let mut splits: Vec<(usize, usize)> = Vec::new();
            for (at, device) in self.dims.iter().enumerate() {
                match device.meaning {
                    Meaning::Steps { dim, block } if dim == host => splits.push((block, at)),
                    _ => {}
                }
            }
            splits
                .sort_by_key(|&(block, at)| (std::cmp::Reverse(block), self.dims[at].size > 1, at));
            let mut rest = position;
            for (block, at) in splits {
                steps[at] = if self.dims[at].size > 1 { rest / block } else { 0 };
                rest = if self.dims[at].size > 1 { rest % block } else { rest };
            }
        }
        steps
    }
}

/// Returns true if the third device dimension from the end steps as the stick count would, though it
/// is of another host dimension: by its strides it then *is* the stick count.
fn counts_sticks_of_another(
    dims: &[DeviceDim],
    stride: &[usize],
    stick_dim: Option<usize>,
    lanes: usize,
) -> bool {
    let Some((stick_dim, at)) = stick_dim.zip(dims.len().checked_sub(3)) else { return false };
    match dims[at].meaning {
        Meaning::Steps { dim, block } => {
            dim != stick_dim && block * stride[dim] == lanes * stride[stick_dim]
        }
        Meaning::Replica | Meaning::Inert => false,
    }
}

/// The tiling rule: second to last dimension of the order, then the first, then the lanes.
fn tiled(size: &[usize], order: &[usize], format: DataFormat, is_sparse: bool) -> Vec<DeviceDim> {
    let lanes = format.elements_per_stick();
    let plain =
        |dim: usize| DeviceDim { size: size[dim], meaning: Meaning::Steps { dim, block: 1 } };
    let inert = |size| DeviceDim { size, meaning: Meaning::Inert };
    let Some((&stick, others)) = order.split_last() else { return vec![inert(1), inert(lanes)] };
    let mut dims: Vec<DeviceDim> = if is_sparse {
        order.iter().map(|&dim| plain(dim)).chain([inert(1)]).collect()
    } else {
        let count = size[stick].div_ceil(lanes);
        let tiles = Meaning::Steps { dim: stick, block: lanes };
        let tiles = DeviceDim { size: count, meaning: tiles };
        others.iter().map(|&dim| plain(dim)).chain([tiles]).collect()
    };
    dims.rotate_left(1);
    dims.push(if is_sparse {
        inert(lanes)
    } else {
        DeviceDim { size: lanes, meaning: Meaning::Steps { dim: stick, block: 1 } }
    });
    dims
}

fn blocked(
    size: &[usize],
    order: &[usize],
    format: DataFormat,
    sticks: [usize; 2],
) -> Vec<DeviceDim> {
    let lanes = format.elements_per_stick();
    let mut dims: Vec<DeviceDim> = order
        .iter()
        .map(|&dim| {
            let block = if sticks.contains(&dim) { lanes } else { 1 };
            let meaning = Meaning::Steps { dim, block };
            DeviceDim { size: size[dim].div_ceil(block), meaning }
        })
        .collect();
    dims.rotate_left(1);
    let lane = |dim| DeviceDim { size: lanes, meaning: Meaning::Steps { dim, block: 1 } };
    dims.extend(sticks.map(lane));
    dims
}

pub(crate) fn contiguous(size: &[usize]) -> Vec<usize> {
    let mut stride = vec![1; size.len()];
    for dim in (1..size.len()).rev() {
        stride[dim - 1] = stride[dim] * size[dim].max(1);
    }
    stride
}

/// Row-major, permuted, or with gaps between rows.
fn random_stride(random: &mut Random, size: &[usize]) -> Vec<usize> {
    let order =
        if random.once_in(2) { random.permutation(size.len()) } else { (0..size.len()).collect() };
    let gap = if random.once_in(4) { random.between(1, 5) } else { 0 };
    let mut stride = vec![1; size.len()];
    let mut next = 1;
    for (at, &dim) in order.iter().rev().enumerate() {
        stride[dim] = next;
        next = next * size[dim].max(1) + if at == 0 { gap } else { 0 };
    }
    stride
}

pub(crate) fn each_index(size: &[usize], mut f: impl FnMut(&[usize])) {
    if size.contains(&0) {
        return;
    }
    let mut index = vec![0; size.len()];
    loop {
        f(&index);
        let Some(at) = (0..size.len()).rev().find(|&at| index[at] + 1 < size[at]) else { return };
        index[at] += 1;
        index[at + 1..].fill(0);
    }
}
