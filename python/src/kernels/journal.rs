use std::collections::VecDeque;
use std::ffi::{CStr, CString};

use parking_lot::Mutex;
use spyre::flex::StreamFault;
use spyre::hal::{StreamIndex, StreamPoint};

/// Number of launches that the journal keeps.
const REMEMBERED: usize = 4096;

/// A launch, and the line of Python that asked for it.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The last block that was queued on its stream before.
    pub(crate) before: StreamPoint,
    /// Its own last block.
    pub(crate) last: StreamPoint,
    /// The file of the line that asked for it.
    pub(crate) file: &'static CStr,
    /// The line.
    pub(crate) line: u32,
}

static JOURNAL: Mutex<VecDeque<Launch>> = Mutex::new(VecDeque::new());
static FILES: Mutex<Vec<&'static CStr>> = Mutex::new(Vec::new());

/// Remembers a launch: blocks that fail do so later.
pub(crate) fn note_launch(launch: Launch) {
    let mut journal = JOURNAL.lock();
    if journal.len() == REMEMBERED {
        journal.pop_front();
    }
    journal.push_back(launch);
}

/// A file's name, kept for ever: there are few.
pub(crate) fn kept(file: &CStr) -> &'static CStr {
    let mut files = FILES.lock();
    if let Some(known) = files.iter().rev().find(|known| **known == file) {
        return known;
    }
    let kept: &'static CStr = Box::leak(CString::from(file).into_boxed_c_str());
    files.push(kept);
    kept
}

/// Line of Python that launched a failed block, if the journal has it.
pub(crate) fn launched_at(fault: &StreamFault) -> Option<String> {
    let StreamPoint { stream, sequence } = fault.point;
    let journal = JOURNAL.lock();
    let launch = journal.iter().rev().find(|launch| launch.holds(stream, sequence))?;
    Some(format!("launched at {}:{}", launch.file.to_string_lossy(), launch.line))
}

impl Launch {
    fn holds(&self, stream: StreamIndex, sequence: u64) -> bool {
        self.last.stream == stream
            && (self.before.sequence + 1..=self.last.sequence).contains(&sequence)
    }
}
