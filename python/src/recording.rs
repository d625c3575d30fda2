//! Recordings of the cards' work: every block, and the call that queued it.

mod calls;
mod operations;
mod summary;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use spyre::flex::{Record, Tape};
use spyre::hal::StreamIndex;
use spyre::runtime::DeviceIndex;

pub(crate) use calls::{CallNote, noted, pop_correlation, push_correlation};
pub(crate) use summary::register;

use crate::cards::{self, Card};

/// Number of blocks that are kept of a card, some 100 bytes each.
const MOST_BLOCKS: usize = 1 << 21;

static IS_ON: AtomicBool = AtomicBool::new(false);
static RECORDER: Mutex<Recorder> = Mutex::new(Recorder::new());

/// Blocks and calls since the first of the active recordings began.
struct Recorder {
    /// Start of each recording, by its number.
    marks: BTreeMap<u64, Mark>,
    next: u64,
    blocks: Vec<(DeviceIndex, Record)>,
    calls: Vec<CallNote>,
    lost: u64,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    blocks: usize,
    calls: usize,
    lost: u64,
}

/// A recording that has ended.
#[derive(Debug)]
pub(crate) struct Recording {
    /// Blocks in the order in which each card's ended. Times are nanoseconds since 1970.
    pub(crate) blocks: Vec<RecordedBlock>,
    /// Number of further blocks, which are lost.
    pub(crate) lost: u64,
}

/// A block, and the call that queued it.
#[derive(Debug)]
pub(crate) struct RecordedBlock {
    pub(crate) device: DeviceIndex,
    pub(crate) record: Record,
    pub(crate) call: Option<CallNote>,
}

/// Returns true while a recording is active.
#[inline]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Begins a recording, and gives its number.
pub(crate) fn start() -> u64 {
    let mut recorder = RECORDER.lock();
    recorder.take_tapes(true);
    IS_ON.store(true, Ordering::Relaxed);
    recorder.mark()
}

/// Ends the recording of a number. What is still queued or running is not part of it.
pub(crate) fn stop(number: u64) -> Option<Recording> {
    let mut recorder = RECORDER.lock();
    let mark = recorder.marks.remove(&number)?;
    let goes_on = !recorder.marks.is_empty();
    recorder.take_tapes(goes_on);
    let recording = recorder.since(mark);
    if !goes_on {
        IS_ON.store(false, Ordering::Relaxed);
        *recorder = Recorder { next: recorder.next, ..Recorder::new() };
    }
    Some(recording)
}

/// Records a card that is opened during a recording, too.
pub(crate) fn include(card: &Card) {
    if is_on() {
        card.device.context().scheduler().start_recording(MOST_BLOCKS);
    }
}

/// Notes a call whose blocks are queued.
#[cold]
pub(crate) fn note(call: CallNote) {
    RECORDER.lock().calls.push(call);
}

impl Recorder {
    const fn new() -> Self {
        let marks = BTreeMap::new();
        Self { marks, next: 1, blocks: Vec::new(), calls: Vec::new(), lost: 0 }
    }

    fn mark(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        let mark = Mark { blocks: self.blocks.len(), calls: self.calls.len(), lost: self.lost };
        self.marks.insert(number, mark);
        number
    }

    /// Takes over what the cards have recorded, and lets them go on or not.
    fn take_tapes(&mut self, goes_on: bool) {
        for card in cards::opened() {
            let scheduler = card.device.context().scheduler();
            let since_1970 = unix_nanoseconds().saturating_sub(scheduler.now());
            let tape = if goes_on {
                scheduler.start_recording(MOST_BLOCKS)
            } else {
                scheduler.stop_recording()
            };
            self.take(card.index(), tape, since_1970);
        }
    }

    fn take(&mut self, device: DeviceIndex, tape: Tape, since_1970: u64) {
        self.lost += tape.lost;
        let moved = |time: u64| if time == 0 { 0 } else { time + since_1970 };
        self.blocks.extend(tape.records.into_iter().map(|record| {
            let [queued_at, started_at, done_at] =
                [record.queued_at, record.started_at, record.done_at].map(moved);
            (device, Record { queued_at, started_at, done_at, ..record })
        }));
    }

    fn since(&self, mark: Mark) -> Recording {
        let calls = calls::by_stream(&self.calls[mark.calls..]);
        let blocks = self.blocks[mark.blocks..].iter().map(|&(device, record)| RecordedBlock {
            device,
            record: numbered(device, record),
            call: calls::of_block(&calls, device, &record).cloned(),
        });
        Recording { blocks: blocks.collect(), lost: self.lost - mark.lost }
    }
}

/// A record by the number that PyTorch has for its stream.
fn numbered(device: DeviceIndex, record: Record) -> Record {
    let card = cards::card(i32::from(device.0)).ok();
    let id = card.and_then(|card| card.device.stream_id(record.stream));
    Record { stream: id.map_or(record.stream, |id| StreamIndex(id.0)), ..record }
}

fn unix_nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}
