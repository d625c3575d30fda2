//! One call among ranks of several machines.

use std::ops::Range;
use std::thread;

use super::far_ranks::{COLLECTIVE_TAG, FarMessage, FarRanks};
use super::local_call::{BlockScratch, LocalCall, PieceSource, overlap, piece_for, share_of};
use super::posted_call::{PostedCall, RESULT};
use crate::reduction::{BLOCK_ELEMENTS, Reducer};
use crate::{Collective, DeviceBuffer, Error};

/// Blocks of a reduction that cross to the next machine at a time.
const FAR_BLOCKS: usize = 8;

/// Way of one reduction over the machines.
struct ReductionChain<'a> {
    /// Rank that works for each machine.
    holders: &'a [usize],
    /// Holders that get the result.
    receivers: &'a [usize],
    piece: usize,
    part: Range<usize>,
    /// Place of the result, on receivers.
    output: Option<DeviceBuffer>,
}

impl LocalCall<'_, '_> {
    /// Carries the call out with ranks on other machines.
    pub(super) fn run_across(&mut self, far: &FarRanks) -> Result<(), Error> {
        self.check_sizes(&self.local_posted())?;
        self.meet_machines(far)?;
        self.ranks.hand_over(self.waiter)?;
        let collective = self.call().collective;
        if collective == Collective::Barrier {
            return Ok(());
        }
        self.copy_own();
        if collective.reduces() {
            self.reduce_across(far)?;
        } else {
            self.exchange(far)?;
            self.take_all()?;
        }
        self.ranks.hand_over(self.waiter)
    }

    /// The first rank of each machine compares the calls of all machines. Every rank of a machine has arrived then.
    fn meet_machines(&self, far: &FarRanks) -> Result<(), Error> {
        let own_machine = far.machine_of(self.ranks.state.rank);
        let leaders: Vec<usize> = far.machines().iter().map(|ranks| ranks[0]).collect();
        if leaders[own_machine] != self.ranks.state.rank {
            return Ok(());
        }
        let size = self.ranks.state.size;
        let own: Vec<u8> = self.posted.iter().flat_map(|posted| posted.to_bytes(size)).collect();
        let text = (self.waiter.text)();
        let deadline = self.waiter.deadline;
        let message = |peer| FarMessage { peer, deadline, text: &text };
        let others = || (0..leaders.len()).filter(|&machine| machine != own_machine);
        let mut all: Vec<(usize, PostedCall)> = Vec::new();
        thread::scope(|scope| {
            let sender = scope.spawn(|| {
                others().try_for_each(|to| far.send(COLLECTIVE_TAG, message(leaders[to]), &own))
            });
            for machine in others() {
                let ranks = &far.machines()[machine];
                let bytes = PostedCall::wire_bytes(size);
                let mut words = vec![0; ranks.len() * bytes];
                far.receive(COLLECTIVE_TAG, message(leaders[machine]), &mut words)?;
                let calls = words.chunks(bytes).map(PostedCall::from_bytes);
                all.extend(ranks.iter().copied().zip(calls));
            }
            sender.join().unwrap_or(Ok(()))
        })?;
        let mut posted = self.local_posted();
        let mine = &self.posted[self.ranks.own].descriptor;
        posted.extend(all.iter().map(|(rank, call)| (*rank, call)));
        posted.sort_by_key(|(rank, _)| *rank);
        for (rank, call) in &posted {
            self.compare(mine, *rank, &call.descriptor)?;
        }
        self.check_sizes(&posted)
    }

    /// Sends pieces to ranks on other machines, and receives theirs.
    fn exchange(&self, far: &FarRanks) -> Result<(), Error> {
        let call = self.call();
        let own = self.ranks.state.rank;
        let size = self.ranks.state.size;
        let text = (self.waiter.text)();
        let deadline = self.waiter.deadline;
        let message = |peer| FarMessage { peer, deadline, text: &text };
        let send_all = || {
            for to in (1..size).map(|step| (own + step) % size).filter(|&to| far.is_far(to)) {
                let Some(piece) = piece_for(call, own, to) else { continue };
                let input = call.inputs[piece];
                if input.bytes() > 0 {
                    far.send(COLLECTIVE_TAG, message(to), input.read())?;
                }
            }
            Ok(())
        };
        thread::scope(|scope| {
            let sender = scope.spawn(send_all);
            for from in (1..size).map(|step| (own + size - step) % size) {
                let has_piece = far.is_far(from) && piece_for(call, from, own).is_some();
                if !has_piece {
                    continue;
                }
                let many = call.outputs.len() > 1;
                let output = if many { call.outputs[from] } else { call.outputs[0] };
                if output.bytes() > 0 {
                    far.receive(COLLECTIVE_TAG, message(from), output.write())?;
                }
            }
            sender.join().unwrap_or(Ok(()))
        })
    }

    fn reduce_across(&mut self, far: &FarRanks) -> Result<(), Error> {
        if self.is_in_slots() || self.ranks.reads_peers {
            return self.reduce_window(far, self.arrival, 0..usize::MAX);
        }
        self.for_each_window(|call, round, window| call.reduce_window(far, round, window))
    }

    fn reduce_window(
        &mut self,
        far: &FarRanks,
        round: u64,
        window: Range<usize>,
    ) -> Result<(), Error> {
        let call = self.call();
        let own = self.ranks.state.rank;
        let part = |call: &Self, piece: usize| {
            let start = call.piece_offset(call.ranks.own, piece);
            let bytes = call.piece_bytes(call.ranks.own, piece);
            overlap(&(start..start + bytes), &window)
                .map(|part| part.start - start..part.end - start)
        };
        match call.collective {
            Collective::AllReduce => {
                let Some(part) = part(self, 0) else { return Ok(()) };
                self.all_reduce_across(far, round, &window, &part)
            }
            Collective::Reduce => {
                let Some(part) = part(self, 0) else { return Ok(()) };
                let holders = holders(far, call.root, 0);
                let output = call.outputs.first().copied().filter(|_| call.root == own);
                let receivers = &[call.root];
                let chain = ReductionChain { holders: &holders, receivers, piece: 0, part, output };
                self.run_chain(far, round, &window, &chain)
            }
            _ => {
                for target in 0..self.ranks.state.size {
                    let Some(part) = part(self, target) else { continue };
                    let holders = holders(far, target, target);
                    let output = call.outputs.first().copied().filter(|_| target == own);
                    let receivers = &[target];
                    let chain = ReductionChain {
                        holders: &holders,
                        receivers,
                        piece: target,
                        part,
                        output,
                    };
                    self.run_chain(far, round, &window, &chain)?;
                }
                Ok(())
            }
        }
    }

    /// Each rank of a machine works on a share, together with one rank of each other machine; then the ranks of
    /// the machine copy each other's shares.
    fn all_reduce_across(
        &mut self,
        far: &FarRanks,
        round: u64,
        window: &Range<usize>,
        part: &Range<usize>,
    ) -> Result<(), Error> {
        let output = self.call().outputs[0];
        let count = far.machines().iter().map(Vec::len).min().unwrap_or(1);
        let share = |at: usize| {
            let share = share_of(part.len(), at, count);
            part.start + share.start..part.start + share.end
        };
        let own = self.ranks.own;
        if own < count {
            let holders: Vec<usize> = far.machines().iter().map(|ranks| ranks[own]).collect();
            let receivers = &holders;
            let output = Some(output);
            let chain =
                ReductionChain { holders: &holders, receivers, piece: 0, part: share(own), output };
            self.run_chain(far, round, window, &chain)?;
        }
        if self.reads_in_place() {
            self.ranks.hand_over(self.waiter)?;
            for at in (0..count).filter(|&at| at != own) {
                let share = share(at);
                let address = self.posted[at].pieces[RESULT].address + share.start;
                self.read(at, address, output.part(share.start, share.len()).write())?;
            }
            return Ok(());
        }
        if round == self.arrival {
            // The slot of the next but one round is that of the contributions: all have to have read them.
            self.ranks.hand_over(self.waiter)?;
        }
        let result_round = self.ranks.next_round();
        if own < count {
            let share = share(own);
            let segment = &self.ranks.ranks[own].segment;
            segment.write_slot(result_round, 0, output.part(share.start, share.len()).read());
        }
        self.ranks.hand_over(self.waiter)?;
        for at in (0..count).filter(|&at| at != own) {
            let share = share(at);
            let slot = self.ranks.ranks[at].segment.slot(result_round);
            output.part(share.start, share.len()).write().copy_from_slice(&slot[..share.len()]);
        }
        Ok(())
    }

    /// Takes part in a reduction over all ranks in their order: sums of the ranks before come from the machine
    /// before, and go on to the next one; the last one rounds, and sends the result back.
    fn run_chain(
        &mut self,
        far: &FarRanks,
        round: u64,
        window: &Range<usize>,
        chain: &ReductionChain<'_>,
    ) -> Result<(), Error> {
        let own = self.ranks.state.rank;
        let own_machine = far.machine_of(own);
        let Some(op) = self.call().reduction else { return Ok(()) };
        if chain.holders[own_machine] != own {
            return Ok(());
        }
        let reducer = Reducer::new(op, self.call().format, self.ranks.state.size)?;
        let block_bytes = FAR_BLOCKS * BLOCK_ELEMENTS * reducer.element_bytes();
        let mut scratch = std::mem::take(self.scratch);
        let mut start = chain.part.start;
        while start < chain.part.end {
            let block = start..chain.part.end.min(start + block_bytes);
            start = block.end;
            self.run_block(far, round, window, chain, &reducer, &mut scratch, block)?;
        }
        *self.scratch = scratch;
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the state of a loop")]
    fn run_block(
        &self,
        far: &FarRanks,
        round: u64,
        window: &Range<usize>,
        chain: &ReductionChain<'_>,
        reducer: &Reducer,
        scratch: &mut BlockScratch,
        block: Range<usize>,
    ) -> Result<(), Error> {
        let text = (self.waiter.text)();
        let deadline = self.waiter.deadline;
        let message = |peer| FarMessage { peer, deadline, text: &text };
        let own = self.ranks.state.rank;
        let own_machine = far.machine_of(own);
        let runs = far.runs();
        let last_holder = chain.holders[runs[runs.len() - 1].0];
        let wide_bytes = reducer.accumulator_bytes(block.len());
        scratch.fit(block.len(), wide_bytes);
        let BlockScratch { accumulator, widened, fetched } = scratch;
        let accumulator = &mut accumulator[..wide_bytes];
        let fetched = &mut fetched[..block.len()];
        for (at, (machine, ranks)) in runs.iter().enumerate() {
            if *machine != own_machine {
                continue;
            }
            if at > 0 {
                let previous = chain.holders[runs[at - 1].0];
                far.receive(COLLECTIVE_TAG, message(previous), accumulator)?;
            }
            for &rank in ranks {
                let place = self.ranks.place_of(rank).unwrap_or(self.ranks.own);
                let bytes = match self.source(round, window, place, chain.piece, block.clone())? {
                    PieceSource::Here(bytes) => bytes,
                    PieceSource::There(place, address) => {
                        self.read(place, address, fetched)?;
                        &*fetched
                    }
                };
                if rank == 0 {
                    reducer.start(accumulator, bytes);
                } else {
                    reducer.add(accumulator, bytes, &mut widened[..wide_bytes]);
                }
            }
            if let Some((next, _)) = runs.get(at + 1) {
                far.send(COLLECTIVE_TAG, message(chain.holders[*next]), accumulator)?;
            }
        }
        let output = chain.output.map(|output| output.part(block.start, block.len()));
        if own == last_holder {
            reducer.finish(accumulator, fetched);
            for &receiver in chain.receivers.iter().filter(|&&receiver| receiver != own) {
                far.send(COLLECTIVE_TAG, message(receiver), fetched)?;
            }
            if let Some(output) = output.filter(|_| chain.receivers.contains(&own)) {
                output.write().copy_from_slice(fetched);
            }
        } else if let Some(output) = output.filter(|_| chain.receivers.contains(&own)) {
            far.receive(COLLECTIVE_TAG, message(last_holder), output.write())?;
        }
        Ok(())
    }
}

/// Rank of each machine that works for `target`: on its own machine itself, elsewhere one by number.
fn holders(far: &FarRanks, target: usize, number: usize) -> Vec<usize> {
    let holder = |ranks: &Vec<usize>| {
        if ranks.contains(&target) { target } else { ranks[number % ranks.len()] }
    };
    far.machines().iter().map(holder).collect()
}
