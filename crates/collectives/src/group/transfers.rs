//! Sends and receives between ranks of one machine.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use spyre_numerics::DataFormat;

use super::group_state::NumberedCall;
use super::local_ranks::{CallWaiter, LocalRanks};
use crate::processes::read_memory;
use crate::shared_memory::{RankState, SENT_ENTRIES, STAGED_SEND_BYTES};
use crate::{Collective, Error};

/// Sends and receives that have begun.
#[derive(Default)]
pub(super) struct Transfers {
    active: Vec<Transfer>,
    /// Place and number of the message whose part lies in the segment's area.
    staged: Option<(usize, u64)>,
    finished: Vec<FinishedTransfer>,
}

/// Send or receive that is not over.
struct Transfer {
    /// Number of the queued call it belongs to.
    queued: u64,
    part: NumberedCall,
    deadline: Instant,
    /// Place of the peer; a receive from any rank has none until its message is there.
    peer: Option<usize>,
    /// Bytes that were posted or taken.
    bytes: usize,
    /// Number of the last part that was posted.
    posted: Option<u64>,
    has_begun: bool,
    is_over: bool,
}

/// Send or receive that is over.
pub(super) struct FinishedTransfer {
    pub(super) queued: u64,
    pub(super) record: u64,
    pub(super) source_rank: Option<usize>,
}

impl Transfers {
    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Begins a send to, or a receive from, a rank of this machine, or a receive from any.
    pub(super) fn start(&mut self, queued: u64, part: NumberedCall, peer: Option<usize>) {
        let deadline = Instant::now() + part.timeout;
        let transfer = Transfer {
            queued,
            part,
            deadline,
            peer,
            bytes: 0,
            posted: None,
            has_begun: false,
            is_over: false,
        };
        self.active.push(transfer);
    }

    /// Takes what is over.
    pub(super) fn take_finished(&mut self) -> Vec<FinishedTransfer> {
        std::mem::take(&mut self.finished)
    }

    /// Takes those that are not over: the number of the queued call of each, and its record.
    pub(super) fn take_active(&mut self) -> Vec<(u64, u64)> {
        self.active.drain(..).map(|transfer| (transfer.queued, transfer.part.record)).collect()
    }

    /// Moves on all that can move.
    pub(super) fn progress(&mut self, ranks: &LocalRanks) -> Result<(), Error> {
        if self.active.is_empty() {
            return Ok(());
        }
        // Peers are looked at first: what one did before it left is seen after that.
        let verdicts: Vec<_> = self.active.iter().map(|one| one.check(ranks).err()).collect();
        for at in 0..self.active.len() {
            if self.active[at].part.call.collective == Collective::Send {
                self.progress_send(ranks, at);
            } else {
                self.progress_receive(ranks, at)?;
            }
        }
        for (transfer, verdict) in self.active.iter().zip(verdicts) {
            if let Some(error) = verdict.filter(|_| !transfer.is_over) {
                return Err(error);
            }
        }
        self.collect_finished(ranks);
        Ok(())
    }

    fn collect_finished(&mut self, ranks: &LocalRanks) {
        for transfer in self.active.iter().filter(|transfer| transfer.is_over) {
            let is_send = transfer.part.call.collective == Collective::Send;
            let source = transfer.peer.filter(|_| !is_send).map(|peer| ranks.ranks[peer].rank);
            self.finished.push(FinishedTransfer {
                queued: transfer.queued,
                record: transfer.part.record,
                source_rank: source,
            });
        }
        self.active.retain(|transfer| !transfer.is_over);
    }

    fn progress_send(&mut self, ranks: &LocalRanks, at: usize) {
        let Some(peer) = self.active[at].peer else { return };
        let is_first = |other: &Transfer| other.peer == Some(peer) && other.is_unposted_send();
        let is_blocked = self.active[..at].iter().any(is_first);
        if is_blocked {
            return;
        }
        if self.staged.is_some_and(|(place, number)| is_taken(ranks, place, number)) {
            self.staged = None;
        }
        let transfer = &mut self.active[at];
        let input = transfer.part.call.inputs[0];
        while transfer.is_unposted_send() {
            let number = ranks.page().sent_count[peer].load(SeqCst);
            let has_room = number
                .checked_sub(SENT_ENTRIES as u64)
                .is_none_or(|earlier| is_taken(ranks, peer, earlier));
            if !has_room || !ranks.reads_peers && self.staged.is_some() {
                return;
            }
            let part = if ranks.reads_peers {
                input
            } else {
                let part = input.part(transfer.bytes, STAGED_SEND_BYTES);
                ranks.ranks[ranks.own].segment.write_staged_send(part.read());
                self.staged = Some((peer, number));
                part
            };
            let entry = &ranks.page().sent[peer][number as usize % SENT_ENTRIES];
            let address = if ranks.reads_peers { part.address() as u64 } else { 0 };
            entry.tag.store(tag_word(&transfer.part), SeqCst);
            entry.message_bytes.store(input.bytes() as u64, SeqCst);
            entry.bytes.store(part.bytes() as u64, SeqCst);
            entry.address.store(address, SeqCst);
            ranks.page().sent_count[peer].store(number + 1, SeqCst);
            ranks.page_of(peer).messages.ring();
            transfer.bytes += part.bytes();
            transfer.posted = Some(number);
            transfer.has_begun = true;
        }
        transfer.is_over = transfer.posted.is_some_and(|number| is_taken(ranks, peer, number));
    }

    fn progress_receive(&mut self, ranks: &LocalRanks, at: usize) -> Result<(), Error> {
        let wanted = self.active[at].peer;
        let tag = self.active[at].part.call.tag;
        let competes = |other: &Transfer| {
            other.part.call.collective != Collective::Send
                && !other.is_over
                && other.part.call.tag == tag
                && (other.peer == wanted || other.peer.is_none() || wanted.is_none())
        };
        if self.active[..at].iter().any(competes) {
            return Ok(());
        }
        let places = (0..ranks.ranks.len()).filter(|&place| place != ranks.own);
        for place in places.filter(|&place| wanted.is_none_or(|wanted| wanted == place)) {
            while let Some(number) = first_message(ranks, place, tag) {
                self.active[at].take(ranks, place, number)?;
                if self.active[at].is_over {
                    return Ok(());
                }
            }
            if self.active[at].has_begun {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Transfer {
    fn is_unposted_send(&self) -> bool {
        let is_send = self.part.call.collective == Collective::Send;
        is_send && (!self.has_begun || self.bytes < self.part.call.inputs[0].bytes())
    }

    /// Takes one part of a message.
    fn take(&mut self, ranks: &LocalRanks, place: usize, number: u64) -> Result<(), Error> {
        let peer = &ranks.ranks[place];
        let entry = &peer.segment.control().sent[ranks.own][number as usize % SENT_ENTRIES];
        let output = self.part.call.outputs[0];
        let message_bytes = entry.message_bytes.load(SeqCst) as usize;
        let format = entry.tag.load(SeqCst) >> 32;
        if message_bytes != output.bytes() || format != self.part.call.format as u64 {
            return Err(self.mismatch(ranks, place, message_bytes, format));
        }
        let part = output.part(self.bytes, entry.bytes.load(SeqCst) as usize);
        let address = entry.address.load(SeqCst) as usize;
        if address == 0 {
            let bytes = part.bytes().min(STAGED_SEND_BYTES);
            part.write()[..bytes].copy_from_slice(&peer.segment.staged_send()[..bytes]);
        } else {
            read_memory(peer.process.pid(), address, part.write())
                .map_err(|error| unreadable(ranks, place, &self.text(ranks), &error))?;
        }
        ranks.page().taken[place][number as usize % SENT_ENTRIES].store(number + 1, SeqCst);
        peer.segment.control().messages.ring();
        self.bytes += part.bytes();
        self.peer = Some(place);
        self.has_begun = true;
        self.is_over = self.bytes >= output.bytes();
        Ok(())
    }

    fn mismatch(&self, ranks: &LocalRanks, place: usize, bytes: usize, format: u64) -> Error {
        let name = |rank| ranks.state.rank_name(rank);
        let known = DataFormat::ALL.iter().find(|known| **known as u64 == format);
        let reason = format!(
            "{} sent {bytes} bytes of {} with tag {}, and {} receives {} bytes of {}",
            name(ranks.ranks[place].rank),
            known.map_or("an unknown format", |known| known.name()),
            self.part.call.tag,
            name(ranks.state.rank),
            self.part.call.outputs[0].bytes(),
            self.part.call.format.name()
        );
        Error::Mismatch { group: ranks.state.name.clone(), reason }
    }

    fn text(&self, ranks: &LocalRanks) -> String {
        let call = &self.part.call;
        if call.collective == Collective::ReceiveAny {
            return format!("{} #{}", call.collective, self.part.sequence);
        }
        let peer = ranks.state.rank_name(call.root);
        format!("{} #{} with {peer}, tag {}", call.collective, self.part.sequence, call.tag)
    }

    /// Looks if its end can still come.
    fn check(&self, ranks: &LocalRanks) -> Result<(), Error> {
        let text = || self.text(ranks);
        // A receive from any rank ends with the last rank that could send.
        let others = (0..ranks.ranks.len()).filter(|&place| place != ranks.own);
        let mut others = others.map(|place| ranks.page_of(place).state());
        let are_all_gone = others.all(|state| state == RankState::Closed);
        ranks.check(&text, |place| self.peer.map_or(are_all_gone, |peer| peer == place))?;
        if Instant::now() < self.deadline {
            return Ok(());
        }
        let timeout = self.part.timeout;
        let waiter = CallWaiter { text: &text, timeout, deadline: self.deadline };
        Err(ranks.timeout(&waiter, |place| self.peer.is_none_or(|peer| peer == place)))
    }
}

fn tag_word(part: &NumberedCall) -> u64 {
    u64::from(part.call.tag) | (part.call.format as u64) << 32
}

/// Returns true if a rank has taken a message of this one.
fn is_taken(ranks: &LocalRanks, place: usize, number: u64) -> bool {
    let word = &ranks.page_of(place).taken[ranks.own][number as usize % SENT_ENTRIES];
    word.load(SeqCst) > number
}

/// The first message of a rank with this tag that was not taken.
fn first_message(ranks: &LocalRanks, place: usize, tag: u32) -> Option<u64> {
    let page = ranks.page_of(place);
    let count = page.sent_count[ranks.own].load(SeqCst);
    let first = count.saturating_sub(SENT_ENTRIES as u64);
    (first..count).find(|&number| {
        let at = number as usize % SENT_ENTRIES;
        let is_taken = ranks.page().taken[place][at].load(SeqCst) > number;
        !is_taken && page.sent[ranks.own][at].tag.load(SeqCst) as u32 == tag
    })
}

/// The error of a peer whose memory could not be read.
pub(super) fn unreadable(
    ranks: &LocalRanks,
    place: usize,
    text: &str,
    error: &std::io::Error,
) -> Error {
    let peer = &ranks.ranks[place];
    let name = ranks.state.rank_name(peer.rank);
    let pid = peer.process.pid();
    let group = ranks.state.name.clone();
    if peer.process.ends_within(500) {
        let end = peer.process.end();
        let host = ranks.host(peer.rank);
        let reason = format!("{name} (pid {pid}, host {host}) {end} during {text}");
        return Error::Died { group, rank: peer.rank, reason };
    }
    let what = format!("group {group}: process_vm_readv of {name} (pid {pid}) during {text}");
    Error::System { what, reason: error.to_string() }
}
