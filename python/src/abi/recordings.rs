//! Recordings for PyTorch's profiler.

use std::ffi::{CStr, CString, c_char};

use spyre::hal::BlockKind;

use super::entry;
use crate::failure::Failure;
use crate::recording::{self, RecordedBlock};

/// `SpyreBlock` in `csrc/profiler.h`.
#[repr(C)]
pub(crate) struct RawBlock {
    kind: i32,
    device: i32,
    stream: i64,
    sequence: i64,
    start: i64,
    end: i64,
    queued: i64,
    modelled: i64,
    correlation: i64,
    name: *const c_char,
    shapes: *const c_char,
}

/// Recorded blocks that the profiler is given, and iterates over.
pub(crate) struct Recorded {
    blocks: Vec<RecordedBlock>,
    /// A name and shapes for each.
    texts: Vec<[CString; 2]>,
}

const KERNEL: i32 = 0;
const COPY: i32 = 1;
const FILL: i32 = 2;

entry! {
    /// Begins a recording.
    fn spyre_recording_start(number: *mut u64) {
        // SAFETY: the shim gives the address of a number.
        unsafe { *number = recording::start() };
        Ok(())
    }

    /// Ends a recording; what it gives is the caller's, to give back to `spyre_recording_drop`.
    fn spyre_recording_stop(number: u64, recorded: *mut *const Recorded) {
        let ended = recording::stop(number);
        let ended = ended.ok_or_else(|| Failure::runtime(format!("there is no recording {number}")))?;
        // SAFETY: the shim gives the address of a pointer.
        unsafe { *recorded = Box::into_raw(Box::new(Recorded::of(ended.blocks))) };
        Ok(())
    }
}

/// The block of this place; 0 past the last. Its texts are good until the recording is dropped.
#[unsafe(no_mangle)]
unsafe extern "C" fn spyre_recording_block(
    recorded: *const Recorded,
    at: i64,
    block: *mut RawBlock,
) -> i32 {
    // SAFETY: the caller has not given it back yet.
    let recorded = unsafe { &*recorded };
    let Some(found) = recorded.blocks.get(at as usize) else { return 0 };
    // SAFETY: the shim gives room for a block.
    unsafe { *block = RawBlock::of(found, &recorded.texts[at as usize]) };
    1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn spyre_recording_drop(recorded: *mut Recorded) {
    // SAFETY: it came from `into_raw`, and the caller gives it up.
    drop(unsafe { Box::from_raw(recorded) });
}

/// The calling thread enters an op that the profiler gave this number.
#[unsafe(no_mangle)]
extern "C" fn spyre_push_correlation(id: u64) {
    recording::push_correlation(id);
}

/// The calling thread leaves it.
#[unsafe(no_mangle)]
extern "C" fn spyre_pop_correlation() {
    recording::pop_correlation();
}

impl Recorded {
    /// Keeps the blocks that ran: kernels, copies and fills, without program corrections.
    fn of(mut blocks: Vec<RecordedBlock>) -> Self {
        blocks.retain(|block| {
            kind(block).is_some() && block.record.started_at > 0 && !block.is_correction()
        });
        let text = |text: &str| CString::new(text.replace('\0', "?")).unwrap_or_default();
        let texts = blocks.iter().map(|block| {
            let shapes = block.call.as_ref().map_or("", |call| &call.shapes);
            [text(&name(block)), text(shapes)]
        });
        Self { texts: texts.collect(), blocks }
    }
}

fn kind(block: &RecordedBlock) -> Option<i32> {
    match block.record.kind {
        BlockKind::Launch => Some(KERNEL),
        BlockKind::Fill => Some(FILL),
        BlockKind::CopyToDevice
        | BlockKind::CopyFromDevice
        | BlockKind::CopyDevice
        | BlockKind::CopyPeer => Some(COPY),
        _ => None,
    }
}

/// A kernel's own name; copies are called as on other devices.
fn name(block: &RecordedBlock) -> String {
    let given = match block.record.kind {
        BlockKind::CopyToDevice => "Memcpy HtoD",
        BlockKind::CopyFromDevice => "Memcpy DtoH",
        BlockKind::CopyDevice => "Memcpy DtoD",
        BlockKind::CopyPeer => "Memcpy PtoP",
        BlockKind::Fill => "Memset",
        _ => return block.record.label.name().map_or("kernel".to_owned(), |name| name.to_string()),
    };
    given.to_owned()
}

impl RawBlock {
    fn of(block: &RecordedBlock, texts: &[CString; 2]) -> Self {
        let record = &block.record;
        let [name, shapes] = texts.each_ref().map(|text| CStr::as_ptr(text));
        Self {
            kind: kind(block).unwrap_or(KERNEL),
            device: i32::from(block.device.0),
            stream: i64::from(record.stream.0),
            sequence: record.sequence as i64,
            start: record.started_at as i64,
            end: record.done_at.max(record.started_at) as i64,
            queued: record.queued_at as i64,
            modelled: record.modelled_nanoseconds as i64,
            correlation: block.call.as_ref().map_or(0, |call| call.correlation as i64),
            name,
            shapes,
        }
    }
}
