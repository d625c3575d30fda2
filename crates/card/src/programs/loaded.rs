use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use spyre_artifact::{CorrectionImage, CorrectionProgram, EntryHeader, HEADER_BYTES, HandleWords};

use super::bound::Bound;
use super::code::LoadedCode;

/// An image as it was decoded from device memory.
pub(super) struct Loaded {
    start: u64,
    /// What it was decoded from, from the start of the region.
    read: [Range<u64>; 2],
    is_over: AtomicBool,
    image: LoadedImage,
}

/// Which kind of image, and what it takes to launch it again at once.
pub(super) enum LoadedImage {
    Code(LoadedCode),
    Entry(Box<Instance>),
    Correction(Corrector),
}

/// An entry image. Its table is read anew at each launch.
pub(super) struct Instance {
    pub(super) header: EntryHeader,
    /// What the last launch made of the table.
    pub(super) bound: Mutex<Bound>,
}

/// A correction image. Its input area is read anew at each launch.
pub(super) struct Corrector {
    pub(super) target: HandleWords,
    pub(super) program: CorrectionProgram,
    pub(super) input_offset: u64,
    pub(super) patching: Mutex<Patching>,
}

/// What one launch of a correction leaves for the next.
#[derive(Default)]
pub(super) struct Patching {
    /// The entry image that it patches.
    pub(super) entry: Option<Arc<Loaded>>,
    /// Room for its input.
    pub(super) words: Vec<u64>,
}

impl Corrector {
    fn new(image: &CorrectionImage) -> Self {
        let program = image.program().clone();
        let input_offset = image.input_offset() as u64;
        let (target, patching) = (image.target(), Mutex::default());
        Self { target, program, input_offset, patching }
    }

    /// Of the table that it patches.
    pub(super) fn table_bytes(&self) -> u64 {
        u64::from(self.program.table_words()) * size_of::<u64>() as u64
    }
}

impl Loaded {
    pub(super) fn code(start: u64, bytes: usize, code: LoadedCode) -> Self {
        Self::new(start, [0..bytes, 0..0], LoadedImage::Code(code))
    }

    pub(super) fn entry(start: u64, header: EntryHeader) -> Self {
        let instance = Instance { header, bound: Mutex::default() };
        Self::new(start, [0..HEADER_BYTES, 0..0], LoadedImage::Entry(Box::new(instance)))
    }

    pub(super) fn correction(start: u64, bytes: usize, image: &CorrectionImage) -> Self {
        let (first, words) = (image.input_offset(), image.input().len());
        let corrector = Corrector::new(image);
        let read = [0..first, first + words * size_of::<u64>()..bytes];
        Self::new(start, read, LoadedImage::Correction(corrector))
    }

    fn new(start: u64, read: [Range<usize>; 2], image: LoadedImage) -> Self {
        let read = read.map(|bytes| start + bytes.start as u64..start + bytes.end as u64);
        Self { start, read, is_over: AtomicBool::new(false), image }
    }

    /// Where it starts in its region.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn image(&self) -> &LoadedImage {
        &self.image
    }

    pub(super) fn was_read_from(&self, range: &Range<u64>) -> bool {
        self.read.iter().any(|read| read.start.max(range.start) < read.end.min(range.end))
    }

    /// Whether it may be used again.
    pub(super) fn is_current(&self) -> bool {
        !self.is_over.load(Ordering::Acquire)
    }

    /// It is not what lies in device memory any more, or nobody would know if it were not.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}

/// Says nothing of places.
impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.image {
            LoadedImage::Code(_) => "Loaded(code)",
            LoadedImage::Entry(_) => "Loaded(entry)",
            LoadedImage::Correction(_) => "Loaded(correction)",
        })
    }
}
