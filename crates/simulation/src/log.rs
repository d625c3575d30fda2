use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use spyre_hal::{BlockKind, StreamPoint};

use crate::random::mix;

/// Steps that are shown when something is wrong.
const TAIL: usize = 200;

/// Everything that happened, as a fingerprint; and the end of it in words.
#[derive(Debug, Default)]
pub(crate) struct Log {
    fingerprint: Fingerprint,
    tail: VecDeque<(u64, Step)>,
}

/// Something that happened. No epochs, addresses of the host or times of the machine: a seed gives
/// the same steps on any day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Call(&'static str, u64),
    Result(&'static str, u64),
    Queued { kind: BlockKind, point: StreamPoint },
    Started { engine: u16, point: StreamPoint, fate: &'static str },
    Ended { engine: u16, point: StreamPoint, outcome: &'static str },
    Allocated { allocation: u64, place: u64, bytes: u64 },
    Freed { allocation: u64 },
    Aborted { engine: u16 },
    GivenUp { point: StreamPoint },
    CardReset,
    Region { bytes: u64, is_given: bool },
}

impl Log {
    pub(crate) fn add(&mut self, time: u64, step: Step) {
        self.fingerprint.write_u64(time);
        step.hash(&mut self.fingerprint);
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back((time, step));
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint.finish()
    }

    pub(crate) fn tail(&self) -> Vec<String> {
        self.tail.iter().map(|(time, step)| format!("{time:>14} ns  {step:?}")).collect()
    }
}

/// A hash that is the same in every process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) fn of(value: &impl Hash) -> u64 {
        let mut fingerprint = Self::default();
        value.hash(&mut fingerprint);
        fingerprint.finish()
    }
}

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.write_u64(u64::from_le_bytes(word) ^ (piece.len() as u64) << 56);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0.rotate_left(5) ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
