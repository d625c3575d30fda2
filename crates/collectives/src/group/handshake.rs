//! Ranks that meet: which of them share a machine, and their segments.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;
use std::{fs, process};

use serde_json::{Value, json};

use crate::processes::{PeerProcess, allow_readers, namespace_of_pids, read_memory, start_of};
use crate::shared_memory::{MAX_LOCAL_RANKS, RankSegment};
use crate::{Error, GroupOptions};

/// Version of the words in shared memory and of the messages in the store.
const PROTOCOL: u64 = 1;

/// Rank of this machine.
pub(super) struct LocalRank {
    /// Number in the group.
    pub(super) rank: usize,
    pub(super) segment: Arc<RankSegment>,
    pub(super) process: PeerProcess,
}

/// Ranks that met.
pub(super) struct Meeting {
    /// Ranks of each machine, in order; every rank has the same list.
    pub(super) machines: Vec<Vec<usize>>,
    /// Ranks of this machine, this one among them.
    pub(super) local: Vec<LocalRank>,
    /// True if every rank of this machine can read memory of every other.
    pub(super) reads_peers: bool,
    /// Names of the hosts, by rank.
    pub(super) hosts: Vec<String>,
}

impl Meeting {
    /// Leaves word in the store, waits for that of all ranks, and opens the segments of those that are near.
    pub(super) fn hold(options: &GroupOptions) -> Result<Self, Error> {
        let deadline = Instant::now() + options.timeout;
        let nonce = RandomState::new().hash_one(options.rank);
        let probe = Box::new(AtomicU64::new(nonce));
        allow_readers();
        let own = Arc::new(RankSegment::create(nonce)?);
        let store = GroupStore { options, deadline };
        store.set("hello", &hello(options, &own, &probe))?;
        let mut hellos = Vec::with_capacity(options.size);
        for rank in 0..options.size {
            hellos.push(Hello::read(options, rank, &store.wait("hello", rank)?)?);
        }

        let mut segments: Vec<Option<Arc<RankSegment>>> = Vec::with_capacity(options.size);
        for (rank, peer) in hellos.iter().enumerate() {
            let is_near = peer.place == hellos[options.rank].place;
            let segment = if rank == options.rank {
                Some(Arc::clone(&own))
            } else if is_near {
                RankSegment::open(peer.pid, peer.number, peer.nonce).ok().map(Arc::new)
            } else {
                None
            };
            segments.push(segment);
        }
        let opened: Vec<bool> = segments.iter().map(Option::is_some).collect();
        let readable: Vec<bool> = hellos
            .iter()
            .zip(&opened)
            .map(|(peer, is_open)| *is_open && options.reads_peers && peer.is_readable())
            .collect();
        store.set("near", &json!({ "opened": opened, "readable": readable }))?;
        let mut nears = Vec::with_capacity(options.size);
        for rank in 0..options.size {
            nears.push(store.wait("near", rank)?);
        }
        // Every rank has read what it wanted: the word may go.
        drop(probe);

        let is_true = |key: &str, from: usize, to: usize| nears[from][key][to] == Value::Bool(true);
        let machines =
            machines(options.size, |a, b| is_true("opened", a, b) && is_true("opened", b, a));
        let ranks = machines.iter().find(|ranks| ranks.contains(&options.rank));
        let ranks = ranks.cloned().unwrap_or_default();
        let reads_peers = ranks.iter().all(|&a| ranks.iter().all(|&b| is_true("readable", a, b)));
        let local = ranks.iter().filter_map(|&rank| {
            let segment = segments[rank].take()?;
            let process = PeerProcess::open(hellos[rank].pid, hellos[rank].start);
            Some(LocalRank { rank, segment, process })
        });
        let local = local.collect();
        let hosts = hellos.into_iter().map(|hello| hello.host).collect();
        Ok(Self { machines, local, reads_peers, hosts })
    }
}

/// Puts ranks that opened each other's segments together, in order.
fn machines(size: usize, are_near: impl Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
    let mut machines: Vec<Vec<usize>> = Vec::new();
    for rank in 0..size {
        let fits = |ranks: &&mut Vec<usize>| {
            ranks.len() < MAX_LOCAL_RANKS && ranks.iter().all(|&other| are_near(other, rank))
        };
        if let Some(ranks) = machines.iter_mut().find(fits) {
            ranks.push(rank);
        } else {
            machines.push(vec![rank]);
        }
    }
    machines
}

/// Words that a rank left in the store.
struct Hello {
    /// Boot, namespace of processes, and the name that keeps machines apart.
    place: Value,
    pid: u32,
    start: u64,
    number: i32,
    nonce: u64,
    probe: usize,
    host: String,
}

fn hello(options: &GroupOptions, own: &RankSegment, probe: &AtomicU64) -> Value {
    let read = |path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let pid = process::id();
    json!({
        "protocol": PROTOCOL,
        "size": options.size,
        "place": [read("/proc/sys/kernel/random/boot_id"), namespace_of_pids(), options.machine],
        "pid": pid,
        "start": start_of(pid).unwrap_or(0),
        "number": own.number(),
        "nonce": probe.load(SeqCst),
        "probe": std::ptr::from_ref(probe) as usize,
        "host": read("/proc/sys/kernel/hostname"),
    })
}

impl Hello {
    fn read(options: &GroupOptions, rank: usize, value: &Value) -> Result<Self, Error> {
        let group = options.name.clone();
        let refusal = |reason| Error::Handshake { group: group.clone(), rank, reason };
        let number = |key: &str| value[key].as_u64();
        if number("protocol") != Some(PROTOCOL) {
            let given = &value["protocol"];
            return Err(refusal(format!(
                "its protocol is {given}, ours {PROTOCOL}; install one version"
            )));
        }
        if number("size") != Some(options.size as u64) {
            let given = &value["size"];
            return Err(refusal(format!("its group has {given} ranks, ours {}", options.size)));
        }
        let fields = || {
            Some(Self {
                place: value["place"].clone(),
                pid: u32::try_from(number("pid")?).ok()?,
                start: number("start")?,
                number: i32::try_from(number("number")?).ok()?,
                nonce: number("nonce")?,
                probe: usize::try_from(number("probe")?).ok()?,
                host: value["host"].as_str()?.to_owned(),
            })
        };
        fields().ok_or_else(|| refusal(format!("it wrote {value}")))
    }

    /// Tries if a word in the other process can be read.
    fn is_readable(&self) -> bool {
        let mut word = [0; 8];
        let result = read_memory(self.pid, self.probe, &mut word);
        result.is_ok() && u64::from_ne_bytes(word) == self.nonce
    }
}

/// The group's store, with the names of keys and a deadline.
struct GroupStore<'a> {
    options: &'a GroupOptions,
    deadline: Instant,
}

impl GroupStore<'_> {
    fn set(&self, word: &str, value: &Value) -> Result<(), Error> {
        let key = format!("{word}/{}", self.options.rank);
        let result = self.options.store.set(&key, value.to_string().as_bytes());
        result.map_err(|reason| self.failure(key, reason))
    }

    fn wait(&self, word: &str, rank: usize) -> Result<Value, Error> {
        let key = format!("{word}/{rank}");
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.options.store.wait_get(&key, left) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| self.failure(key, format!("not as expected: {error}"))),
            Err(reason) => Err(self.failure(key, reason)),
        }
    }

    fn failure(&self, key: String, reason: String) -> Error {
        Error::Store { group: self.options.name.clone(), key, reason }
    }
}
