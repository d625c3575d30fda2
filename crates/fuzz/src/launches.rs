//! Launches of a plan, with tensors that fit and tensors that do not.

use std::collections::BTreeMap;

use spyre_artifact::{CompilerOutput, ExpectedSize, TensorMetadata};
use spyre_hal::DeviceHandle;
use spyre_layout::{SpyreTensorLayout, View};
use spyre_numerics::{DType, DataFormat};
use spyre_runtime::{
    Error, ExecutionPlan, SpyreStream, SpyreTensor, launch_kernel, launch_kernel_with,
};

use crate::bed::{Bed, TENSORS, Written};
use crate::random::Random;

/// Tensors and scalars that a plan is launched with.
pub(crate) struct Launch {
    tensors: Vec<SpyreTensor>,
    scalars: Vec<u64>,
    way: Way,
}

/// The ways in which a plan can be launched, and one that copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Kernel,
    KernelWithFewScalars,
    KernelWithAny,
    Strict,
    Tiled,
    Handles,
    ToHost,
}

const WAYS: [Way; 6] = [
    Way::KernelWithFewScalars,
    Way::KernelWithAny,
    Way::Strict,
    Way::Tiled,
    Way::Handles,
    Way::ToHost,
];

/// Elements of all dims together, so that launches end soon.
const MOST_ELEMENTS: usize = 1500;
/// Elements of one storage.
const MOST_STORED: usize = 100_000;
/// Tiles of all dims together.
const MOST_TILES: usize = 24;

impl Launch {
    pub(crate) fn new(bed: &Bed, output: &CompilerOutput, random: &mut Random) -> Self {
        let extents = extents(output, random);
        let mut slots: [usize; TENSORS] = std::array::from_fn(|at| at);
        random.shuffle(&mut slots);
        let mut tensors: Vec<SpyreTensor> = Vec::new();
        for (at, expected) in output.tensor_input_metadata.iter().enumerate() {
            let shared = random.one_in(20) && !tensors.is_empty();
            let tensor = if shared {
                Some(tensors[random.below(tensors.len())].clone())
            } else {
                tensor(bed, slots.get(at).copied(), expected, &extents, random)
            };
            tensors.extend(tensor);
        }
        if random.one_in(5) {
            spoil(&mut tensors, bed, random);
        }
        let way = if random.one_in(3) { random.pick(&WAYS) } else { Way::Kernel };
        Self { tensors, scalars: (0..random.below(4)).map(|_| random.word()).collect(), way }
    }

    /// Launches it.
    pub(crate) fn run(
        &self,
        stream: &SpyreStream,
        plan: &ExecutionPlan,
        random: &mut Random,
    ) -> Result<(), Error> {
        if random.one_in(8) {
            plan.load(stream)?;
        }
        let operations = plan.operations();
        match self.way {
            Way::KernelWithFewScalars => launch_kernel(stream, plan, &self.tensors).map(drop),
            Way::KernelWithAny => {
                launch_kernel_with(stream, plan, &self.tensors, &self.scalars).map(drop)
            }
            Way::Strict => operations
                .iter()
                .try_for_each(|operation| stream.launch(operation, &self.tensors).map(drop)),
            Way::Tiled => operations
                .iter()
                .try_for_each(|operation| stream.launch_tiled(operation, &self.tensors).map(drop)),
            Way::Handles => {
                let handles: Vec<DeviceHandle> =
                    self.tensors.iter().map(SpyreTensor::device_handle).collect();
                operations
                    .iter()
                    .try_for_each(|operation| stream.launch_handles(operation, &handles).map(drop))
            }
            Way::ToHost => self.tensors.iter().try_for_each(|tensor| {
                if tensor.view().elements() > 1 << 16 {
                    return Ok(());
                }
                tensor.to_host(stream).map(drop)
            }),
            Way::Kernel => {
                let mut scalars: Vec<u64> = self.scalars.clone();
                scalars.resize(plan.scalars(), random.below(3) as u64);
                launch_kernel_with(stream, plan, &self.tensors, &scalars).map(drop)
            }
        }
    }

    /// Bytes that the launch may have written.
    pub(crate) fn written(&self, output: &CompilerOutput, is_exact: bool) -> Vec<Written<'_>> {
        let roles = output.tensor_input_metadata.iter().map(|tensor| tensor.role.is_written());
        let written = self.tensors.iter().zip(roles).filter(|(_, is_written)| *is_written);
        written
            .map(|(tensor, _)| {
                if is_exact && self.way != Way::Handles {
                    Written::View(tensor)
                } else {
                    Written::Storage(tensor)
                }
            })
            .collect()
    }
}

/// Length of each dim, by its name.
fn extents<'a>(output: &'a CompilerOutput, random: &mut Random) -> BTreeMap<&'a str, usize> {
    let mut extents = BTreeMap::new();
    let mut elements = MOST_ELEMENTS;
    let mut tiles = MOST_TILES;
    let dims = output.tensor_input_metadata.iter().flat_map(|tensor| &tensor.dims);
    for dim in dims {
        if extents.contains_key(dim.name.as_str()) {
            continue;
        }
        let most = elements.min(if random.one_in(4) { 200 } else { 9 });
        let extent = match dim.size {
            ExpectedSize::Any => random.below(most + 1),
            ExpectedSize::Fixed(tile) => {
                let tile = tile.get() as usize;
                let times = if random.one_in(2) { 1 } else { random.below(tiles.min(4) + 1) };
                let rest = if random.one_in(3) { random.below(tile) } else { 0 };
                tiles /= (times + 1).max(1);
                (tile * times + rest).min(most)
            }
        };
        // Nothing at all is one case of many.
        let extent = if extent == 0 && !random.one_in(8) { 1 } else { extent };
        elements = (elements / extent.max(1)).max(1);
        extents.insert(dim.name.as_str(), extent);
    }
    extents
}

/// A tensor as a plan expects it, in one of many places and views.
fn tensor(
    bed: &Bed,
    slot: Option<usize>,
    expected: &TensorMetadata,
    extents: &BTreeMap<&str, usize>,
    random: &mut Random,
) -> Option<SpyreTensor> {
    let shape: Vec<usize> = expected.dims.iter().map(|dim| extents[dim.name.as_str()]).collect();
    let (storage, view) = view(&shape, random)?;
    if storage.iter().product::<usize>() > MOST_STORED {
        return None; // a dim that a tensor has many times
    }
    let layout = SpyreTensorLayout::contiguous(&storage, expected.format).ok()?;
    let made = match slot.filter(|_| layout.device_bytes() <= crate::bed::TENSOR_BYTES) {
        Some(slot) => SpyreTensor::at(&bed.device, bed.slot(slot), layout, expected.dtype, view),
        None => SpyreTensor::with_layout(&bed.stream, &storage, expected.dtype, layout)
            .and_then(|tensor| tensor.as_strided(view.size(), view.stride(), view.offset())),
    };
    made.ok()
}

/// The shape of a storage, and a view of this shape in it; `None` if it is too large.
fn view(shape: &[usize], random: &mut Random) -> Option<(Vec<usize>, View)> {
    let rank = shape.len();
    match random.below(4) {
        0 if rank > 0 => {
            // A part of something larger.
            let room: Vec<usize> = shape.iter().map(|size| size + random.below(3)).collect();
            let large = View::contiguous(&room).ok()?;
            let starts = room.iter().zip(shape).map(|(room, size)| random.below(room - size + 1));
            let offset = starts.zip(large.stride()).map(|(start, stride)| start * stride).sum();
            let view = View::new(shape, large.stride(), offset).ok()?;
            Some((room, view))
        }
        1 if rank > 1 => {
            // Dimensions in another order.
            let mut order: Vec<usize> = (0..rank).collect();
            random.shuffle(&mut order);
            let room: Vec<usize> = order.iter().map(|&dim| shape[dim]).collect();
            let large = View::contiguous(&room).ok()?;
            let mut stride = vec![0; rank];
            for (&dim, &step) in order.iter().zip(large.stride()) {
                stride[dim] = step;
            }
            Some((room, View::new(shape, &stride, 0).ok()?))
        }
        2 if rank > 0 && random.one_in(3) => {
            // The same again and again.
            let dim = random.below(rank);
            let mut room = shape.to_vec();
            room[dim] = room[dim].min(1);
            let mut stride = View::contiguous(&room).ok()?.stride().to_vec();
            stride[dim] = 0;
            Some((room, View::new(shape, &stride, 0).ok()?))
        }
        _ => Some((shape.to_vec(), View::contiguous(shape).ok()?)),
    }
}

/// Makes something wrong with the tensors of a launch.
fn spoil(tensors: &mut Vec<SpyreTensor>, bed: &Bed, random: &mut Random) {
    let Some(last) = tensors.len().checked_sub(1) else { return };
    let at = random.below(last + 1);
    let tensor = tensors[at].clone();
    let with = |handle, layout: &SpyreTensorLayout, dtype, view: &View| {
        SpyreTensor::at(&bed.device, handle, layout.clone(), dtype, view.clone())
    };
    let layout = tensor.layout();
    let view = tensor.view();
    let other = tensors[random.below(last + 1)].device_handle();
    let changed = match random.below(9) {
        0 => {
            tensors.pop();
            return;
        }
        1 => {
            tensors.push(tensor);
            return;
        }
        2 => with(tensor.device_handle(), layout, DType::Int32, view),
        3 => {
            let dtype = tensor.data_type();
            SpyreTensorLayout::contiguous(view.size(), DataFormat::BFloat16)
                .map_err(Error::from)
                .and_then(|layout| with(tensor.device_handle(), &layout, dtype, view))
        }
        // Memory of another tensor: seen as this one, it may be too small, or shared.
        4 | 5 => with(other, layout, tensor.data_type(), view),
        6 => {
            let size: Vec<usize> = view.size().iter().map(|size| size + random.below(2)).collect();
            tensor.as_strided(&size, view.stride(), view.offset())
        }
        7 => {
            let mut size = view.size().to_vec();
            let stride = vec![0; size.len()];
            if let Some(size) = size.last_mut() {
                *size = random.pick(&[1 << 12, 1 << 40, 1 << 63, usize::MAX]);
            }
            tensor.as_strided(&size, &stride, view.offset())
        }
        _ => {
            // Memory that is gone.
            let gone = bed.stream.flex().allocate(4096).expect("there is room");
            bed.device.context().free(gone).expect("it is live");
            with(gone, layout, tensor.data_type(), view)
        }
    };
    if let Ok(changed) = changed {
        tensors[at] = changed;
    }
}
