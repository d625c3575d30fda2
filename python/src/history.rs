//! History of allocations and frees, for programs that record it.
//!
//! While no program does, it costs an allocation one load.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use spyre::flex::BlockInfo;

use crate::cards::{self, Card};
use crate::traceback::Traceback;

/// Settings of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Kinds of events that are kept. Empty: only the holders of memory that is in use.
    pub(crate) actions: Vec<Action>,
    /// Events that get a traceback.
    pub(crate) traced: Traced,
    /// True if tracebacks have frames of C++.
    pub(crate) with_cpp: bool,
    /// Number of events that are kept for each device.
    pub(crate) most_events: usize,
}

/// Events that get a traceback: each variant includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Traced {
    Nothing,
    MemoryInUse,
    Allocations,
    Frees,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Allocate,
    FreeRequested,
    FreeCompleted,
    Snapshot,
    OutOfMemory,
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) action: Action,
    /// Place of the memory; of `OutOfMemory`, the number of free bytes.
    pub(crate) place: u64,
    pub(crate) bytes: u64,
    pub(crate) stream: u16,
    pub(crate) microseconds: u64,
    pub(crate) traceback: Option<Arc<Traceback>>,
}

/// Memory that was allocated while the history was recorded, or in a pool.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) address: u64,
    pub(crate) host_bytes: u64,
    pub(crate) pool: u64,
    pub(crate) traceback: Option<Arc<Traceback>>,
}

#[derive(Debug, Default)]
struct History {
    settings: Option<Settings>,
    events: [VecDeque<Event>; cards::MOST],
    /// Memory in use, by device and place.
    held: BTreeMap<(u16, u64), Held>,
    /// Place of memory in use, by address.
    places: BTreeMap<u64, u64>,
}

/// True if allocations are noted.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);
static HISTORY: Mutex<History> = Mutex::new(History {
    settings: None,
    events: [const { VecDeque::new() }; cards::MOST],
    held: BTreeMap::new(),
    places: BTreeMap::new(),
});

/// Bits of an offset inside a region, as the card's own addresses have them.
const REGION_SHIFT: u32 = 34;
/// Bits of an address inside a card. Cards are counted from 1, so that no place is 0.
const CARD_SHIFT: u32 = 40;

/// Place of a block as one number: card, region, offset.
pub(crate) fn place_of(device: u16, block: &BlockInfo) -> u64 {
    (u64::from(device) + 1) << CARD_SHIFT
        | u64::from(block.region) << REGION_SHIFT
        | block.offset_bytes
}

/// Returns true if two places are in one region of one card.
pub(crate) fn is_same_region(place: u64, other: u64) -> bool {
    place >> REGION_SHIFT == other >> REGION_SHIFT
}

/// Starts or stops noting; what was noted is forgotten if so asked, or when it stops.
pub(crate) fn record(settings: Option<Settings>, forgets: bool) {
    let mut history = HISTORY.lock();
    IS_WATCHED.store(settings.is_some() || pools::are_used(), Ordering::Relaxed);
    let forgotten = (forgets || settings.is_none()).then(|| history.forget());
    history.settings = settings;
    drop(history);
    drop(forgotten);
}

/// Events of a device, and the holders of its memory.
pub(crate) fn noted(device: u16) -> (Vec<Event>, BTreeMap<u64, Held>) {
    let mut history = HISTORY.lock();
    history.push(device, Event::new(Action::Snapshot, 0, 0, 0, None));
    let events = history.events[usize::from(device)].iter().cloned().collect();
    let held = history.held.range((device, 0)..(device + 1, 0));
    (events, held.map(|(&(_, place), held)| (place, held.clone())).collect())
}

#[inline]
pub(crate) fn note_allocation(card: &Card, address: u64, bytes: u64, host_bytes: u64) {
    if IS_WATCHED.load(Ordering::Relaxed) {
        allocated(card, address, bytes, host_bytes);
    }
}

#[inline]
pub(crate) fn note_free(card: &Card, address: u64) {
    if IS_WATCHED.load(Ordering::Relaxed) {
        freed(card, address);
    }
}

#[cold]
pub(crate) fn note_out_of_memory(card: &Card, bytes: u64, free_bytes: u64) {
    let device = card.index().0;
    let traceback = gather(Traced::Allocations);
    let stream = cards::current_stream(i32::from(device));
    let event = Event::new(Action::OutOfMemory, free_bytes, bytes, stream, traceback);
    HISTORY.lock().push(device, event);
}

#[cold]
fn allocated(card: &Card, address: u64, bytes: u64, host_bytes: u64) {
    let device = card.index().0;
    let Some((memory, _)) = card.memory.find(address) else { return };
    let Ok(block) = card.device.allocator().block(memory.range().handle) else { return };
    let place = place_of(device, &block);
    let pool = pools::current(device);
    let stream = cards::current_stream(i32::from(device));
    // The interpreter's lock is taken for it: before ours.
    let traceback = gather(Traced::MemoryInUse);
    let mut history = HISTORY.lock();
    let traced = history.traced();
    let in_events = traceback.clone().filter(|_| traced >= Traced::Allocations);
    history.push(device, Event::new(Action::Allocate, place, bytes, stream, in_events));
    history.held.insert((device, place), Held { address, host_bytes, pool, traceback });
    history.places.insert(address, place);
}

#[cold]
fn freed(card: &Card, address: u64) {
    let device = card.index().0;
    let Some((memory, _)) = card.memory.find(address) else { return };
    let bytes = memory.device_bytes();
    let stream = cards::current_stream(i32::from(device));
    let traceback = gather(Traced::Frees);
    let mut history = HISTORY.lock();
    let Some(place) = history.places.remove(&address) else { return };
    let held = history.held.remove(&(device, place));
    for action in [Action::FreeRequested, Action::FreeCompleted] {
        history.push(device, Event::new(action, place, bytes, stream, traceback.clone()));
    }
    drop(history);
    drop(held);
}

/// The calling thread's traceback, if that is wanted for things of this kind.
fn gather(kind: Traced) -> Option<Arc<Traceback>> {
    let history = HISTORY.lock();
    let settings = history.settings.as_ref()?;
    let with_cpp = settings.with_cpp;
    let is_wanted = settings.traced >= kind;
    drop(history);
    // Memory is freed anywhere, also by who has locks that the interpreter's lock waits for.
    let may_wait = kind < Traced::Frees;
    is_wanted.then(|| Traceback::gather(with_cpp, may_wait)).flatten()
}

impl History {
    fn traced(&self) -> Traced {
        self.settings.as_ref().map_or(Traced::Nothing, |settings| settings.traced)
    }

    fn push(&mut self, device: u16, event: Event) {
        let Some(settings) = &self.settings else { return };
        let most = settings.most_events;
        if !settings.actions.contains(&event.action) || most == 0 {
            return;
        }
        let events = &mut self.events[usize::from(device)];
        while events.len() >= most {
            events.pop_front();
        }
        events.push_back(event);
    }

    /// Forgets all but what pools hold; tracebacks are dropped by the caller, without the lock.
    fn forget(&mut self) -> impl Sized + use<> {
        let held = std::mem::take(&mut self.held);
        let places = std::mem::take(&mut self.places);
        for (key, held) in &held {
            if held.pool != 0 {
                self.held.insert(*key, Held { traceback: None, ..held.clone() });
                self.places.insert(held.address, key.1);
            }
        }
        (std::mem::take(&mut self.events), held, places)
    }
}

impl Event {
    fn new(
        action: Action,
        place: u64,
        bytes: u64,
        stream: u16,
        traceback: Option<Arc<Traceback>>,
    ) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { action, place, bytes, stream, microseconds: now.as_micros() as u64, traceback }
    }
}

/// Names for memory: each thread has a current one for each device.
pub(crate) mod pools {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::cards;

    thread_local! {
        static CURRENT: Cell<[u64; cards::MOST]> = const { Cell::new([0; cards::MOST]) };
    }
    static ARE_USED: AtomicBool = AtomicBool::new(false);

    pub(crate) fn are_used() -> bool {
        ARE_USED.load(Ordering::Relaxed)
    }

    pub(crate) fn current(device: u16) -> u64 {
        CURRENT.get().get(usize::from(device)).copied().unwrap_or(0)
    }

    /// Makes a pool the calling thread's on a device, 0 for none, and says which was. From the first
    /// on, allocations are noted.
    pub(crate) fn exchange(device: u16, pool: u64) -> u64 {
        if pool != 0 {
            ARE_USED.store(true, Ordering::Relaxed);
            super::IS_WATCHED.store(true, Ordering::Relaxed);
        }
        let mut pools = CURRENT.get();
        let Some(place) = pools.get_mut(usize::from(device)) else { return 0 };
        let before = std::mem::replace(place, pool);
        CURRENT.set(pools);
        before
    }
}
