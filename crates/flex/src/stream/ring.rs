//! A queue of many producers and one consumer, in slots of a cache line.
//!
//! A producer reserves any number of slots in one step, writes them in any order, and publishes each
//! by its own state, so that a consumer fetches one line per entry and none besides. A full ring can
//! be closed and followed by one twice as large, up to a bound.
#![allow(unsafe_code, reason = "a slot's state says who owns its value")]

use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::OnceLock;

use spyre_hal::prefetch_to_write;

use crate::sync::{AtomicU64, AtomicUsize, Cell, Mutex, Ordering, often, spin_loop};

/// Sizes of a ring: how large it starts, and how large it may grow. Both are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingSizes {
    pub(crate) first: u64,
    pub(crate) bound: u64,
}

/// Doublings from one slot to the largest bound.
const SEGMENTS: usize = often(24, 4) as usize;

/// Slots between the one that is written and the one that is fetched for it.
const AHEAD: u64 = 4;

/// Set in a segment's tail when no more slots are given out.
const CLOSED: u64 = 1 << 63;

#[derive(Debug)]
pub(crate) struct Ring<T> {
    sizes: RingSizes,
    segments: [OnceLock<Segment<T>>; SEGMENTS],
    /// The segment that gives out slots.
    producing: AtomicUsize,
    growing: Mutex<()>,
}

/// Slots that were reserved together, and not yet published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation {
    segment: usize,
    /// The first slot's place in the segment.
    place: u64,
    /// The first slot's number in the ring: entries are numbered from 1.
    pub(crate) first: u64,
    slots: u64,
}

/// No room, until the consumer takes something or the ring grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Place of the consumer. There is one for each ring.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    segment: usize,
    place: u64,
    /// Place up to which producers know that slots are free.
    reported: u64,
}

#[derive(Debug)]
struct Segment<T> {
    /// The number of the first slot, less one.
    base: u64,
    slots: Box<[Slot<T>]>,
    /// Slots given out so far.
    tail: Line<AtomicU64>,
    /// Value of `freed` that producers last read; beside the tail, which they write anyway.
    known_freed: AtomicU64,
    /// Slots that were taken, reported now and then: a line that bounces is what a push costs.
    freed: Line<AtomicU64>,
    /// Slots that were taken, for the last owner.
    taken: Line<AtomicU64>,
}

/// A slot holds the entry of place p when its state is p + 1.
#[derive(Debug)]
#[repr(align(64))]
struct Slot<T> {
    state: AtomicU64,
    value: Cell<MaybeUninit<T>>,
}

/// Something that has its cache lines to itself.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Line<T>(pub(crate) T);

impl<T> Deref for Line<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

// SAFETY: values are moved from one thread to another, never shared: between `reserve` and
// `publish` a slot belongs to the producer, between `publish` and `pop` to the consumer.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    pub(crate) fn new(sizes: RingSizes) -> Self {
        let ring = Self {
            sizes,
            segments: [const { OnceLock::new() }; SEGMENTS],
            producing: AtomicUsize::new(0),
            growing: Mutex::default(),
        };
        let first = Segment::new(0, sizes.first);
        ring.segments[0].get_or_init(|| first);
        ring
    }

    /// The most entries that can wait at once.
    pub(crate) fn bound(&self) -> u64 {
        self.sizes.bound
    }

    /// Number of entries that were ever reserved: the number of the last.
    pub(crate) fn reserved(&self) -> u64 {
        let segment = self.segment(self.producing.load(Ordering::Acquire));
        segment.base + (segment.tail.0.load(Ordering::Acquire) & !CLOSED)
    }

    /// Takes so many slots in a row, at least one and at most the bound.
    #[inline]
    pub(crate) fn reserve(&self, slots: u64) -> Result<Reservation, Full> {
        debug_assert!((1..=self.sizes.bound).contains(&slots));
        loop {
            let at = self.producing.load(Ordering::Acquire);
            let segment = self.segment(at);
            match segment.reserve(slots) {
                Claim::Taken(place) => {
                    let first = segment.base + place + 1;
                    return Ok(Reservation { segment: at, place, first, slots });
                }
                Claim::Full => return Err(Full),
                Claim::Closed => spin_loop(),
            }
        }
    }

    /// Hands the n-th of the reserved slots to the consumer. Every slot is published once.
    #[inline]
    pub(crate) fn publish(&self, reservation: &Reservation, nth: u64, value: T) {
        debug_assert!(nth < reservation.slots);
        let place = reservation.place + nth;
        let slot = self.segment(reservation.segment).slot(place);
        slot.value.with_mut(|cell| {
            // SAFETY: the reservation made the slot this producer's, and the consumer does not look
            // before the state says so.
            unsafe { (*cell).write(value) };
        });
        slot.state.store(place + 1, Ordering::Release);
        prefetch_to_write(self.segment(reservation.segment).slot(place + AHEAD));
    }

    /// Hands all of the reserved slots to the consumer, made of as many values, and leaves no value behind.
    ///
    /// Values are moved straight to their slots: an iterator's `next` would have the processor wait for its
    /// own small writes before each of them.
    #[inline]
    pub(crate) fn publish_all<V>(
        &self,
        reservation: &Reservation,
        values: &mut Vec<V>,
        entry: impl Fn(V) -> T,
    ) {
        let count = values.len();
        debug_assert_eq!(count as u64, reservation.slots);
        // SAFETY: no value is the vector's any more; if `entry` panics, the rest is leaked.
        unsafe { values.set_len(0) };
        for nth in 0..count {
            // SAFETY: it is one of the values that were there, and each is read once.
            let value = unsafe { values.as_ptr().add(nth).read() };
            self.publish(reservation, nth as u64, entry(value));
        }
    }

    /// Returns true if an entry is there for the consumer.
    #[inline]
    pub(crate) fn is_ready(&self, cursor: &mut Cursor) -> bool {
        let segment = self.segment(cursor.segment);
        if segment.slot(cursor.place).state.load(Ordering::Acquire) == cursor.place + 1 {
            return true;
        }
        self.tell(cursor);
        self.producing.load(Ordering::Acquire) != cursor.segment && self.follow(cursor)
    }

    /// Takes the next entry. Only one thread at a time may have the cursor.
    #[inline]
    pub(crate) fn pop(&self, cursor: &mut Cursor) -> Option<T> {
        if !self.is_ready(cursor) {
            return None;
        }
        let segment = self.segment(cursor.segment);
        let value = segment.slot(cursor.place).value.with_mut(|cell| {
            // SAFETY: the state said that the slot was written, and the cursor is exclusive.
            unsafe { (*cell).assume_init_read() }
        });
        cursor.place += 1;
        segment.taken.0.store(cursor.place, Ordering::Relaxed);
        if cursor.place - cursor.reported >= segment.report_after() {
            self.tell(cursor);
        }
        Some(value)
    }

    /// Looks at the next entry and leaves it there.
    #[inline]
    pub(crate) fn peek<R>(&self, cursor: &mut Cursor, look: impl FnOnce(&T) -> R) -> Option<R> {
        if !self.is_ready(cursor) {
            return None;
        }
        let slot = self.segment(cursor.segment).slot(cursor.place);
        // SAFETY: as for `pop`; the value stays where it is.
        Some(slot.value.with_mut(|cell| look(unsafe { (*cell).assume_init_ref() })))
    }

    /// Lets producers know which slots are free. The consumer calls it when it has to stop.
    #[inline]
    pub(crate) fn tell(&self, cursor: &mut Cursor) {
        if cursor.reported != cursor.place {
            cursor.reported = cursor.place;
            self.segment(cursor.segment).freed.0.store(cursor.place, Ordering::Release);
        }
    }

    /// Moves to the next segment if this one is closed and empty.
    #[cold]
    fn follow(&self, cursor: &mut Cursor) -> bool {
        let tail = self.segment(cursor.segment).tail.0.load(Ordering::Acquire);
        if tail != cursor.place | CLOSED || self.segments[cursor.segment + 1].get().is_none() {
            return false;
        }
        *cursor = Cursor { segment: cursor.segment + 1, ..Cursor::default() };
        self.is_ready(cursor)
    }

    /// Number of entries that were taken, as far as it was reported to producers.
    pub(crate) fn freed(&self) -> u64 {
        let segment = self.segment(self.producing.load(Ordering::Acquire));
        segment.base + segment.freed.0.load(Ordering::Acquire)
    }

    /// Closes the segment if so many slots do not fit, and opens a larger one; `Full` at the bound.
    #[cold]
    pub(crate) fn grow(&self, slots: u64) -> Result<(), Full> {
        let _growing = self.growing.lock();
        let at = self.producing.load(Ordering::Acquire);
        let segment = self.segment(at);
        let length = segment.slots.len() as u64;
        let tail = segment.tail.0.load(Ordering::Acquire);
        if segment.has_room(tail + slots) {
            return Ok(());
        }
        if length >= self.sizes.bound {
            return Err(Full);
        }
        let tail = segment.tail.0.fetch_or(CLOSED, Ordering::AcqRel);
        let larger = (length * 2).max(slots.next_power_of_two()).min(self.sizes.bound);
        let next = Segment::new(segment.base + tail, larger);
        self.segments[at + 1].get_or_init(|| next);
        self.producing.store(at + 1, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn segment(&self, at: usize) -> &Segment<T> {
        self.segments[at].get().expect("a segment is made before it is named")
    }
}

enum Claim {
    Taken(u64),
    Full,
    Closed,
}

impl<T> Segment<T> {
    fn new(base: u64, slots: u64) -> Self {
        let slot = |_| Slot { state: AtomicU64::new(0), value: Cell::new(MaybeUninit::uninit()) };
        Self {
            base,
            slots: (0..slots).map(slot).collect(),
            tail: Line::default(),
            known_freed: AtomicU64::new(0),
            freed: Line::default(),
            taken: Line::default(),
        }
    }

    fn report_after(&self) -> u64 {
        (self.slots.len() as u64 / 4).clamp(1, 32)
    }

    /// Returns true if slots up to a place are free.
    #[inline]
    fn has_room(&self, end: u64) -> bool {
        let length = self.slots.len() as u64;
        if end <= self.known_freed.load(Ordering::Acquire) + length {
            return true;
        }
        let freed = self.freed.0.load(Ordering::Acquire);
        self.known_freed.store(freed, Ordering::Release);
        end <= freed + length
    }

    #[inline]
    fn slot(&self, place: u64) -> &Slot<T> {
        &self.slots[place as usize & (self.slots.len() - 1)]
    }

    #[inline]
    fn reserve(&self, slots: u64) -> Claim {
        let mut place = self.tail.0.load(Ordering::Relaxed);
        loop {
            if place & CLOSED != 0 {
                return Claim::Closed;
            }
            let next = place + slots;
            if !self.has_room(next) {
                match self.tail.0.load(Ordering::Relaxed) {
                    same if same == place => return Claim::Full,
                    moved => place = moved,
                }
                continue;
            }
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            match self.tail.0.compare_exchange_weak(place, next, order.0, order.1) {
                Ok(_) => return Claim::Taken(place),
                Err(moved) => place = moved,
            }
        }
    }
}

/// Entries that were not taken are dropped.
impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        for segment in self.segments.iter().filter_map(OnceLock::get) {
            let tail = segment.tail.0.load(Ordering::Acquire) & !CLOSED;
            for place in segment.taken.0.load(Ordering::Acquire)..tail {
                let slot = segment.slot(place);
                if slot.state.load(Ordering::Acquire) == place + 1 {
                    // SAFETY: it was published and not taken, and no other thread has the ring.
                    slot.value.with_mut(|cell| unsafe { (*cell).assume_init_drop() });
                }
            }
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use std::sync::Arc;

    use crate::stream::ring::{Cursor, Full, Reservation, Ring, RingSizes};

    const SMALL: RingSizes = RingSizes { first: 2, bound: 8 };

    fn reserve<T>(ring: &Ring<T>, slots: u64) -> Result<Reservation, Full> {
        ring.reserve(slots).or_else(|Full| ring.grow(slots).and_then(|()| ring.reserve(slots)))
    }

    fn push<T>(ring: &Ring<T>, value: T) -> Result<u64, Full> {
        let reservation = reserve(ring, 1)?;
        ring.publish(&reservation, 0, value);
        Ok(reservation.first)
    }

    #[test]
    fn entries_come_out_in_order_and_are_numbered_from_one() {
        let ring = Ring::new(SMALL);
        let mut cursor = Cursor::default();
        for round in 0..100 {
            assert_eq!(push(&ring, round), Ok(round + 1));
            assert_eq!(ring.pop(&mut cursor), Some(round));
        }
        assert_eq!(ring.pop(&mut cursor), None);
        assert_eq!(ring.reserved(), 100);
    }

    #[test]
    fn a_ring_grows_to_its_bound_and_then_says_so() {
        let ring = Ring::new(SMALL);
        let mut cursor = Cursor::default();
        let taken = (1..).map_while(|value: u64| push(&ring, value).ok()).count();
        assert_eq!(taken, 2 + 4 + 8);
        assert_eq!(push(&ring, 0), Err(Full));
        let all: Vec<u64> = std::iter::from_fn(|| ring.pop(&mut cursor)).collect();
        assert_eq!(all, (1..=14).collect::<Vec<_>>());
        assert_eq!(push(&ring, 15), Ok(15));
        assert_eq!(ring.pop(&mut cursor), Some(15));
    }

    #[test]
    fn a_reservation_may_be_larger_than_the_ring_is_yet() {
        let ring = Ring::new(SMALL);
        let mut cursor = Cursor::default();
        push(&ring, 0).expect("room");
        let reservation = reserve(&ring, 7).expect("room");
        assert_eq!(reservation.first, 2);
        for nth in (0..7).rev() {
            ring.publish(&reservation, nth, nth + 1);
        }
        let all: Vec<u64> = std::iter::from_fn(|| ring.pop(&mut cursor)).collect();
        assert_eq!(all, (0..=7).collect::<Vec<_>>());
    }

    #[test]
    fn entries_that_were_not_taken_are_dropped_once() {
        let value = Arc::new(());
        let ring = Ring::new(SMALL);
        let mut cursor = Cursor::default();
        for _ in 0..14 {
            push(&ring, Arc::clone(&value)).expect("room");
        }
        drop(ring.pop(&mut cursor));
        assert_eq!(Arc::strong_count(&value), 14);
        drop(ring);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn producers_lose_nothing_and_keep_their_own_order() {
        const EACH: u64 = 50_000;
        let ring = Ring::new(RingSizes { first: 4, bound: 64 });
        let seen = std::thread::scope(|scope| {
            for producer in 0..2 {
                let ring = &ring;
                scope.spawn(move || {
                    let mut next = 0;
                    while next < EACH {
                        let slots = (1 + next % 3).min(EACH - next);
                        let Ok(reservation) = reserve(ring, slots) else {
                            std::thread::yield_now();
                            continue;
                        };
                        (0..slots)
                            .for_each(|n| ring.publish(&reservation, n, (producer, next + n)));
                        next += slots;
                    }
                });
            }
            let mut cursor = Cursor::default();
            let mut next = [0; 2];
            while next != [EACH; 2] {
                match ring.pop(&mut cursor) {
                    Some((producer, value)) => {
                        assert_eq!(value, next[producer]);
                        next[producer] += 1;
                    }
                    None => std::thread::yield_now(),
                }
            }
            next
        });
        assert_eq!(seen.iter().sum::<u64>(), ring.reserved());
    }
}
