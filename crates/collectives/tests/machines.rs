//! Ranks of several machines, which meet over channels: each machine is a name that keeps ranks apart.

mod support;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use spyre_collectives::{Collective, CollectiveCall, GroupOptions, Remote};
use spyre_numerics::DataFormat;

use support::{begins_while_a_collective_waits, call, checks, on_ranks, run};

/// Messages under way, by sender, receiver and tag.
type Messages = HashMap<(usize, usize, u32), VecDeque<Vec<u8>>>;

#[derive(Default)]
struct Wire {
    messages: Mutex<Messages>,
    is_cut: Mutex<bool>,
    change: Condvar,
}

/// End of a wire at one rank. A send waits until its message is taken, which is the strictest that is allowed.
struct WireEnd {
    wire: Arc<Wire>,
    rank: usize,
}

impl WireEnd {
    fn wait(
        &self,
        deadline: Instant,
        mut is_over: impl FnMut(&mut Messages) -> bool,
    ) -> Result<(), String> {
        let mut messages = self.wire.messages.lock().expect("not poisoned");
        loop {
            if is_over(&mut messages) {
                self.wire.change.notify_all();
                return Ok(());
            }
            if *self.wire.is_cut.lock().expect("not poisoned") {
                return Err("the wire is cut".into());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("no answer in time".into());
            }
            messages = self.wire.change.wait_timeout(messages, left).expect("not poisoned").0;
        }
    }
}

impl Remote for WireEnd {
    fn send(&self, peer: usize, tag: u32, bytes: &[u8], deadline: Instant) -> Result<(), String> {
        let key = (self.rank, peer, tag);
        let mut message = Some(bytes.to_vec());
        // One message of a kind at a time: a second one waits for the first to be taken.
        self.wait(deadline, |messages| {
            let queue = messages.entry(key).or_default();
            let Some(bytes) = message.take_if(|_| queue.is_empty()) else { return false };
            queue.push_back(bytes);
            true
        })?;
        self.wait(deadline, |messages| messages.entry(key).or_default().is_empty())
    }

    fn receive(
        &self,
        peer: usize,
        tag: u32,
        bytes: &mut [u8],
        deadline: Instant,
    ) -> Result<(), String> {
        let key = (peer, self.rank, tag);
        let mut message = Vec::new();
        self.wait(deadline, |messages| {
            let Some(bytes) = messages.entry(key).or_default().pop_front() else { return false };
            message = bytes;
            true
        })?;
        if message.len() != bytes.len() {
            return Err(format!("{} bytes came for {}", message.len(), bytes.len()));
        }
        bytes.copy_from_slice(&message);
        Ok(())
    }

    fn abort(&self) {
        *self.wire.is_cut.lock().expect("not poisoned") = true;
        self.wire.change.notify_all();
    }
}

/// Puts rank `r` on machine `machines[r]`.
fn spread(
    machines: &[usize],
    reads_peers: bool,
) -> impl Fn(GroupOptions) -> GroupOptions + Sync + use<> {
    let machines = machines.to_vec();
    let wire = Arc::new(Wire::default());
    move |options| GroupOptions {
        machine: machines[options.rank].to_string(),
        remote: Some(Box::new(WireEnd { wire: Arc::clone(&wire), rank: options.rank })),
        reads_peers,
        ..options
    }
}

fn check(machines: &[usize], reads_peers: bool) {
    on_ranks(machines.len(), spread(machines, reads_peers), checks::check_part);
}

#[test]
fn two_machines_get_the_oracles_bits() {
    check(&[0, 0, 1, 1], true);
}

#[test]
fn machines_of_different_size_get_the_oracles_bits() {
    check(&[0, 1, 1], true);
}

#[test]
fn ranks_that_alternate_between_machines_get_the_oracles_bits() {
    check(&[0, 1, 0, 2, 1], true);
}

#[test]
fn machines_without_reads_of_peers_get_the_oracles_bits() {
    check(&[0, 0, 1, 1], false);
}

#[test]
fn a_send_begins_while_a_collective_waits_for_another_machine() {
    for machines in [&[0, 1][..], &[0, 0, 1], &[0, 1, 0]] {
        on_ranks(machines.len(), spread(machines, true), begins_while_a_collective_waits);
    }
}

#[test]
fn a_mismatch_between_machines_is_reported_by_every_rank() {
    let errors = on_ranks(4, spread(&[0, 0, 1, 1], true), |group| {
        let bytes = if group.rank() < 2 { 64 } else { 32 };
        let mut inputs = [vec![0; bytes]];
        let mut outputs = [vec![0; bytes]];
        run(group, call(Collective::AllReduce, DataFormat::IeeeFp32, &mut inputs, &mut outputs))
    });
    for error in errors {
        let text = error.expect_err("sizes").to_string();
        assert!(text.contains("(64 bytes)") && text.contains("(32 bytes)"), "{text}");
    }
}

#[test]
fn an_abort_is_felt_on_other_machines() {
    let errors = on_ranks(2, spread(&[0, 1], true), |group| {
        let call = CollectiveCall::new(Collective::Barrier, DataFormat::IeeeFp32);
        run(group, call.clone()).expect("both come");
        if group.rank() == 0 {
            group.abort("enough");
            return String::new();
        }
        run(group, call).expect_err("rank 0 has left").to_string()
    });
    assert!(errors[1].contains("rank 0"), "{}", errors[1]);
}
