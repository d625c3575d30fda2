use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use spyre_hal::{Allocations, DeviceRange, Fault, RegionId};

use crate::memory::RegionAddress;
use crate::programs::load::decoded_image::DecodedImage;
use crate::programs::load::limits;
use crate::programs::schedule::launch_buffers::LaunchBuffers;

/// The allocations for programs, and what was decoded of their images.
///
/// An image is decoded when it is first launched, and again after a copy has written to bytes that
/// it was decoded from. What launches patch or read anew, tables and input areas, is not among
/// these bytes.
pub(crate) struct Programs {
    /// Allocations for programs, sorted by region and start.
    spaces: RwLock<Vec<ProgramAllocation>>,
    /// Moves when one comes or goes.
    changes: AtomicU64,
    allocations: RwLock<Option<Weak<dyn Allocations>>>,
    spare_buffers: Mutex<Vec<LaunchBuffers>>,
    most_work: u64,
}

/// An allocation for programs.
#[derive(Debug)]
struct ProgramAllocation {
    region: u16,
    range: Range<u64>,
    /// Moves before and after each copy to it, so that nothing is kept that was read meanwhile.
    writes: AtomicU64,
    /// Decoded images, sorted by start.
    images: Vec<Arc<DecodedImage>>,
}

/// Result of a lookup of an image.
pub(in crate::programs) enum Lookup {
    /// It is in no allocation for programs.
    Outside,
    /// Not decoded yet: so many bytes are left of the allocation, and its writes were so many.
    Unknown {
        room: u64,
        writes: u64,
    },
    Known(Arc<DecodedImage>),
}

/// Images that are kept of one allocation; when there are more, all are forgotten.
const MOST_IMAGES: usize = 1024;
/// Buffers that wait for the next launch.
const MOST_SPARE_BUFFERS: usize = 16;

impl Default for Programs {
    fn default() -> Self {
        Self {
            spaces: RwLock::default(),
            changes: AtomicU64::default(),
            allocations: RwLock::default(),
            spare_buffers: Mutex::default(),
            most_work: limits::MOST_WORK,
        }
    }
}

impl Programs {
    /// Sets the most work of a launch: launches that take more are refused.
    pub(crate) fn with_most_work(self, most_work: u64) -> Self {
        Self { most_work, ..self }
    }

    /// The most that elements times instructions of a launch may come to.
    pub(in crate::programs) fn most_work(&self) -> u64 {
        self.most_work
    }

    pub(crate) fn protect(&self, RegionId(region): RegionId, start: u64, bytes: u64) {
        let range = start..start.saturating_add(bytes);
        let mut spaces = self.spaces.write();
        let at =
            spaces.partition_point(|space| (space.region, space.range.start) < (region, start));
        debug_assert!(!touching(&spaces, region, &range).any(|_| true), "protected twice");
        let space =
            ProgramAllocation { region, range, writes: AtomicU64::new(0), images: Vec::new() };
        spaces.insert(at, space);
        self.changes.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn unprotect(&self, RegionId(region): RegionId, start: u64, _: u64) {
        self.forget(|space| (space.region, space.range.start) == (region, start));
    }

    pub(crate) fn forget_region(&self, RegionId(region): RegionId) {
        self.forget(|space| space.region == region);
    }

    pub(crate) fn forget_all(&self) {
        self.forget(|_| true);
    }

    pub(crate) fn attach(&self, allocations: Weak<dyn Allocations>) {
        *self.allocations.write() = Some(allocations);
    }

    /// Allocator, which knows which handles are good, if there is one.
    pub(in crate::programs) fn allocations(&self) -> Option<Arc<dyn Allocations>> {
        self.allocations.read().as_ref()?.upgrade()
    }

    /// Number of times that allocations for programs have come or gone.
    pub(in crate::programs) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Refuses a write that is no copy to the device, if it would touch programs.
    pub(crate) fn check_plain(
        &self,
        place: RegionAddress,
        range: DeviceRange,
    ) -> Result<(), Fault> {
        if self.is_plain(place, range.bytes) { Ok(()) } else { Err(Fault::Protected { range }) }
    }

    pub(in crate::programs) fn is_plain(&self, place: RegionAddress, bytes: u64) -> bool {
        let range = place.start..place.start.saturating_add(bytes);
        touching(&self.spaces.read(), place.region, &range).next().is_none()
    }

    /// Forgets what was decoded from these bytes: call it before and after a copy writes them. Returns true
    /// if they are in an allocation for programs.
    pub(crate) fn note_write(&self, place: RegionAddress, bytes: u64) -> bool {
        let range = place.start..place.start.saturating_add(bytes);
        let mut is_for_programs = false;
        let mut is_kept = false;
        for space in touching(&self.spaces.read(), place.region, &range) {
            space.writes.fetch_add(1, Ordering::AcqRel);
            is_for_programs = true;
            is_kept |= space.images.iter().any(|image| image.was_read_from(&range));
        }
        if is_kept {
            self.forget_images(place.region, &range);
        }
        is_for_programs
    }

    #[cold]
    fn forget_images(&self, region: u16, range: &Range<u64>) {
        let mut spaces = self.spaces.write();
        let first = first_touching(&spaces, region, range);
        let touching = spaces[first..].iter_mut();
        for space in touching.take_while(|space| space.starts_before(region, range)) {
            space.images.retain(|image| {
                let is_changed = image.was_read_from(range);
                if is_changed {
                    image.end();
                }
                !is_changed
            });
        }
    }

    /// Looks up the image that starts at a place.
    pub(in crate::programs) fn lookup(&self, place: RegionAddress) -> Lookup {
        let spaces = self.spaces.read();
        let range = place.start..place.start.saturating_add(1);
        let Some(space) = touching(&spaces, place.region, &range).next() else {
            return Lookup::Outside;
        };
        match space.images.binary_search_by_key(&place.start, |image| image.start()) {
            Ok(at) => Lookup::Known(Arc::clone(&space.images[at])),
            Err(_) => {
                let room = space.range.end - place.start;
                Lookup::Unknown { room, writes: space.writes.load(Ordering::Acquire) }
            }
        }
    }

    /// Keeps what was decoded, unless its bytes may have changed since they were looked at.
    pub(in crate::programs) fn keep(
        &self,
        place: RegionAddress,
        image: &Arc<DecodedImage>,
        writes: u64,
    ) {
        let mut spaces = self.spaces.write();
        let range = place.start..place.start.saturating_add(1);
        let first = first_touching(&spaces, place.region, &range);
        let space = spaces.get_mut(first).filter(|s| s.starts_before(place.region, &range));
        let is_same =
            |space: &&mut ProgramAllocation| space.writes.load(Ordering::Acquire) == writes;
        let Some(space) = space.filter(is_same) else { return image.end() };
        if space.images.len() >= MOST_IMAGES {
            space.images.drain(..).for_each(|image| image.end());
        }
        if let Err(at) = space.images.binary_search_by_key(&place.start, |image| image.start()) {
            space.images.insert(at, Arc::clone(image));
        }
    }

    /// Buffers for a launch: those of an earlier one.
    pub(in crate::programs) fn buffers(&self) -> LaunchBuffers {
        self.spare_buffers.lock().pop().unwrap_or_default()
    }

    pub(in crate::programs) fn give_back(&self, buffers: LaunchBuffers) {
        let mut spare_buffers = self.spare_buffers.lock();
        if spare_buffers.len() < MOST_SPARE_BUFFERS && buffers.is_worth_keeping() {
            spare_buffers.push(buffers);
        }
    }

    fn forget(&self, is_over: impl Fn(&ProgramAllocation) -> bool) {
        let mut spaces = self.spaces.write();
        let over: Vec<ProgramAllocation> = spaces.extract_if(.., |space| is_over(space)).collect();
        over.iter().flat_map(|space| &space.images).for_each(|image| image.end());
        self.changes.fetch_add(1, Ordering::Release);
    }
}

impl ProgramAllocation {
    fn starts_before(&self, region: u16, range: &Range<u64>) -> bool {
        self.region == region && self.range.start < range.end
    }
}

fn first_touching(spaces: &[ProgramAllocation], region: u16, range: &Range<u64>) -> usize {
    spaces.partition_point(|space| (space.region, space.range.end) <= (region, range.start))
}

fn touching<'a>(
    spaces: &'a [ProgramAllocation],
    region: u16,
    range: &'a Range<u64>,
) -> impl Iterator<Item = &'a ProgramAllocation> {
    let touching = spaces[first_touching(spaces, region, range)..].iter();
    touching.take_while(move |space| space.starts_before(region, range))
}

/// Says nothing of places.
impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spaces = self.spaces.read();
        let kept: usize = spaces.iter().map(|space| space.images.len()).sum();
        write!(f, "Programs({} allocations, {kept} images kept)", spaces.len())
    }
}
