use super::Driver;
use super::driver::{assert_bytes, fill, from_device, on_device, to_device};
use crate::random::Random;
use crate::{ControlBlock, HostBuffer, Region};

/// A region, and what should be in it.
pub(super) struct Model<'a> {
    driver: &'a Driver<'a>,
    region: Region,
    bytes: Vec<u8>,
    random: Random,
    /// A read that was handed out, and what it should give.
    read: Option<(HostBuffer, Vec<u8>)>,
}

const MODEL_BYTES: u64 = 140_000;

impl<'a> Model<'a> {
    pub(super) fn new(driver: &'a Driver<'a>, seed: u64) -> Self {
        let region = driver.region(MODEL_BYTES);
        let bytes = vec![0; MODEL_BYTES as usize];
        Self { driver, region, bytes, random: Random::new(seed), read: None }
    }

    /// Some block; the model already is what the region will be after it.
    pub(super) fn next(&mut self) -> ControlBlock {
        match self.random.below(4) {
            0 => self.write(),
            1 => self.fill(),
            2 => self.copy(),
            _ => self.read(),
        }
    }

    /// Checks the last read. Called once the last block has ended.
    pub(super) fn check(&mut self) {
        if let Some((host, expected)) = self.read.take() {
            assert_bytes(&host.read().expect("it has ended"), &expected, "a read");
        }
    }

    pub(super) fn check_all(&self) {
        let range = self.driver.range(self.region, 0, MODEL_BYTES);
        assert_bytes(&self.driver.download(range), &self.bytes, "the region at the end");
    }

    fn write(&mut self) -> ControlBlock {
        let (offset, bytes) = self.piece(MODEL_BYTES);
        let source = self.random.bytes(bytes as usize);
        self.bytes[offset as usize..][..bytes as usize].copy_from_slice(&source);
        to_device(source, self.driver.range(self.region, offset, bytes), None)
    }

    fn fill(&mut self) -> ControlBlock {
        let (offset, bytes) = self.piece(MODEL_BYTES);
        let length = 1 + self.random.below(4) as usize;
        let pattern = self.random.bytes(length);
        let target = self.bytes[offset as usize..][..bytes as usize].iter_mut();
        target.zip(pattern.iter().cycle()).for_each(|(target, byte)| *target = *byte);
        fill(&pattern, self.driver.range(self.region, offset, bytes))
    }

    /// Copies from one half of the region to the other: the two do not overlap.
    fn copy(&mut self) -> ControlBlock {
        let half = MODEL_BYTES / 2;
        let (mut source, bytes) = self.piece(half);
        let mut target = half + self.random.below(half - bytes + 1);
        if self.random.below(2) == 0 {
            std::mem::swap(&mut source, &mut target);
        }
        self.bytes.copy_within(source as usize..(source + bytes) as usize, target as usize);
        let range = |offset| self.driver.range(self.region, offset, bytes);
        on_device(range(source), range(target), None)
    }

    fn read(&mut self) -> ControlBlock {
        let (offset, bytes) = self.piece(MODEL_BYTES);
        let host = HostBuffer::zeroed(bytes as usize);
        let block = from_device(self.driver.range(self.region, offset, bytes), &host, None);
        self.read = Some((host, self.bytes[offset as usize..][..bytes as usize].to_vec()));
        block
    }

    /// An offset and a length inside the first so many bytes; mostly short, now and then long.
    fn piece(&mut self, within: u64) -> (u64, u64) {
        let longest = if self.random.below(50) == 0 { within } else { 700 };
        let bytes = self.random.below(longest + 1);
        (self.random.below(within - bytes + 1), bytes)
    }
}
