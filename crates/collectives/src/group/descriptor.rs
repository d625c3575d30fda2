//! Words by which ranks compare their calls before data moves.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use spyre_numerics::DataFormat;

use crate::{Collective, CollectiveCall, DeviceBuffer, ReduceOp};

/// Contributions of a rank in a slot begin at multiples of it.
pub(super) const ALIGNMENT: usize = 64;

/// Description of one rank's call. The first `COMPARED` words are equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    words: [u64; WORDS],
}

pub(super) const WORDS: usize = 12;
const COMPARED: usize = 7;

impl Descriptor {
    pub(super) fn new(call: &CollectiveCall, sequence: u64, is_in_slot: bool) -> Self {
        let reduction = call.reduction.filter(|_| call.collective.reduces());
        let reduction = reduction.map_or([0; 2], ReduceOp::words);
        let has_format = call.collective != Collective::Barrier;
        let format = if has_format { call.format as u64 } else { 0 };
        let root = if call.collective.has_root() { call.root as u64 } else { 0 };
        let buffers = if call.inputs.is_empty() { &call.outputs } else { &call.inputs };
        let elements = buffers.iter().map(DeviceBuffer::elements).sum();
        let bytes = buffers.iter().map(|buffer| buffer.bytes() as u64).sum();
        let collective = call.collective as u64;
        let [kind, factor] = reduction;
        let sizes = common_sizes(call);
        let contributed = contributed_bytes(call) as u64;
        let placement = u64::from(is_in_slot);
        Self {
            words: [
                collective,
                sequence,
                format,
                kind,
                factor,
                root,
                sizes,
                elements,
                bytes,
                contributed,
                placement,
                0,
            ],
        }
    }

    pub(super) fn store(&self, words: &[AtomicU64; WORDS]) {
        for (target, &word) in words.iter().zip(&self.words) {
            target.store(word, SeqCst);
        }
    }

    pub(super) fn load(words: &[AtomicU64; WORDS]) -> Self {
        Self { words: std::array::from_fn(|at| words[at].load(SeqCst)) }
    }

    /// Words that are equal on all ranks, for ranks on other machines.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
        Self { words: std::array::from_fn(word) }
    }

    pub(super) fn fits(&self, other: &Self) -> bool {
        self.words[..COMPARED] == other.words[..COMPARED]
    }

    /// Bytes of all inputs, each up to a multiple of the alignment.
    pub(super) fn contributed_bytes(&self) -> usize {
        self.words[9] as usize
    }

    /// Returns true if the inputs lie in the rank's slot.
    pub(super) fn is_in_slot(&self) -> bool {
        self.words[10] == 1
    }

    /// Text for people.
    pub(super) fn describe(&self) -> String {
        let [collective, sequence, format, kind, factor, root, _, elements, bytes, ..] = self.words;
        let Some(collective) = Collective::from_word(collective) else {
            return "no call".into();
        };
        if collective == Collective::Barrier {
            return format!("{collective} #{sequence}");
        }
        let mut text = format!("{collective} #{sequence} of {elements} elements ({bytes} bytes)");
        if let Some(format) = DataFormat::ALL.iter().find(|known| **known as u64 == format) {
            text += &format!(" {}", format.name());
        }
        if let Some(op) = ReduceOp::from_words([kind, factor]) {
            text += &format!(", {op}");
        }
        if collective.has_root() {
            text += &format!(", root {root}");
        }
        text
    }
}

/// Bytes of all inputs, each up to a multiple of the alignment.
pub(super) fn contributed_bytes(call: &CollectiveCall) -> usize {
    call.inputs.iter().map(|input| input.bytes().next_multiple_of(ALIGNMENT)).sum()
}

/// A number that is equal on all ranks if the sizes that have to be equal are.
fn common_sizes(call: &CollectiveCall) -> u64 {
    let buffers: &[DeviceBuffer] = match call.collective {
        Collective::AllReduce | Collective::Reduce | Collective::ReduceScatter => &call.inputs,
        Collective::Broadcast if call.inputs.is_empty() => &call.outputs,
        Collective::Broadcast => &call.inputs[..1],
        _ => &[],
    };
    // FNV-1a over the numbers.
    buffers.iter().fold(0xCBF2_9CE4_8422_2325, |hash, buffer| {
        (hash ^ buffer.bytes() as u64).wrapping_mul(0x0100_0000_01B3)
    })
}
