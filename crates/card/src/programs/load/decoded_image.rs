use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use spyre_artifact::{CorrectionImage, CorrectionProgram, EntryHeader, HEADER_BYTES, HandleWords};

use crate::programs::load::binding::LaunchBinding;
use crate::programs::load::code::LoadedCode;

/// An image as it was decoded from device memory.
pub(in crate::programs) struct DecodedImage {
    start: u64,
    /// Bytes that it was decoded from, counted from the start of the region.
    read: [Range<u64>; 2],
    is_over: AtomicBool,
    image: LoadedImage,
}

/// Kind of image, and the data to launch it again at once.
pub(in crate::programs) enum LoadedImage {
    Code(LoadedCode),
    Entry(Box<Instance>),
    Correction(Corrector),
}

/// An entry image. Its table is read anew at each launch.
pub(in crate::programs) struct Instance {
    pub(in crate::programs) header: EntryHeader,
    /// Data that the last launch derived from the table.
    pub(in crate::programs) binding: Mutex<LaunchBinding>,
}

/// A correction image. Its input area is read anew at each launch.
pub(in crate::programs) struct Corrector {
    pub(in crate::programs) target: HandleWords,
    pub(in crate::programs) program: CorrectionProgram,
    pub(in crate::programs) input_offset: u64,
    pub(in crate::programs) patching: Mutex<Patching>,
}

/// State that one launch of a correction leaves for the next.
#[derive(Default)]
pub(in crate::programs) struct Patching {
    /// The entry image that it patches.
    pub(in crate::programs) entry: Option<Arc<DecodedImage>>,
    /// Room for its input.
    pub(in crate::programs) words: Vec<u64>,
}

impl Corrector {
    fn new(image: &CorrectionImage) -> Self {
        let program = image.program().clone();
        let input_offset = image.input_offset() as u64;
        let target = image.target();
        let patching = Mutex::default();
        Self { target, program, input_offset, patching }
    }

    /// Bytes of the table that it patches.
    pub(in crate::programs) fn table_bytes(&self) -> u64 {
        u64::from(self.program.table_words()) * size_of::<u64>() as u64
    }
}

impl DecodedImage {
    pub(in crate::programs) fn code(start: u64, bytes: usize, code: LoadedCode) -> Self {
        Self::new(start, [0..bytes, 0..0], LoadedImage::Code(code))
    }

    pub(in crate::programs) fn entry(start: u64, header: EntryHeader) -> Self {
        let instance = Instance { header, binding: Mutex::default() };
        Self::new(start, [0..HEADER_BYTES, 0..0], LoadedImage::Entry(Box::new(instance)))
    }

    pub(in crate::programs) fn correction(
        start: u64,
        bytes: usize,
        image: &CorrectionImage,
    ) -> Self {
        let first = image.input_offset();
        let corrector = Corrector::new(image);
        let read = [0..first, first + size_of_val(image.input())..bytes];
        Self::new(start, read, LoadedImage::Correction(corrector))
    }

    fn new(start: u64, read: [Range<usize>; 2], image: LoadedImage) -> Self {
        let read = read.map(|bytes| start + bytes.start as u64..start + bytes.end as u64);
        Self { start, read, is_over: AtomicBool::new(false), image }
    }

    /// Start in its region.
    pub(in crate::programs) fn start(&self) -> u64 {
        self.start
    }

    pub(in crate::programs) fn image(&self) -> &LoadedImage {
        &self.image
    }

    pub(in crate::programs) fn was_read_from(&self, range: &Range<u64>) -> bool {
        self.read.iter().any(|read| read.start.max(range.start) < read.end.min(range.end))
    }

    /// Returns true if it may be used again.
    pub(in crate::programs) fn is_current(&self) -> bool {
        !self.is_over.load(Ordering::Acquire)
    }

    /// Ends its use: device memory holds something else now, or a change of it would not be noticed any more.
    pub(in crate::programs) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}

/// Says nothing of places.
impl fmt::Debug for DecodedImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.image {
            LoadedImage::Code(_) => "DecodedImage(code)",
            LoadedImage::Entry(_) => "DecodedImage(entry)",
            LoadedImage::Correction(_) => "DecodedImage(correction)",
        })
    }
}
