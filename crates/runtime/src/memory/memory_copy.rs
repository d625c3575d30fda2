//! Copies between a framework's host tensors and views of device memory.
//!
//! Every view is exact. Where a storage's layout can say where the elements of a view lie, a nest
//! carries them; where it cannot (elements of another width that rows cut in two, formats that hold
//! other bits than the host), the part of the storage that the view touches is brought to the host,
//! as the host would have it, and back.

use std::sync::Arc;

use spyre_hal::{
    ControlBlock, CopyDevice, CopyFromDevice, CopyToDevice, HostBuffer, HostSource, HostTarget,
};
use spyre_layout::{DmaNest, Endpoint, Solo, SpyreTensorLayout, TensorView, View};
use spyre_numerics::{Converter, DType, DataFormat};

use crate::cpu_tensor::element_bytes;
use crate::memory::nest_cache::{End, nest};
use crate::memory::storage_layout::{SharedLayout, StorageLayout};
use crate::{Error, MemoryView, SpyreStream, TensorMemory};

/// Moment at which a copy returns: when it is done, or when it is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// The caller carries it out if it can.
    WhenDone,
    /// The caller keeps all that the copy touches, unchanged, until the copy is done.
    WhenQueued,
}

/// Copies that the caller carries out itself, if nothing is ahead of them: another thread would take
/// longer to wake.
const SMALL_BYTES: u64 = 64 << 10;

/// Copies host elements to a view of the same size, converted if dtypes differ.
pub fn copy_to_device(
    stream: &SpyreStream,
    source: HostSource,
    from: &TensorView<'_>,
    to: &MemoryView<'_>,
    returns: Return,
) -> Result<(), Error> {
    if to.elements.is_empty() {
        return Ok(());
    }
    stream.refuse_in_capture("a copy from the host")?;
    let Some(target) = direct_end(to, from.dtype) else {
        let mut image = HostCopy::read(stream, to)?;
        image.put(source.bytes(), from, to)?;
        return image.write(stream, to);
    };
    let nest = Some(nest(host_end(from), target)?);
    let copy = CopyToDevice { source, target: to.memory.range(), nest };
    let is_small = to.memory.range().bytes <= SMALL_BYTES;
    submit(stream, ControlBlock::CopyToDevice(Box::new(copy)), returns, is_small)
}

/// Copies a view to host elements of the same size, converted if dtypes differ.
pub fn copy_from_device(
    stream: &SpyreStream,
    from: &MemoryView<'_>,
    mut target: HostTarget,
    to: &TensorView<'_>,
    returns: Return,
) -> Result<(), Error> {
    if from.elements.is_empty() {
        return Ok(());
    }
    stream.refuse_in_capture("a copy to the host")?;
    let Some(source) = direct_end(from, to.dtype) else {
        let image = HostCopy::read(stream, from)?;
        return image.take(from, target.bytes_mut(), to);
    };
    let nest = Some(nest(source, host_end(to))?);
    let copy = CopyFromDevice { source: from.memory.range(), target, nest };
    let is_small = from.memory.range().bytes <= SMALL_BYTES;
    submit(stream, ControlBlock::CopyFromDevice(Box::new(copy)), returns, is_small)
}

/// Queues a copy between views of the same size on one device, converted if dtypes differ. They may
/// be views of the same memory.
pub fn copy_on_device(
    stream: &SpyreStream,
    from: &MemoryView<'_>,
    to: &MemoryView<'_>,
) -> Result<(), Error> {
    if from.elements.is_empty() {
        return Ok(());
    }
    let is_same = Arc::ptr_eq(from.memory, to.memory);
    match (direct_end(from, to.elements.dtype), direct_end(to, from.elements.dtype)) {
        (Some(_), Some(_)) if is_same => by_way_of_memory(stream, from, to),
        (Some(source), Some(target)) if is_plain_pair(from, to) => {
            let nest = Some(nest(source, target)?);
            let source = from.memory.range();
            let target = to.memory.range();
            let is_small = source.bytes + target.bytes <= SMALL_BYTES;
            let copy = Box::new(CopyDevice { source, target, nest });
            if stream.is_capturing() {
                let noted = ControlBlock::CopyDevice(copy.clone());
                if stream.note_block(noted, [from.memory, to.memory])?.is_some() {
                    return Ok(());
                }
            }
            submit(stream, ControlBlock::CopyDevice(copy), Return::WhenQueued, is_small)
        }
        _ => by_way_of_host(stream, from, stream, to),
    }
}

/// Copies a view to one on another device and waits for it.
///
/// Where both lie alike, bytes go from card to card; otherwise by way of the host.
pub fn copy_to_peer(
    source: &SpyreStream,
    from: &MemoryView<'_>,
    target: &SpyreStream,
    to: &MemoryView<'_>,
) -> Result<(), Error> {
    if from.elements.is_empty() {
        return Ok(());
    }
    source.refuse_in_capture("a copy to another card")?;
    target.refuse_in_capture("a copy from another card")?;
    if !is_whole_pair(from, to) {
        return by_way_of_host(source, from, target, to);
    }
    // The other card knows nothing of this one's streams: what it has queued must end first.
    target.synchronize()?;
    let peer = to.memory.device().context();
    let point = source.flex().copy_to_peer(from.memory.range(), peer, to.memory.range())?;
    Ok(source.ticket(point).wait()?)
}

fn submit(
    stream: &SpyreStream,
    block: ControlBlock,
    returns: Return,
    is_small: bool,
) -> Result<(), Error> {
    let flex = stream.flex();
    if returns == Return::WhenDone {
        return Ok(flex.run(block)?);
    }
    if is_small && flex.is_idle() {
        Ok(flex.run_soon(block)?)
    } else {
        Ok(flex.submit([block]).map(drop)?)
    }
}

/// A view of a storage where a nest finds its elements, and converts them as the host would.
fn direct_end<'a>(view: &MemoryView<'a>, other: DType) -> Option<End<'a>> {
    let layout = view.storage_layout();
    let elements = view.elements;
    let seen = layout.seen_as(elements.dtype)?;
    let is_converted = other != elements.dtype;
    // A format of the card's own takes what the host has rounded to the dtype first.
    let is_exact = seen.device_dtype() == elements.dtype.host_format();
    (!is_converted || is_exact).then_some(End::Device { elements, layout, seen })
}

fn host_end<'a>(elements: &TensorView<'a>) -> End<'a> {
    End::Host { elements: *elements, format: elements.dtype.host_format() }
}

/// Returns true if a nest between the two gives what the host's conversion gives: both keep one dtype in
/// one format, or both have the host's.
fn is_plain_pair(from: &MemoryView<'_>, to: &MemoryView<'_>) -> bool {
    let format = |view: &MemoryView<'_>| {
        let layout = view.storage_layout();
        layout.seen_as(view.elements.dtype).map(SpyreTensorLayout::device_dtype)
    };
    let source = format(from);
    let target = format(to);
    let is_host = |format: Option<DataFormat>, view: &MemoryView<'_>| {
        format == Some(view.elements.dtype.host_format())
    };
    let is_one = from.elements.dtype == to.elements.dtype && source == target;
    is_one || (is_host(source, from) && is_host(target, to))
}

/// Returns true if the two are all of their storages, in the same order, and have one layout.
fn is_whole_pair(from: &MemoryView<'_>, to: &MemoryView<'_>) -> bool {
    let a = &from.elements;
    let b = &to.elements;
    let layouts = [from.storage_layout().layout(), to.storage_layout().layout()];
    let elements: usize = a.size.iter().product();
    a.dtype == b.dtype
        && from.storage_layout().dtype() == a.dtype
        && to.storage_layout().dtype() == a.dtype
        && a.stride == b.stride
        && a.offset == 0
        && b.offset == 0
        && layouts[0] == layouts[1]
        && layouts[0].storage_elements() == Some(elements)
        && layouts[1].storage_elements() == Some(elements)
        && from.memory.range().bytes == to.memory.range().bytes
}

/// The two may overlap: the elements rest in memory of their own in between.
fn by_way_of_memory(
    stream: &SpyreStream,
    from: &MemoryView<'_>,
    to: &MemoryView<'_>,
) -> Result<(), Error> {
    let dtype = from.elements.dtype;
    let size = from.elements.size;
    let profile = stream.device().profile();
    let elements: usize = size.iter().product();
    let layout = match StorageLayout::flat(profile, elements, dtype) {
        Ok(layout) => layout,
        Err(_) => StorageLayout::bytes(elements * element_bytes(dtype))?,
    };
    let bytes = (elements * element_bytes(dtype)) as u64;
    let memory = Arc::new(TensorMemory::allocate(stream, Arc::new(layout), bytes)?);
    let stride = row_major(size);
    let elements = TensorView { dtype, size, stride: &stride, offset: 0 };
    let between = MemoryView { memory: &memory, layout: None, elements };
    copy_on_device(stream, from, &between)?;
    copy_on_device(stream, &between, to)
}

fn by_way_of_host(
    source: &SpyreStream,
    from: &MemoryView<'_>,
    target: &SpyreStream,
    to: &MemoryView<'_>,
) -> Result<(), Error> {
    let dtype = from.elements.dtype;
    let stride = row_major(from.elements.size);
    let elements = TensorView { dtype, size: from.elements.size, stride: &stride, offset: 0 };
    let bytes = from.elements.size.iter().product::<usize>() * element_bytes(dtype);
    let host = HostBuffer::zeroed(bytes);
    copy_from_device(source, from, host.lend_to_write()?, &elements, Return::WhenDone)?;
    let mut host = host;
    let mut elements = elements;
    if dtype != to.elements.dtype && direct_end(to, dtype).is_none() {
        host = converted(&host, dtype, to.elements.dtype)?;
        elements.dtype = to.elements.dtype;
    }
    copy_to_device(target, host.lend_to_read()?, &elements, to, Return::WhenQueued)
}

/// Elements converted to another dtype.
fn converted(host: &HostBuffer, from: DType, to: DType) -> Result<HostBuffer, Error> {
    let source = host.read()?;
    let mut target = vec![0; source.len() / element_bytes(from) * element_bytes(to)];
    let converter = Converter::new(from.host_format(), to.host_format())?;
    converter.convert(&source, &mut target)?;
    Ok(target.into())
}

/// The part of a storage that a view touches, as the host would have it.
struct HostCopy {
    buffer: HostBuffer,
    /// The storage's element that it starts with.
    first: usize,
    /// Elements of the storage.
    elements: usize,
    /// Distance from its start to the view's first element, in elements of the view.
    offset: usize,
}

impl HostCopy {
    /// Brings it to the host, when everything queued before has ended.
    fn read(stream: &SpyreStream, view: &MemoryView<'_>) -> Result<Self, Error> {
        let own = element_bytes(bits_of(view.storage_layout()));
        let width = element_bytes(view.elements.dtype);
        let last = view.elements.view()?.last_element().unwrap_or(view.elements.offset);
        let low = view.elements.offset * width;
        let high = (last + 1) * width;
        let first = low / own;
        let elements = high.div_ceil(own) - first;
        let buffer = HostBuffer::zeroed(elements * own);
        let offset = (low - first * own) / width;
        let image = Self { buffer, first, elements, offset };
        let nest = Some(nest(image.device_end(view)?, image.host_end(view))?);
        let target = image.buffer.lend_to_write()?;
        let copy = CopyFromDevice { source: view.memory.range(), target, nest };
        stream.flex().run(ControlBlock::CopyFromDevice(Box::new(copy)))?;
        Ok(image)
    }

    /// Brings it back.
    fn write(&self, stream: &SpyreStream, view: &MemoryView<'_>) -> Result<(), Error> {
        let nest = Some(nest(self.host_end(view), self.device_end(view)?)?);
        let source = self.buffer.lend_to_read()?;
        let copy = CopyToDevice { source, target: view.memory.range(), nest };
        Ok(stream.flex().run(ControlBlock::CopyToDevice(Box::new(copy)))?)
    }

    /// The view's elements, from the image to a host tensor.
    fn take(
        &self,
        view: &MemoryView<'_>,
        target: &mut [u8],
        to: &TensorView<'_>,
    ) -> Result<(), Error> {
        let source = self.view_of(&view.elements)?;
        move_bits(view.elements.dtype, &self.buffer.read()?, &source, target, to)
    }

    /// Host elements, to the view's places in the image.
    fn put(
        &mut self,
        source: &[u8],
        from: &TensorView<'_>,
        view: &MemoryView<'_>,
    ) -> Result<(), Error> {
        let target = self.view_of(&view.elements)?;
        let source_view = from.view()?;
        let from = from.dtype.host_format();
        let to = view.elements.dtype.host_format();
        let nest =
            DmaNest::derive(Endpoint::host(&source_view, from), Endpoint::host(&target, to))?;
        Ok(nest.copy(source, &mut self.buffer.write()?, &Solo)?)
    }

    fn view_of(&self, elements: &TensorView<'_>) -> Result<View, Error> {
        Ok(View::new(elements.size, elements.stride, self.offset)?)
    }

    fn device_end<'a>(&'a self, view: &MemoryView<'a>) -> Result<End<'a>, Error> {
        let layout: &'a SharedLayout = view.storage_layout();
        let dtype = bits_of(layout);
        let elements = self.flat(dtype, self.first);
        let seen = layout.seen_as(dtype).unwrap_or_else(|| layout.layout());
        Ok(End::Device { elements, layout, seen })
    }

    fn host_end<'a>(&'a self, view: &MemoryView<'a>) -> End<'a> {
        let dtype = bits_of(view.storage_layout());
        End::Host { elements: self.flat(dtype, 0), format: dtype.host_format() }
    }

    fn flat(&self, dtype: DType, offset: usize) -> TensorView<'_> {
        TensorView { dtype, size: std::slice::from_ref(&self.elements), stride: &[1], offset }
    }
}

/// The dtype as which a storage's elements keep all their bits: a bool keeps one of eight.
fn bits_of(layout: &StorageLayout) -> DType {
    match layout.dtype() {
        DType::Bool if layout.is_exact() => DType::UInt8,
        dtype => dtype,
    }
}

/// Elements of one dtype from place to place on the host, converted if the target has another.
fn move_bits(
    dtype: DType,
    source: &[u8],
    from: &View,
    target: &mut [u8],
    to: &TensorView<'_>,
) -> Result<(), Error> {
    let view = to.view()?;
    let nest = DmaNest::derive(
        Endpoint::host(from, dtype.host_format()),
        Endpoint::host(&view, to.dtype.host_format()),
    )?;
    Ok(nest.copy(source, target, &Solo)?)
}

fn row_major(size: &[usize]) -> Vec<usize> {
    let mut stride = vec![1; size.len()];
    for dim in (1..size.len()).rev() {
        stride[dim - 1] = stride[dim] * size[dim].max(1);
    }
    stride
}
