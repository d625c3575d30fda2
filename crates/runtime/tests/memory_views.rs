//! Views of device memory, of every dtype and stride, against plain bytes.

use std::sync::Arc;

use spyre_hal::{HostBuffer, HostSource, MemoryMode, ScriptedCard};
use spyre_layout::TensorView;
use spyre_numerics::{DType, Profile};
use spyre_runtime::{
    Device, DeviceSettings, Error, MemoryView, Return, SpyreStream, StorageLayout, TensorMemory,
    copy_from_device, copy_on_device, copy_to_device,
};

/// Bytes of each storage in these tests.
const BYTES: usize = 6 * 40 * 4;

fn open(profile: Profile) -> Result<SpyreStream, Error> {
    let settings = DeviceSettings { profile, ..DeviceSettings::default() };
    Device::open_with(Arc::new(ScriptedCard::new(MemoryMode::Vf)), settings)?.default_stream()
}

fn memory(stream: &SpyreStream, layout: StorageLayout) -> Result<Arc<TensorMemory>, Error> {
    Ok(Arc::new(TensorMemory::allocate(stream, Arc::new(layout), BYTES as u64)?))
}

fn width(dtype: DType) -> usize {
    dtype.host_format().element_bytes().expect("whole bytes")
}

fn bytes(view: &TensorView<'_>) -> usize {
    view.size.iter().product::<usize>() * width(view.dtype)
}

fn row_major(size: &[usize]) -> Vec<usize> {
    (0..size.len()).map(|dim| size[dim + 1..].iter().product()).collect()
}

/// The places of a view's elements, in bytes from the start of the storage.
fn places(view: &TensorView<'_>) -> Vec<usize> {
    let elements: usize = view.size.iter().product();
    let place = |nth: usize| {
        let mut rest = nth;
        let steps = view.size.iter().zip(view.stride).rev().map(|(&size, &stride)| {
            let index = rest % size;
            rest /= size;
            index * stride
        });
        (view.offset + steps.sum::<usize>()) * width(view.dtype)
    };
    (0..elements).map(place).collect()
}

fn write(
    stream: &SpyreStream,
    memory: &Arc<TensorMemory>,
    elements: TensorView<'_>,
    source: &[u8],
) -> Result<(), Error> {
    let stride = row_major(elements.size);
    let from = TensorView { stride: &stride, offset: 0, ..elements };
    let to = MemoryView { memory, layout: None, elements };
    copy_to_device(stream, HostSource::from(source.to_vec()), &from, &to, Return::WhenQueued)
}

fn read(
    stream: &SpyreStream,
    memory: &Arc<TensorMemory>,
    elements: TensorView<'_>,
) -> Result<Vec<u8>, Error> {
    let stride = row_major(elements.size);
    let to = TensorView { stride: &stride, offset: 0, ..elements };
    let from = MemoryView { memory, layout: None, elements };
    let host = HostBuffer::zeroed(bytes(&elements));
    copy_from_device(stream, &from, host.lend_to_write()?, &to, Return::WhenDone)?;
    Ok(host.read()?.to_vec())
}

/// Layouts of the same bytes: tiles, a turned host, one row, and bytes of no dtype.
fn layouts() -> Result<Vec<StorageLayout>, Error> {
    let of = |size: &[usize], stride: &[usize], dtype| {
        StorageLayout::of_shape(Profile::Open, size, stride, dtype)
    };
    Ok(vec![
        of(&[6, 40], &[40, 1], DType::Float32)?,
        of(&[40, 6], &[1, 40], DType::Float32)?,
        of(&[2, 3, 5, 16], &[240, 80, 16, 1], DType::Float16)?,
        of(&[120], &[1], DType::Complex64)?,
        of(&[60, 1], &[1, 1], DType::Complex128)?,
        StorageLayout::bytes(BYTES)?,
    ])
}

/// Views of the same bytes, by dtype.
fn views(dtype: DType) -> Vec<(Vec<usize>, Vec<usize>, usize)> {
    let all = BYTES / width(dtype);
    vec![
        (vec![all], vec![1], 0),
        (vec![all / 4, 3], vec![4, 1], 1),
        (vec![3, all / 4], vec![1, 4], 0),
        (vec![5], vec![7], 3),
        (vec![2, 5, 2], vec![all / 2, 2, 1], 5),
        (vec![], vec![], 9),
    ]
}

const DTYPES: [DType; 6] =
    [DType::UInt8, DType::Float16, DType::Int32, DType::Int64, DType::Complex64, DType::Complex128];

#[test]
fn every_view_of_every_layout_reads_and_writes_the_bytes_of_the_host() -> Result<(), Error> {
    let stream = open(Profile::Open)?;
    for layout in layouts()? {
        let shown = format!("{layout:?}");
        let memory = memory(&stream, layout)?;
        let mut model: Vec<u8> = (0..BYTES).map(|byte| (byte * 7 % 251) as u8).collect();
        let all = TensorView { dtype: DType::UInt8, size: &[BYTES], stride: &[1], offset: 0 };
        write(&stream, &memory, all, &model)?;
        for (nth, dtype) in DTYPES.into_iter().enumerate() {
            for (size, stride, offset) in views(dtype) {
                let view = TensorView { dtype, size: &size, stride: &stride, offset };
                let expected: Vec<u8> = places(&view)
                    .into_iter()
                    .flat_map(|place| model[place..place + width(dtype)].to_vec())
                    .collect();
                assert_eq!(read(&stream, &memory, view)?, expected, "{view:?} of {shown}");

                let new: Vec<u8> = expected.iter().map(|byte| byte ^ (nth as u8 + 1)).collect();
                write(&stream, &memory, view, &new)?;
                for (place, element) in places(&view).into_iter().zip(new.chunks(width(dtype))) {
                    model[place..place + width(dtype)].copy_from_slice(element);
                }
                assert_eq!(read(&stream, &memory, all)?, model, "{view:?} of {shown}");
            }
        }
    }
    Ok(())
}

#[test]
fn copies_on_a_device_go_between_all_layouts_and_within_one() -> Result<(), Error> {
    let stream = open(Profile::Open)?;
    let view = TensorView { dtype: DType::Int32, size: &[6, 19], stride: &[40, 2], offset: 1 };
    let plain: Vec<u8> = (0..bytes(&view)).map(|byte| byte as u8).collect();
    for from in layouts()? {
        let from = memory(&stream, from)?;
        write(&stream, &from, view, &plain)?;
        for to in layouts()? {
            let to = memory(&stream, to)?;
            let turned = TensorView { size: &[6, 19], stride: &[1, 12], ..view };
            let ends = [(&from, view), (&to, turned)].map(|(memory, elements)| MemoryView {
                memory,
                layout: None,
                elements,
            });
            copy_on_device(&stream, &ends[0], &ends[1])?;
            assert_eq!(read(&stream, &to, turned)?, plain);
        }
        let shifted = TensorView { offset: 3, ..view };
        let ends =
            [view, shifted].map(|elements| MemoryView { memory: &from, layout: None, elements });
        copy_on_device(&stream, &ends[0], &ends[1])?;
        assert_eq!(read(&stream, &from, shifted)?, plain);
    }
    Ok(())
}

#[test]
fn a_card_that_rounds_shows_the_host_what_it_kept() -> Result<(), Error> {
    let stream = open(Profile::Card)?;
    let layout = StorageLayout::of_shape(Profile::Card, &[6, 80], &[80, 1], DType::Float16)?;
    let memory = memory(&stream, layout)?;
    let all = TensorView { dtype: DType::Float16, size: &[480], stride: &[1], offset: 0 };
    // 1.0 and 1 + 2^-9, which the card's nine bits of fraction hold, as IEEE halves.
    let host: Vec<u8> =
        [0x3c00_u16, 0x3c02].iter().cycle().take(480).flat_map(|bits| bits.to_le_bytes()).collect();
    write(&stream, &memory, all, &host)?;
    assert_eq!(read(&stream, &memory, all)?, host);

    let raw = TensorView { dtype: DType::UInt8, size: &[BYTES], stride: &[1], offset: 0 };
    assert_eq!(read(&stream, &memory, raw)?, host, "bytes are the host's");
    let second = TensorView { dtype: DType::UInt8, size: &[2], stride: &[1], offset: 2 };
    write(&stream, &memory, second, &0x4000_u16.to_le_bytes())?;
    let two = TensorView { dtype: DType::Float16, size: &[1], stride: &[1], offset: 1 };
    assert_eq!(read(&stream, &memory, two)?, 0x4000_u16.to_le_bytes());
    Ok(())
}
