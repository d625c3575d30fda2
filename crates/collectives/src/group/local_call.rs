//! One call among the ranks of one machine.

use std::ops::Range;
use std::sync::atomic::Ordering::SeqCst;

use super::descriptor::{ALIGNMENT, Descriptor, contributed_bytes};
use super::group_state::NumberedCall;
use super::local_ranks::{CallWaiter, LocalRanks};
use super::posted_call::{PostedCall, RESULT};
use super::transfers::unreadable;
use crate::processes::read_memory;
use crate::reduction::{BLOCK_ELEMENTS, Reducer};
use crate::shared_memory::SLOT_BYTES;
use crate::{Collective, CollectiveCall, DeviceBuffer, Error};

/// Contributions up to so many bytes go through slots: one hand-over, no reads of other processes.
const SLOT_CALL_BYTES: usize = 256 << 10;

/// Memory for blocks of reductions, kept from call to call.
#[derive(Default)]
pub(super) struct BlockScratch {
    pub(super) accumulator: Vec<u8>,
    pub(super) widened: Vec<u8>,
    pub(super) fetched: Vec<u8>,
}

/// Call that all ranks of a machine carry out.
pub(super) struct LocalCall<'a, 'w> {
    pub(super) ranks: &'a LocalRanks,
    pub(super) part: &'a NumberedCall,
    pub(super) waiter: &'a CallWaiter<'w>,
    pub(super) scratch: &'a mut BlockScratch,
    /// Round in which all arrived, in whose slots small contributions lie.
    pub(super) arrival: u64,
    /// Copies of what the ranks posted, by place: pages may be written for the next call when this one ends here.
    pub(super) posted: Vec<PostedCall>,
}

/// Place of a contribution.
pub(super) enum PieceSource<'a> {
    Here(&'a [u8]),
    /// Address in the process of a rank.
    There(usize, usize),
}

impl<'a, 'w> LocalCall<'a, 'w> {
    pub(super) fn new(
        ranks: &'a LocalRanks,
        part: &'a NumberedCall,
        waiter: &'a CallWaiter<'w>,
        scratch: &'a mut BlockScratch,
        arrival: u64,
    ) -> Self {
        Self { ranks, part, waiter, scratch, arrival, posted: Vec::new() }
    }

    /// Carries the call out after all ranks have posted theirs, where all of them are on this machine.
    pub(super) fn run(&mut self) -> Result<(), Error> {
        self.check_sizes(&self.local_posted())?;
        let collective = self.call().collective;
        if collective == Collective::Barrier {
            return Ok(());
        }
        self.copy_own();
        if collective == Collective::AllReduce && self.reads_in_place() {
            self.all_reduce_in_place()?;
        } else {
            self.take_all()?;
        }
        if self.reads_in_place() {
            // Memory of this rank is its own again when all have read it.
            self.ranks.hand_over(self.waiter)?;
        }
        Ok(())
    }

    /// Takes all that this rank gets from ranks of this machine.
    pub(super) fn take_all(&mut self) -> Result<(), Error> {
        if self.is_in_slots() || self.ranks.reads_peers {
            return self.take(self.arrival, 0..usize::MAX);
        }
        self.for_each_window(Self::take)
    }

    /// Returns true if contributions are read where they lie, and not from slots.
    pub(super) fn reads_in_place(&self) -> bool {
        !self.is_in_slots() && self.ranks.reads_peers
    }

    pub(super) fn call(&self) -> &'a CollectiveCall {
        &self.part.call
    }

    /// Posts the description of the call and where its inputs lie. Returns the round in which all ranks do.
    pub(super) fn post(ranks: &LocalRanks, part: &NumberedCall) -> u64 {
        let arrival = ranks.next_round();
        let parity = (arrival % 2) as usize;
        descriptor_of(part).store(&ranks.page().descriptors[parity]);
        write_pieces(ranks, &part.call, parity);
        if is_small(&part.call) {
            write_slot(ranks, &part.call, arrival, 0..SLOT_CALL_BYTES);
        }
        ranks.reach_next()
    }

    /// Reads what all ranks posted, and compares it.
    pub(super) fn meet(&mut self) -> Result<(), Error> {
        let descriptor = descriptor_of(self.part);
        let parity = (self.arrival % 2) as usize;
        let size = self.ranks.state.size;
        let pages = (0..self.ranks.ranks.len()).map(|at| self.ranks.page_of(at));
        self.posted = pages.map(|page| PostedCall::read(page, parity, size)).collect();
        for (posted, peer) in self.posted.iter().zip(self.ranks.ranks.iter()) {
            self.compare(&descriptor, peer.rank, &posted.descriptor)?;
        }
        Ok(())
    }

    /// Compares the own call with that of a rank.
    pub(super) fn compare(
        &self,
        own: &Descriptor,
        rank: usize,
        other: &Descriptor,
    ) -> Result<(), Error> {
        if own.fits(other) {
            return Ok(());
        }
        let name = |rank| self.ranks.state.rank_name(rank);
        Err(self.mismatch(format!(
            "{} called {}, and {} called {}",
            name(self.ranks.state.rank),
            own.describe(),
            name(rank),
            other.describe()
        )))
    }

    pub(super) fn is_in_slots(&self) -> bool {
        self.posted.iter().all(|posted| posted.descriptor.is_in_slot())
    }

    pub(super) fn mismatch(&self, reason: String) -> Error {
        Error::Mismatch { group: self.ranks.state.name.clone(), reason }
    }

    pub(super) fn piece_bytes(&self, at: usize, piece: usize) -> usize {
        self.posted[at].pieces[piece].bytes
    }

    /// Offset of a piece in the contribution of a rank.
    pub(super) fn piece_offset(&self, at: usize, piece: usize) -> usize {
        (0..piece).map(|before| self.piece_bytes(at, before).next_multiple_of(ALIGNMENT)).sum()
    }

    /// Checks for every two ranks that the second expects what the first contributes. All ranks find the same.
    pub(super) fn check_sizes(&self, posted: &[(usize, &PostedCall)]) -> Result<(), Error> {
        let call = self.call();
        for (source, given) in posted {
            for (target, expected) in posted.iter().filter(|(target, _)| target != source) {
                let Some(piece) = piece_for(call, *source, *target) else { continue };
                let given = given.pieces[piece].bytes;
                let expected = expected.pieces[*source].expected_bytes;
                if given != expected {
                    let name = |rank| self.ranks.state.rank_name(rank);
                    let reason = format!(
                        "{} #{}: {} gives {} {given} bytes, which expects {expected}",
                        call.collective,
                        self.part.sequence,
                        name(*source),
                        name(*target)
                    );
                    return Err(self.mismatch(reason));
                }
            }
        }
        Ok(())
    }

    /// Posted calls with the ranks that posted them.
    pub(super) fn local_posted(&self) -> Vec<(usize, &PostedCall)> {
        self.ranks.ranks.iter().map(|peer| peer.rank).zip(&self.posted).collect()
    }

    /// Copies what this rank gives to itself.
    pub(super) fn copy_own(&self) {
        let call = self.call();
        let rank = self.ranks.state.rank;
        let (input, output) = match call.collective {
            Collective::Broadcast if call.root == rank => (0, 0),
            Collective::Scatter if call.root == rank => (rank, 0),
            Collective::Gather if call.root == rank => (0, rank),
            Collective::AllGather => (0, rank),
            Collective::AllToAll => (rank, rank),
            _ => return,
        };
        if let (Some(source), Some(target)) = (call.inputs.get(input), call.outputs.get(output)) {
            target.copy_from(source);
        }
    }

    /// Takes what this rank gets out of the part `window` of all contributions, which lies in slots of `round`
    /// or in memory of the ranks.
    fn take(&mut self, round: u64, window: Range<usize>) -> Result<(), Error> {
        let call = self.call();
        let own_rank = self.ranks.state.rank;
        if let Some((piece, output)) = reduced_piece(call, own_rank) {
            let start = self.piece_offset(self.ranks.own, piece);
            let bytes = self.piece_bytes(self.ranks.own, piece);
            let Some(common) = overlap(&(start..start + bytes), &window) else { return Ok(()) };
            return self.reduce(
                round,
                &window,
                piece,
                common.start - start..common.end - start,
                output,
            );
        }
        for at in 0..self.ranks.ranks.len() {
            let rank = self.ranks.ranks[at].rank;
            let Some(piece) = piece_for(call, rank, own_rank) else { continue };
            if at == self.ranks.own {
                continue;
            }
            let start = self.piece_offset(at, piece);
            let bytes = self.piece_bytes(at, piece);
            let Some(common) = overlap(&(start..start + bytes), &window) else { continue };
            let target = if call.outputs.len() > 1 { call.outputs[rank] } else { call.outputs[0] };
            let target = target.part(common.start - start, common.len());
            let part = common.start - start..common.end - start;
            match self.source(round, &window, at, piece, part)? {
                PieceSource::Here(bytes) => target.write().copy_from_slice(bytes),
                PieceSource::There(at, address) => self.read(at, address, target.write())?,
            }
        }
        Ok(())
    }

    /// Finds the part `part` of a piece of a rank.
    pub(super) fn source(
        &self,
        round: u64,
        window: &Range<usize>,
        at: usize,
        piece: usize,
        part: Range<usize>,
    ) -> Result<PieceSource<'a>, Error> {
        let is_staged = round != self.arrival;
        if is_staged || self.posted[at].descriptor.is_in_slot() {
            let first = self.piece_offset(at, piece) + part.start - window.start;
            let slot = self.ranks.ranks[at].segment.slot(round);
            let bytes = slot.get(first..first + part.len());
            return bytes.map(PieceSource::Here).ok_or_else(|| {
                self.mismatch(format!("{} bytes are past the end of a slot", part.len()))
            });
        }
        if at == self.ranks.own {
            let input: &'a DeviceBuffer = &self.call().inputs[piece];
            return Ok(PieceSource::Here(&input.read()[part]));
        }
        let address = self.posted[at].pieces[piece].address;
        Ok(PieceSource::There(at, address + part.start))
    }

    pub(super) fn read(&self, at: usize, address: usize, target: &mut [u8]) -> Result<(), Error> {
        let peer = &self.ranks.ranks[at];
        read_memory(peer.process.pid(), address, target)
            .map_err(|error| unreadable(self.ranks, at, &(self.waiter.text)(), &error))
    }

    /// Reduces the part `part` of a piece over all ranks, in their order, into the same part of `output`.
    fn reduce(
        &mut self,
        round: u64,
        window: &Range<usize>,
        piece: usize,
        part: Range<usize>,
        output: DeviceBuffer,
    ) -> Result<(), Error> {
        let call = self.call();
        let Some(op) = call.reduction else { return Ok(()) };
        let reducer = Reducer::new(op, call.format, self.ranks.state.size)?;
        let block_bytes = BLOCK_ELEMENTS * reducer.element_bytes();
        let mut scratch = std::mem::take(self.scratch);
        let mut start = part.start;
        while start < part.end {
            let block = start..part.end.min(start + block_bytes);
            start = block.end;
            let wide_bytes = reducer.accumulator_bytes(block.len());
            scratch.fit(block.len(), wide_bytes);
            let BlockScratch { accumulator, widened, fetched } = &mut scratch;
            let accumulator = &mut accumulator[..wide_bytes];
            for at in 0..self.ranks.ranks.len() {
                let bytes = match self.source(round, window, at, piece, block.clone())? {
                    PieceSource::Here(bytes) => bytes,
                    PieceSource::There(at, address) => {
                        let fetched = &mut fetched[..block.len()];
                        self.read(at, address, fetched)?;
                        &*fetched
                    }
                };
                if at == 0 {
                    reducer.start(accumulator, bytes);
                } else {
                    reducer.add(accumulator, bytes, &mut widened[..wide_bytes]);
                }
            }
            reducer.finish(accumulator, output.part(block.start, block.len()).write());
        }
        *self.scratch = scratch;
        Ok(())
    }

    /// Reduces one share on each rank, straight from the memory of all, and then copies the shares of the others.
    fn all_reduce_in_place(&mut self) -> Result<(), Error> {
        let output = self.call().outputs[0];
        let count = self.ranks.ranks.len();
        let share = share_of(output.bytes(), self.ranks.own, count);
        self.reduce(self.arrival, &(0..usize::MAX), 0, share, output)?;
        self.ranks.hand_over(self.waiter)?;
        // Every rank begins with another one, so that not all read the same memory.
        for step in 1..count {
            let at = (self.ranks.own + step) % count;
            let share = share_of(output.bytes(), at, count);
            let address = self.posted[at].pieces[RESULT].address + share.start;
            self.read(at, address, output.part(share.start, share.len()).write())?;
        }
        Ok(())
    }

    /// Carries all contributions through slots, as much as fits at a time.
    pub(super) fn for_each_window(
        &mut self,
        mut take: impl FnMut(&mut Self, u64, Range<usize>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let contributed = self.posted.iter().map(|posted| posted.descriptor.contributed_bytes());
        let bytes = contributed.max().unwrap_or(0);
        let mut start = 0;
        while start < bytes {
            let window = start..start + SLOT_BYTES;
            let round = self.ranks.next_round();
            write_slot(self.ranks, self.call(), round, window.clone());
            self.ranks.hand_over(self.waiter)?;
            start = window.end;
            take(self, round, window)?;
        }
        Ok(())
    }
}

impl BlockScratch {
    pub(super) fn fit(&mut self, bytes: usize, wide_bytes: usize) {
        for (part, bytes) in [
            (&mut self.fetched, bytes),
            (&mut self.accumulator, wide_bytes),
            (&mut self.widened, wide_bytes),
        ] {
            if part.len() < bytes {
                part.resize(bytes, 0);
            }
        }
    }
}

/// Returns true if the contribution of this rank goes through a slot.
pub(super) fn is_small(call: &CollectiveCall) -> bool {
    contributed_bytes(call) <= SLOT_CALL_BYTES
}

fn descriptor_of(part: &NumberedCall) -> Descriptor {
    Descriptor::new(&part.call, part.sequence, is_small(&part.call))
}

/// Posts where the inputs of a call lie, and what it expects.
fn write_pieces(ranks: &LocalRanks, call: &CollectiveCall, parity: usize) {
    let pieces = &ranks.page().pieces[parity];
    for (words, input) in pieces.iter().zip(&call.inputs) {
        words.address.store(input.address() as u64, SeqCst);
        words.bytes.store(input.bytes() as u64, SeqCst);
    }
    if call.collective == Collective::AllReduce {
        // Results are read where they are made.
        pieces[RESULT].address.store(call.outputs[0].address() as u64, SeqCst);
    } else if matches!(call.collective, Collective::Scatter | Collective::Broadcast) {
        let expected = call.outputs.first().map_or(0, DeviceBuffer::bytes);
        pieces[call.root].expected_bytes.store(expected as u64, SeqCst);
    } else {
        for (words, output) in pieces.iter().zip(&call.outputs) {
            words.expected_bytes.store(output.bytes() as u64, SeqCst);
        }
    }
}

/// Writes the part `window` of the own contribution into the slot of a round.
fn write_slot(ranks: &LocalRanks, call: &CollectiveCall, round: u64, window: Range<usize>) {
    let own = &ranks.ranks[ranks.own].segment;
    let mut start = 0;
    for input in &call.inputs {
        let piece = start..start + input.bytes();
        if let Some(common) = overlap(&piece, &window) {
            let part = input.part(common.start - start, common.len());
            own.write_slot(round, common.start - window.start, part.read());
        }
        start = piece.end.next_multiple_of(ALIGNMENT);
    }
}

/// Number of the input of `source` that `target` gets as it is, if it gets one.
pub(super) fn piece_for(call: &CollectiveCall, source: usize, target: usize) -> Option<usize> {
    match call.collective {
        Collective::Broadcast if source == call.root && target != source => Some(0),
        Collective::AllGather => Some(0),
        Collective::Gather if target == call.root => Some(0),
        Collective::Scatter if source == call.root => Some(target),
        Collective::AllToAll => Some(target),
        _ => None,
    }
}

/// Number of the input that this rank reduces over all ranks, and the output for the result.
fn reduced_piece(call: &CollectiveCall, rank: usize) -> Option<(usize, DeviceBuffer)> {
    let piece = match call.collective {
        Collective::AllReduce => 0,
        Collective::Reduce if call.root == rank => 0,
        Collective::ReduceScatter => rank,
        _ => return None,
    };
    Some((piece, call.outputs[0]))
}

/// Part of so many bytes that the rank at `at` of `count` reduces.
pub(super) fn share_of(bytes: usize, at: usize, count: usize) -> Range<usize> {
    let share = bytes.div_ceil(count).next_multiple_of(ALIGNMENT);
    (at * share).min(bytes)..((at + 1) * share).min(bytes)
}

pub(super) fn overlap(a: &Range<usize>, b: &Range<usize>) -> Option<Range<usize>> {
    let common = a.start.max(b.start)..a.end.min(b.end);
    (common.start < common.end).then_some(common)
}
