use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::sync::Arc;

use parking_lot::Mutex;
use spyre::flex::StreamFault;
use spyre::hal::{StreamIndex, StreamPoint};

use super::kernel_checks::KernelChecks;
use crate::failure::SpyreStatus;

/// Number of launches that the journal keeps.
const REMEMBERED: usize = 4096;

/// A launch, and the part of the program that asked for it.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The last block that was queued on its stream before.
    pub(crate) before: StreamPoint,
    /// Its own last block.
    pub(crate) last: StreamPoint,
    /// Part of the program that asked for it.
    pub(crate) origin: Origin,
}

/// Part of a program that asks for a launch.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// A line of a file of Python.
    Line(&'static CStr, u32),
    /// A compiled graph, whose kernel checks what it is given.
    Graph(Arc<KernelChecks>),
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

/// Kind and message of a failure: those given, with the origin of the block that failed if the journal has it.
pub(crate) fn explain(
    fault: &StreamFault,
    kind: SpyreStatus,
    message: String,
) -> (SpyreStatus, String) {
    let StreamPoint { stream, sequence } = fault.point;
    let journal = JOURNAL.lock();
    let launch = journal.iter().rev().find(|launch| launch.holds(stream, sequence));
    match launch.map(|launch| &launch.origin) {
        Some(Origin::Line(file, line)) => {
            (kind, format!("{message}; launched at {}:{line}", file.to_string_lossy()))
        }
        Some(Origin::Graph(checks)) => {
            checks.explain(&fault.fault, &message).unwrap_or((kind, message))
        }
        None => (kind, message),
    }
}

impl Launch {
    fn holds(&self, stream: StreamIndex, sequence: u64) -> bool {
        self.last.stream == stream
            && (self.before.sequence + 1..=self.last.sequence).contains(&sequence)
    }
}
