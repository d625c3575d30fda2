//! Copy of what a rank posted of its call.

use std::sync::atomic::Ordering::SeqCst;

use super::descriptor::{Descriptor, WORDS};
use crate::shared_memory::ControlPage;

/// Number of the piece under which an all_reduce posts where its result lies.
pub(super) const RESULT: usize = 1;

/// Call of one rank, as it posted it.
pub(super) struct PostedCall {
    pub(super) descriptor: Descriptor,
    /// Pieces by rank of the group.
    pub(super) pieces: Vec<PostedPiece>,
}

/// Input for a rank, and the size of the output from it.
#[derive(Clone, Copy)]
pub(super) struct PostedPiece {
    pub(super) address: usize,
    pub(super) bytes: usize,
    pub(super) expected_bytes: usize,
}

impl PostedCall {
    /// Reads a page, for so many ranks and what lies under [`RESULT`].
    pub(super) fn read(page: &ControlPage, parity: usize, size: usize) -> Self {
        let pieces = page.pieces[parity][..size.max(RESULT + 1)].iter().map(|words| PostedPiece {
            address: words.address.load(SeqCst) as usize,
            bytes: words.bytes.load(SeqCst) as usize,
            expected_bytes: words.expected_bytes.load(SeqCst) as usize,
        });
        Self { descriptor: Descriptor::load(&page.descriptors[parity]), pieces: pieces.collect() }
    }

    /// The description and all sizes, for ranks on other machines.
    pub(super) fn to_bytes(&self, size: usize) -> Vec<u8> {
        let mut bytes = self.descriptor.to_bytes();
        for piece in &self.pieces[..size] {
            bytes.extend((piece.bytes as u64).to_le_bytes());
            bytes.extend((piece.expected_bytes as u64).to_le_bytes());
        }
        bytes
    }

    /// Bytes that `to_bytes` makes.
    pub(super) fn wire_bytes(size: usize) -> usize {
        8 * WORDS + 16 * size
    }

    /// The call of a rank on another machine; addresses there mean nothing here.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let descriptor = bytes.len().min(8 * WORDS);
        let (pairs, _) = bytes[descriptor..].as_chunks::<16>();
        let pieces = pairs.iter().map(|pair| {
            let number = |half: &[u8]| half.try_into().map_or(0, u64::from_le_bytes) as usize;
            PostedPiece {
                address: 0,
                bytes: number(&pair[..8]),
                expected_bytes: number(&pair[8..]),
            }
        });
        Self { descriptor: Descriptor::from_bytes(&bytes[..descriptor]), pieces: pieces.collect() }
    }
}
