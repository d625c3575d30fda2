use std::array;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::DeviceIndex;

/// Bits 48 to 63 of every address: no pointer of a process on Linux looks like it.
const TAG: u64 = 0x00D5;
const TAG_SHIFT: u32 = 48;
const DEVICE_SHIFT: u32 = 44;
/// Each size class has 2^39 bytes of addresses.
const CLASS_SHIFT: u32 = 39;
const CLASSES: usize = 1 << (DEVICE_SHIFT - CLASS_SHIFT);
/// The smallest class holds 2^7 bytes, a stick.
const SMALLEST_BITS: u32 = 7;
/// Segment `n` of a class has 2^(6 + n) slots.
const FIRST_SEGMENT_BITS: u32 = 6;
const SEGMENTS: usize = (CLASS_SHIFT - SMALLEST_BITS - FIRST_SEGMENT_BITS) as usize + 1;

/// Opaque addresses of a device, and what lies at them.
///
/// A framework wants addresses that it can add to and compare, and a card has none that it may show.
/// These are never mapped: host code that follows one faults at once. Storages of the same size,
/// to a power of two, share a class, so that the class and the place in it can be read off any
/// address, also one inside a storage, without a search and without a lock that is shared.
///
/// ```
/// use std::sync::Arc;
/// use spyre_runtime::{AddressSpace, DeviceIndex};
///
/// let space = AddressSpace::new(DeviceIndex(3));
/// let address = space.insert(1000, Arc::new("a tensor")).expect("room");
/// assert_eq!(AddressSpace::<&str>::device_of(address), Some(DeviceIndex(3)));
/// assert_eq!(space.find(address + 999), Some((Arc::new("a tensor"), 999)));
/// assert_eq!(space.values(), [Arc::new("a tensor")]);
/// assert_eq!(space.remove(address), Some(Arc::new("a tensor")));
/// assert_eq!(space.find(address), None);
/// ```
#[derive(Debug)]
pub struct AddressSpace<T> {
    device: DeviceIndex,
    classes: [Class<T>; CLASSES],
}

#[derive(Debug)]
struct Class<T> {
    segments: [OnceLock<Box<[Slot<T>]>>; SEGMENTS],
    free: Mutex<Free>,
}

type Slot<T> = Mutex<Option<Arc<T>>>;

#[derive(Debug, Default)]
struct Free {
    slots: Vec<u32>,
    /// Slots from here on were never used.
    unused: u64,
}

impl<T> AddressSpace<T> {
    /// An empty address space.
    pub fn new(device: DeviceIndex) -> Self {
        Self { device, classes: array::from_fn(|_| Class::default()) }
    }

    /// Device that an address belongs to; `None` if the address is of no address space.
    #[inline]
    pub fn device_of(address: u64) -> Option<DeviceIndex> {
        let device = DeviceIndex((address >> DEVICE_SHIFT & 0xF) as u16);
        (address >> TAG_SHIFT == TAG).then_some(device)
    }

    /// Gives something so many bytes of addresses; `None` if there are no more.
    #[inline]
    pub fn insert(&self, bytes: u64, value: Arc<T>) -> Option<u64> {
        let bits = bytes.max(1 << SMALLEST_BITS).checked_next_power_of_two()?.trailing_zeros();
        let number = (bits - SMALLEST_BITS) as usize;
        let class = self.classes.get(number)?;
        let index = class.take(1 << (CLASS_SHIFT - bits))?;
        *class.slot(index)?.lock() = Some(value);
        let offset = (number as u64) << CLASS_SHIFT | u64::from(index) << bits;
        Some(TAG << TAG_SHIFT | u64::from(self.device.0) << DEVICE_SHIFT | offset)
    }

    /// Value that an address lies in, and the distance from the value's first address.
    #[inline]
    pub fn find(&self, address: u64) -> Option<(Arc<T>, u64)> {
        let (class, index, offset) = self.place(address)?;
        let value = class.known_slot(index)?.lock().clone()?;
        Some((value, offset))
    }

    /// Puts something else at an address that is in use, and returns what was there.
    pub fn replace(&self, address: u64, value: Arc<T>) -> Option<Arc<T>> {
        let (class, index, _) = self.place(address)?;
        let mut slot = class.known_slot(index)?.lock();
        slot.is_some().then(|| slot.replace(value)).flatten()
    }

    /// Takes back the addresses that start at this one.
    #[inline]
    pub fn remove(&self, address: u64) -> Option<Arc<T>> {
        let (class, index, offset) = self.place(address)?;
        if offset != 0 {
            return None;
        }
        let value = class.known_slot(index)?.lock().take()?;
        class.free.lock().slots.push(index);
        Some(value)
    }

    /// Everything that has addresses now.
    pub fn values(&self) -> Vec<Arc<T>> {
        let segments = self.classes.iter().flat_map(|class| &class.segments);
        let slots = segments.filter_map(OnceLock::get).flat_map(|segment| segment.iter());
        slots.filter_map(|slot| slot.lock().clone()).collect()
    }

    #[inline]
    fn place(&self, address: u64) -> Option<(&Class<T>, u32, u64)> {
        if Self::device_of(address) != Some(self.device) {
            return None;
        }
        let offset = address & ((1 << DEVICE_SHIFT) - 1);
        let number = (offset >> CLASS_SHIFT) as usize;
        let bits = SMALLEST_BITS + number as u32;
        let inside = offset & ((1 << CLASS_SHIFT) - 1);
        Some((&self.classes[number], (inside >> bits) as u32, inside & ((1 << bits) - 1)))
    }
}

impl<T> Class<T> {
    #[inline]
    fn take(&self, slots: u64) -> Option<u32> {
        let mut free = self.free.lock();
        if let Some(index) = free.slots.pop() {
            return Some(index);
        }
        let index = free.unused;
        (index < slots).then(|| free.unused += 1)?;
        u32::try_from(index).ok()
    }

    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        let (segment, at) = segment_of(index);
        let slots = 0..1_usize << (FIRST_SEGMENT_BITS as usize + segment);
        let made = || slots.map(|_| Mutex::new(None)).collect();
        self.segments.get(segment)?.get_or_init(made).get(at)
    }

    #[inline]
    fn known_slot(&self, index: u32) -> Option<&Slot<T>> {
        let (segment, at) = segment_of(index);
        self.segments.get(segment)?.get()?.get(at)
    }
}

impl<T> Default for Class<T> {
    fn default() -> Self {
        Self { segments: [const { OnceLock::new() }; SEGMENTS], free: Mutex::default() }
    }
}

/// Segment of a slot, and the slot's place in it.
#[inline]
fn segment_of(index: u32) -> (usize, usize) {
    let first = 1_u64 << FIRST_SEGMENT_BITS;
    let shifted = u64::from(index) + first;
    let bits = 63 - shifted.leading_zeros();
    ((bits - FIRST_SEGMENT_BITS) as usize, (shifted - (1 << bits)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_never_overlap_and_are_found_from_inside() {
        let space = AddressSpace::new(DeviceIndex(1));
        let sizes = [0_u64, 1, 127, 128, 129, 4096, 5000, 1 << 20, (1 << 20) + 1, 1 << 38];
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for (nth, &bytes) in sizes.iter().cycle().take(500).enumerate() {
            let Some(address) = space.insert(bytes, Arc::new(nth)) else {
                assert_eq!(bytes, 1 << 38, "only the largest run out");
                continue;
            };
            taken.push((address, bytes.max(1)));
            assert_eq!(
                space.find(address + bytes.max(1) - 1),
                Some((Arc::new(nth), bytes.max(1) - 1))
            );
        }
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
    }

    #[test]
    fn what_was_removed_is_gone_and_its_address_comes_again() {
        let space = AddressSpace::new(DeviceIndex(0));
        let address = space.insert(300, Arc::new(1)).expect("room");
        assert_eq!(space.remove(address + 1), None);
        assert_eq!(space.remove(address), Some(Arc::new(1)));
        assert_eq!((space.remove(address), space.find(address)), (None, None));
        assert_eq!(space.insert(300, Arc::new(2)), Some(address));
        assert_eq!(space.replace(address, Arc::new(3)), Some(Arc::new(2)));
        assert_eq!(space.find(address), Some((Arc::new(3), 0)));
    }

    #[test]
    fn foreign_addresses_belong_to_no_device() {
        let space: AddressSpace<u8> = AddressSpace::new(DeviceIndex(0));
        let other = AddressSpace::new(DeviceIndex(2));
        let foreign = other.insert(8, Arc::new(0_u8)).expect("room");
        for address in [0, 1, u64::MAX, 0x7fff_0000_0000, foreign, TAG << TAG_SHIFT | 12345] {
            assert_eq!(space.find(address), None, "{address:#x}");
            assert_eq!(space.remove(address), None);
        }
        assert!(other.insert((1 << 38) + 1, Arc::new(0)).is_none());
        assert!(other.insert(u64::MAX, Arc::new(0)).is_none());
    }
}
