//! The cards of this process: opened when they are first used, and never closed.

use std::cell::Cell;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

use spyre::OpenSettings;
use spyre::numerics::Profile;
use spyre::runtime::{
    AddressSpace, Device, DeviceIndex, Priority, Process, SpyreStream, StreamId, TensorMemory,
};

use crate::failure::{Failure, SpyreStatus};
use crate::statistics::MemoryStatistics;
use crate::{abi, interrupts, recording, variables};

/// The most cards of a process.
pub(crate) const MOST: usize = 8;
/// Streams of a card: the default, and 32 of each priority.
const STREAMS: usize = 65;

/// An opened card, and what the framework keeps on it.
pub(crate) struct Card {
    pub(crate) device: Device,
    pub(crate) memory: AddressSpace<TensorMemory>,
    pub(crate) statistics: MemoryStatistics,
    streams: [OnceLock<SpyreStream>; STREAMS],
}

/// Process and settings at the time when the first card was opened.
struct Started {
    process: Process,
    settings: OpenSettings,
}

static STARTED: OnceLock<Started> = OnceLock::new();
static CARDS: [OnceLock<Box<Card>>; MOST] = [const { OnceLock::new() }; MOST];
/// Device of threads that chose none.
static DEFAULT_DEVICE: AtomicI32 = AtomicI32::new(-1);

thread_local! {
    static CURRENT_DEVICE: Cell<i32> = const { Cell::new(-1) };
    static CURRENT_STREAMS: Cell<[u8; MOST]> = const { Cell::new([0; MOST]) };
}

/// Refuses a forked child of a process that had opened a card.
#[inline]
pub(crate) fn check_process() -> Result<(), Failure> {
    if is_forked() {
        Err(Failure::runtime(
            "Cannot re-initialize spyre in forked subprocess. To use spyre with multiprocessing, \
             you must use the 'spawn' start method",
        ))
    } else {
        Ok(())
    }
}

/// Returns true in a forked child of a process that had opened a card.
#[inline]
pub(crate) fn is_forked() -> bool {
    STARTED.get().is_some_and(|started| !started.process.is_current())
}

/// Returns true if this process has opened a card.
pub(crate) fn is_started() -> bool {
    STARTED.get().is_some_and(|started| started.process.is_current())
}

/// Number of cards; 0 if the environment's settings are invalid.
pub(crate) fn count() -> usize {
    settings().map_or(0, |settings| settings.devices.visible.len().min(MOST))
}

/// Settings that the cards are, or will be, opened with.
pub(crate) fn settings() -> Result<OpenSettings, Failure> {
    match STARTED.get() {
        Some(started) => Ok(started.settings.clone()),
        None => Ok(OpenSettings::from_environment()?),
    }
}

/// Profile of the cards: the number formats that they keep.
pub(crate) fn profile() -> Result<Profile, Failure> {
    match STARTED.get() {
        Some(started) => Ok(started.settings.profile),
        None => Ok(OpenSettings::from_environment()?.profile),
    }
}

/// The card of this number, opened now if it was not; -1 is the current one.
#[inline]
pub(crate) fn card(index: i32) -> Result<&'static Card, Failure> {
    check_process()?;
    let index = if index < 0 { current_device() } else { index };
    match CARDS.get(index as usize).and_then(OnceLock::get) {
        Some(card) => Ok(card),
        None => open(index),
    }
}

/// The card that an address belongs to, if it was opened.
#[inline]
pub(crate) fn card_of(address: u64) -> Option<&'static Card> {
    let index = AddressSpace::<TensorMemory>::device_of(address)?;
    CARDS.get(usize::from(index.0))?.get().map(|card| &**card)
}

/// The memory that an address lies in, and how far from its start.
#[inline]
pub(crate) fn memory_at(address: u64) -> Result<(Arc<TensorMemory>, u64), Failure> {
    check_process()?;
    let found = card_of(address).and_then(|card| card.memory.find(address));
    found.ok_or_else(|| match address {
        0 => Failure::runtime("the tensor's storage has no memory: it was freed, or resized to 0"),
        _ => Failure::runtime(format!("{address:#x} is not the address of a live spyre storage")),
    })
}

#[cold]
fn open(index: i32) -> Result<&'static Card, Failure> {
    let settings = settings()?;
    variables::check()?;
    check_index(index, settings.devices.visible.len().min(MOST))?;
    let started = || Started { process: Process::current(), settings: settings.clone() };
    let started = STARTED.get_or_init(started);
    check_process()?;
    abi::register_kinds();
    let opened = Box::new(Card::of(started.settings.open(index as u16)?));
    let card = CARDS[index as usize].get_or_init(|| opened);
    interrupts::watch();
    recording::include(card);
    Ok(card)
}

fn check_index(index: i32, count: usize) -> Result<(), Failure> {
    if usize::try_from(index).is_ok_and(|index| index < count) {
        Ok(())
    } else {
        Err(Failure::runtime(format!("Device index {index} out of range [0, {count})")))
    }
}

/// The calling thread's device.
#[inline]
pub(crate) fn current_device() -> i32 {
    match CURRENT_DEVICE.get() {
        -1 => default_device(),
        index => index,
    }
}

/// Returns true if the calling thread has chosen a device.
pub(crate) fn has_chosen_device() -> bool {
    CURRENT_DEVICE.get() >= 0
}

/// The cards that were opened.
pub(crate) fn opened() -> impl Iterator<Item = &'static Card> {
    CARDS.iter().filter_map(|card| card.get().map(|card| &**card))
}

#[cold]
fn default_device() -> i32 {
    let known = DEFAULT_DEVICE.load(Ordering::Relaxed);
    if known >= 0 {
        return known;
    }
    // One that means nothing is refused when a card is opened.
    let rank = variables::local_rank().unwrap_or_default();
    let rank = rank
        .map(|rank| if variables::has_launcher() { rank % count().max(1) as i32 } else { rank });
    let index = rank.filter(|&rank| check_index(rank, count()).is_ok()).unwrap_or(0);
    DEFAULT_DEVICE.store(index, Ordering::Relaxed);
    index
}

/// Makes a device the calling thread's.
pub(crate) fn set_current_device(index: i32) -> Result<(), Failure> {
    if CARDS.get(index as usize).is_none_or(|card| card.get().is_none()) {
        check_index(index, count())?;
    }
    CURRENT_DEVICE.set(index);
    Ok(())
}

/// Makes a device the calling thread's again: it was before, so that its index is not checked.
pub(crate) fn set_current_device_unchecked(index: i32) {
    CURRENT_DEVICE.set(index);
}

/// The number of the calling thread's stream on a device.
#[inline]
pub(crate) fn current_stream(device: i32) -> u16 {
    CURRENT_STREAMS.get().get(device as usize).map_or(0, |&id| u16::from(id))
}

/// Makes a stream the calling thread's on a device, and says which was.
pub(crate) fn exchange_stream(device: i32, stream: i64) -> Result<u16, Failure> {
    check_index(device, count())?;
    let id = stream_id(stream)?;
    let mut streams = CURRENT_STREAMS.get();
    let before = std::mem::replace(&mut streams[device as usize], id.0 as u8);
    CURRENT_STREAMS.set(streams);
    Ok(u16::from(before))
}

fn stream_id(stream: i64) -> Result<StreamId, Failure> {
    match u16::try_from(stream) {
        Ok(id) if usize::from(id) < STREAMS => Ok(StreamId(id)),
        _ => Err(Failure::new(
            SpyreStatus::Value,
            format!("stream {stream} is not one of a spyre device, which has 0 to {}", STREAMS - 1),
        )),
    }
}

impl Card {
    fn of(device: Device) -> Self {
        Self {
            memory: AddressSpace::new(device.index()),
            statistics: MemoryStatistics::default(),
            streams: [const { OnceLock::new() }; STREAMS],
            device,
        }
    }

    /// Its number.
    pub(crate) fn index(&self) -> DeviceIndex {
        self.device.index()
    }

    /// The calling thread's stream.
    #[inline]
    pub(crate) fn current_stream(&self) -> Result<&SpyreStream, Failure> {
        self.stream(i64::from(current_stream(i32::from(self.index().0))))
    }

    /// The stream of this number.
    #[inline]
    pub(crate) fn stream(&self, stream: i64) -> Result<&SpyreStream, Failure> {
        let id = stream_id(stream)?;
        let place = &self.streams[usize::from(id.0)];
        if let Some(stream) = place.get() {
            return Ok(stream);
        }
        let opened = self.device.stream_of(id)?;
        Ok(place.get_or_init(|| opened))
    }

    /// Returns true if a stream has work, or failed. A forked child has no streams.
    pub(crate) fn is_busy(&self) -> bool {
        let streams = self.streams.iter().filter_map(OnceLock::get);
        !is_forked() && streams.into_iter().any(|stream| stream.query() != Ok(true))
    }

    /// The next of the pool.
    pub(crate) fn new_stream(&self, priority: Priority) -> Result<u16, Failure> {
        Ok(self.device.stream(priority)?.id().0)
    }
}
