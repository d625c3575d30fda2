use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use super::Doorbell;

/// Ranks of a group on one machine, at most.
pub(crate) const MAX_LOCAL_RANKS: usize = 64;
/// Ranks of a group, at most.
pub(crate) const MAX_RANKS: usize = 256;
/// Messages on their way from one rank to another, at most; further ones wait at the sender.
pub(crate) const SENT_ENTRIES: usize = 16;
/// Bytes of the text by which a rank says why it failed.
const CAUSE_BYTES: usize = 4096;

/// Words that one rank writes and the others of its machine read.
///
/// Only words that grow, or that are read while their owner is known to wait: a rank that ends at any
/// instruction leaves no lock behind. The rings of the bells alone are written by all.
#[repr(C, align(64))]
pub(crate) struct ControlPage {
    /// Number that the owner drew, by which others know that they opened the right memory.
    pub(crate) nonce: AtomicU64,
    /// Bell of the group's thread.
    pub(crate) doorbell: Doorbell,
    /// Bell of the thread for sends and receives; the round here stays 0.
    pub(crate) messages: Doorbell,
    /// Bell of a caller that waits in its stead; the round here stays 0.
    pub(crate) caller: Doorbell,
    state: AtomicU32,
    culprit: AtomicU32,
    cause_kind: AtomicU32,
    cause_bytes: AtomicU32,
    /// Sequence number, operation and start of the last call, for messages.
    pub(crate) last_call: [AtomicU64; 3],
    /// Description of the current call, by parity of its first round.
    pub(crate) descriptors: [[AtomicU64; 12]; 2],
    /// Memory of the current call, by parity of its first round and by rank.
    pub(crate) pieces: [[PieceWords; MAX_RANKS]; 2],
    /// Messages for other ranks, by their place on this machine.
    pub(crate) sent: [[SentWords; SENT_ENTRIES]; MAX_LOCAL_RANKS],
    /// Number of messages for each of them so far.
    pub(crate) sent_count: [AtomicU64; MAX_LOCAL_RANKS],
    /// Messages of others that the owner has taken: number plus one.
    pub(crate) taken: [[AtomicU64; SENT_ENTRIES]; MAX_LOCAL_RANKS],
    cause: [AtomicU8; CAUSE_BYTES],
}

/// Memory that a rank contributes to a call, and what it expects.
#[repr(C)]
pub(crate) struct PieceWords {
    /// Address of the input for a rank.
    pub(crate) address: AtomicU64,
    /// Bytes of the input for a rank.
    pub(crate) bytes: AtomicU64,
    /// Bytes of the output from a rank.
    pub(crate) expected_bytes: AtomicU64,
}

/// Message that lies ready: its tag, and the part of it that lies at an address.
#[repr(C)]
pub(crate) struct SentWords {
    /// Tag and format.
    pub(crate) tag: AtomicU64,
    /// Bytes of the whole message.
    pub(crate) message_bytes: AtomicU64,
    /// Bytes of this part.
    pub(crate) bytes: AtomicU64,
    /// Address of this part in the sender, or 0 if it lies in the sender's segment.
    pub(crate) address: AtomicU64,
}

/// State of a rank in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankState {
    Running,
    /// Left in peace.
    Closed,
    /// Failed, with a cause.
    Failed,
}

impl ControlPage {
    /// Wakes the owner's threads, whatever they wait for.
    pub(crate) fn ring(&self) {
        for bell in [&self.doorbell, &self.messages, &self.caller] {
            bell.ring();
        }
    }

    pub(crate) fn state(&self) -> RankState {
        match self.state.load(SeqCst) {
            0 => RankState::Running,
            1 => RankState::Closed,
            _ => RankState::Failed,
        }
    }

    pub(crate) fn close(&self) {
        let _ = self.state.compare_exchange(0, 1, SeqCst, SeqCst);
    }

    /// Writes the cause of a failure: the rank that began it, a number for its kind, and a text.
    pub(crate) fn fail(&self, culprit: usize, kind: u32, text: &str) {
        for (word, &byte) in self.cause.iter().zip(text.as_bytes()) {
            word.store(byte, SeqCst);
        }
        self.cause_bytes.store(text.len().min(CAUSE_BYTES) as u32, SeqCst);
        self.cause_kind.store(kind, SeqCst);
        self.culprit.store(culprit as u32, SeqCst);
        self.state.store(2, SeqCst);
    }

    /// Reads what `fail` wrote.
    pub(crate) fn cause(&self) -> (usize, u32, String) {
        let bytes = (self.cause_bytes.load(SeqCst) as usize).min(CAUSE_BYTES);
        let text: Vec<u8> = self.cause[..bytes].iter().map(|byte| byte.load(SeqCst)).collect();
        let culprit = self.culprit.load(SeqCst) as usize;
        (culprit, self.cause_kind.load(SeqCst), String::from_utf8_lossy(&text).into_owned())
    }
}
