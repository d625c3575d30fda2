//! Recordings for PyTorch's profiler.

use std::ffi::{CStr, CString, c_char};

use spyre::hal::BlockKind;

use super::guarded;
use crate::failure::{Failure, SpyreStatus};
use crate::recording::{self, RecordedBlock};

/// Kind of a block, as the profiler tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum SpyreBlockKind {
    Kernel,
    Copy,
    Fill,
}

/// A block that ran. Times are nanoseconds since 1970; `modelled` is how long a real card would take. Its texts are
/// good until the recording is dropped.
#[repr(C)]
pub struct SpyreBlock {
    kind: SpyreBlockKind,
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
pub struct SpyreRecorded {
    blocks: Vec<RecordedBlock>,
    /// A name and shapes for each.
    texts: Vec<[CString; 2]>,
}

/// Begins a recording.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_recording_start(number: &mut u64) -> SpyreStatus {
    guarded(|| {
        *number = recording::start();
        Ok(())
    })
}

/// Ends a recording; what it gives is the caller's, to give back to `spyre_recording_drop`.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_recording_stop(
    number: u64,
    recorded: &mut Option<Box<SpyreRecorded>>,
) -> SpyreStatus {
    guarded(|| {
        let ended = recording::stop(number);
        let ended =
            ended.ok_or_else(|| Failure::runtime(format!("there is no recording {number}")))?;
        *recorded = Some(Box::new(SpyreRecorded::of(ended.blocks)));
        Ok(())
    })
}

/// The block of this place; `false` past the last.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_recording_block(
    recorded: &SpyreRecorded,
    at: i64,
    block: &mut SpyreBlock,
) -> bool {
    let Some(found) = recorded.blocks.get(at as usize) else { return false };
    *block = SpyreBlock::of(found, &recorded.texts[at as usize]);
    true
}

/// Drops a recording.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_recording_drop(recorded: Box<SpyreRecorded>) {
    drop(recorded);
}

/// The calling thread enters an op that the profiler gave this number.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_push_correlation(id: u64) {
    recording::push_correlation(id);
}

/// The calling thread leaves it.
#[unsafe(no_mangle)]
pub extern "C" fn spyre_pop_correlation() {
    recording::pop_correlation();
}

impl SpyreRecorded {
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

fn kind(block: &RecordedBlock) -> Option<SpyreBlockKind> {
    match block.record.kind {
        BlockKind::Launch => Some(SpyreBlockKind::Kernel),
        BlockKind::Fill => Some(SpyreBlockKind::Fill),
        BlockKind::CopyToDevice
        | BlockKind::CopyFromDevice
        | BlockKind::CopyDevice
        | BlockKind::CopyPeer => Some(SpyreBlockKind::Copy),
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

impl SpyreBlock {
    fn of(block: &RecordedBlock, texts: &[CString; 2]) -> Self {
        let record = &block.record;
        let [name, shapes] = texts.each_ref().map(|text| CStr::as_ptr(text));
        Self {
            kind: kind(block).unwrap_or(SpyreBlockKind::Kernel),
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
