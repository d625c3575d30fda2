use std::fmt;
use std::time::Duration;

use crate::{Error, KeyValueStore, Remote};

/// Ranks of a group, how they meet, and how long calls may take.
pub struct GroupOptions {
    /// Name for messages; PyTorch's group id.
    pub name: String,
    /// This rank's number in the group.
    pub rank: usize,
    /// Number of ranks.
    pub size: usize,
    /// Ranks of the whole job, by rank of the group, for messages; may be empty.
    pub global_ranks: Vec<usize>,
    /// Time that a call has from its start to its end, and that ranks have to meet.
    pub timeout: Duration,
    /// Store at which ranks meet.
    pub store: Box<dyn KeyValueStore>,
    /// Way to ranks on other machines; without it, all ranks must be on one.
    pub remote: Option<Box<dyn Remote>>,
    /// Name that keeps ranks of one machine apart: only those with equal names meet in memory. Empty as a rule.
    pub machine: String,
    /// Permission to read memory of peers in place; without it, all bytes go through shared slots.
    pub reads_peers: bool,
    /// Time that each collective takes longer once all ranks are there, as over a slower link. At most a second.
    pub latency: Duration,
}

impl GroupOptions {
    /// Options with PyTorch's timeout of half an hour, of ranks of one machine.
    pub fn new(name: &str, rank: usize, size: usize, store: Box<dyn KeyValueStore>) -> Self {
        Self {
            name: name.to_owned(),
            rank,
            size,
            global_ranks: Vec::new(),
            timeout: Duration::from_secs(1800),
            store,
            remote: None,
            machine: String::new(),
            reads_peers: true,
            latency: Duration::ZERO,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        use crate::shared_memory::MAX_RANKS;
        let Self { rank, size, .. } = *self;
        let global = self.global_ranks.len();
        let reason = if size == 0 || rank >= size {
            format!("rank {rank} is not in a group of {size} ranks")
        } else if size > MAX_RANKS {
            format!("{size} ranks are more than {MAX_RANKS}; use several groups")
        } else if global != 0 && global != size {
            format!("{global} global ranks are given for {size} ranks")
        } else if self.latency > Duration::from_secs(1) {
            format!("a latency of {:?} is longer than a second", self.latency)
        } else {
            return Ok(());
        };
        Err(Error::Options { group: self.name.clone(), reason })
    }
}

impl fmt::Debug for GroupOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupOptions({}, rank {} of {})", self.name, self.rank, self.size)
    }
}
