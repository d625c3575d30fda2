//! Encoding of a device handle in device memory, in one place: a runtime writes what cards read.
//!
//! | word | bits | what |
//! |---|---|---|
//! | 0 | all | the physical address, or the offset in the region |
//! | 1 | 0 to 31, 32 to 63 | the tag's slot, its generation |
//! | 2 | 0 to 15, 16 to 31 | the tag's epoch, the region (0 in PF mode) |
//! | 2 | 32 to 63 | the mode: 1 is PF, 2 is VF, so that zeros name nothing |

use crate::{DeviceHandle, HandleTag, Location, PFDeviceHandle, VFDeviceHandle};

const PF: u32 = 1;
const VF: u32 = 2;

impl DeviceHandle {
    /// Three words, as images and operand tables hold them.
    ///
    /// ```
    /// use spyre_hal::{DeviceHandle, HandleTag, VFDeviceHandle};
    ///
    /// let place = VFDeviceHandle { region_id: 3, vf_offset: 4096 };
    /// let handle = DeviceHandle::vf(place, HandleTag { epoch: 1, generation: 2, slot: 5 });
    /// assert_eq!(handle.to_words(), [4096, 2 << 32 | 5, 2 << 32 | 3 << 16 | 1]);
    /// assert_eq!(DeviceHandle::from_words(handle.to_words()), Some(handle));
    /// ```
    pub fn to_words(self) -> [u64; 3] {
        let HandleTag { epoch, generation, slot } = self.tag();
        let (address, region, mode) = match self.location() {
            Location::Pf(place) => (place.physical_address, 0, PF),
            Location::Vf(place) => (place.vf_offset, place.region_id, VF),
        };
        let tag = u64::from(generation) << 32 | u64::from(slot);
        let place = u64::from(mode) << 32 | u64::from(region) << 16 | u64::from(epoch);
        [address, tag, place]
    }

    /// The handle in these words; `None` if they name nothing.
    pub fn from_words([address, tag, place]: [u64; 3]) -> Option<Self> {
        let region_id = (place >> 16) as u16;
        let mode = (place >> 32) as u32;
        let tag =
            HandleTag { epoch: place as u16, generation: (tag >> 32) as u32, slot: tag as u32 };
        match (mode, region_id) {
            (PF, 0) => Some(Self::pf(PFDeviceHandle { physical_address: address }, tag)),
            (VF, _) => Some(Self::vf(VFDeviceHandle { region_id, vf_offset: address }, tag)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_handles_are_the_same_thing() {
        let tag = HandleTag { epoch: 0xfedc, generation: 0x89ab_cdef, slot: u32::MAX };
        let pf = DeviceHandle::pf(PFDeviceHandle { physical_address: u64::MAX }, tag);
        let vf = DeviceHandle::vf(VFDeviceHandle { region_id: u16::MAX, vf_offset: 0 }, tag);
        for handle in [pf, vf] {
            assert_eq!(DeviceHandle::from_words(handle.to_words()), Some(handle));
        }
    }

    #[test]
    fn words_without_a_mode_name_nothing() {
        for place in [0, 3 << 32, u64::MAX, 1 << 32 | 1 << 16] {
            assert_eq!(DeviceHandle::from_words([7, 7, place]), None, "{place:#x}");
        }
    }
}
