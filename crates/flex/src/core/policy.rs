use spyre_hal::StreamIndex;

use super::Core;
use super::stream_state::Phase;
use crate::Policy;
use crate::sync::often;

/// Looks at an empty stream before it is taken off the list.
const EMPTY_LOOKS: u32 = often(64, 2);

/// Turns of high streams in a row before a low one gets its own.
const HIGH_TURNS: u32 = 15;

/// Blocks of a stream in one turn of a round, where a block is done as soon as it is started: to ask
/// whose turn it is costs more than the block.
const PROMPT_TURN: u64 = often(16, 2) as u64;

/// The streams that may have blocks, and whose turn it is.
#[derive(Debug)]
pub(super) struct Listed {
    policy: Policy,
    streams: Vec<StreamIndex>,
    /// Places to look at first: for low streams, and for high ones. Each kind has its own turns.
    next: [usize; 2],
    /// Stream whose turn it was.
    current: Option<StreamIndex>,
    high_turns: u32,
}

impl Listed {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policy, streams: Vec::new(), next: [0; 2], current: None, high_turns: 0 }
    }

    pub(super) fn set_policy(&mut self, policy: Policy) {
        *self = Self { streams: std::mem::take(&mut self.streams), ..Self::new(policy) };
    }

    pub(super) fn push(&mut self, stream: StreamIndex) {
        self.streams.push(stream);
    }

    pub(super) fn remove(&mut self, stream: StreamIndex) {
        if let Some(at) = self.streams.iter().position(|&listed| listed == stream) {
            self.streams.remove(at);
            self.next = self.next.map(|next| next - usize::from(at < next));
        }
    }

    /// Returns true if streams compete, so that each gets a few blocks at a time.
    #[inline]
    pub(super) fn is_contended(&self) -> bool {
        self.blocks_in_turn().is_some()
    }

    /// Number of blocks that a stream gets in its turn, on a device where they are done at once;
    /// `None` if no other stream has a turn.
    #[inline]
    pub(super) fn blocks_in_turn(&self) -> Option<u64> {
        match self.policy {
            Policy::DrainOne => None,
            _ if self.streams.len() < 2 => None,
            Policy::RoundRobin => Some(PROMPT_TURN),
            Policy::Priority => Some(1),
        }
    }
}

impl Core {
    /// Stream whose turn it is, among the streams that have a block to start.
    #[inline]
    pub(super) fn choose(&mut self, only: Option<StreamIndex>) -> Option<StreamIndex> {
        let (stream, is_high) = self.candidate()?;
        if only.is_some_and(|only| only != stream) {
            return None;
        }
        let listed = &mut self.listed;
        if listed.streams.len() > 1 {
            let at = listed.streams.iter().position(|&listed| listed == stream).unwrap_or(0);
            listed.next[usize::from(is_high)] = (at + 1) % listed.streams.len();
            listed.high_turns = if is_high { listed.high_turns + 1 } else { 0 };
        }
        listed.current = Some(stream);
        Some(stream)
    }

    /// Like [`choose`](Self::choose), without taking the turn.
    pub(super) fn choose_without_turn(&mut self) -> Option<StreamIndex> {
        self.candidate().map(|(stream, _)| stream)
    }

    #[inline]
    fn candidate(&mut self) -> Option<(StreamIndex, bool)> {
        match self.listed.policy {
            Policy::RoundRobin => {
                self.first_ready(false, |_, _| true).map(|stream| (stream, false))
            }
            Policy::DrainOne => {
                let current = self.listed.current;
                let same = current.filter(|&stream| self.stream(stream).is_ready());
                same.or_else(|| self.first_ready(false, |_, _| true)).map(|stream| (stream, false))
            }
            Policy::Priority => {
                let first = self.listed.high_turns < HIGH_TURNS;
                self.first_of(first).or_else(|| self.first_of(!first))
            }
        }
    }

    #[inline]
    fn first_of(&mut self, is_high: bool) -> Option<(StreamIndex, bool)> {
        let found = self.first_ready(is_high, |core, stream| core.is_high(stream) == is_high)?;
        Some((found, is_high))
    }

    /// The first stream from the cursor on that has a block to start and is wanted.
    #[inline]
    fn first_ready(
        &mut self,
        is_high: bool,
        is_wanted: impl Fn(&Self, StreamIndex) -> bool,
    ) -> Option<StreamIndex> {
        let mut at = 0;
        let mut empty = None;
        let mut found = None;
        while at < self.listed.streams.len() {
            let place = (self.listed.next[usize::from(is_high)] + at) % self.listed.streams.len();
            let stream = self.listed.streams[place];
            let state = &mut self.streams[usize::from(stream.0)];
            if state.is_ready() {
                state.empty_looks = 0;
                if is_wanted(self, stream) {
                    found = Some(stream);
                    break;
                }
            } else if state.phase == Phase::Idle {
                state.empty_looks += 1;
                if state.empty_looks >= EMPTY_LOOKS {
                    empty = Some(stream);
                }
            }
            at += 1;
        }
        if let Some(stream) = empty.filter(|_| self.listed.streams.len() > 1) {
            self.delist(stream);
        }
        found
    }
}
