//! Allocation and release of regions.

use super::driver::{assert_bytes, fill, from_device};
use super::{Driver, FIRST};
use crate::{HostBuffer, Region};

/// Region numbers are of 16 bits: no card has more.
const MOST_REGIONS: usize = 1 << 16;

/// Every region of so many bytes that is to be had.
pub(super) fn take_all(driver: &Driver<'_>, bytes: u64) -> Vec<Region> {
    let mut regions = Vec::new();
    while let Some(region) = driver.hardware().try_allocate(bytes) {
        regions.push(region);
        assert!(regions.len() <= MOST_REGIONS, "there is no end of regions");
    }
    regions
}

pub(super) fn a_region_reads_as_zero(driver: &Driver<'_>) {
    driver.upload(driver.range(driver.region(128), 0, 128), &[0xff; 128]);
    let region = driver.region(200_000);
    // Not zeros on the host: a hardware that writes nothing must not pass.
    let host = HostBuffer::from(vec![0xee; 200_000]);
    let copy = from_device(driver.range(region, 0, 200_000), &host, None);
    assert_eq!(driver.run(FIRST, copy), Ok(()));
    let found = host.read().expect("the copy has ended");
    assert_bytes(&found, &vec![0; 200_000], "a_region_reads_as_zero");
}

pub(super) fn a_region_is_as_long_as_asked(driver: &Driver<'_>) {
    for bytes in [1, 127, 128, 4096, 1 << 20] {
        let region = driver.region(bytes);
        assert_eq!(region.bytes, bytes);
        driver.hardware().release(region.id);
    }
}

pub(super) fn regions_do_not_overlap(driver: &Driver<'_>) {
    let mut regions: Vec<Region> =
        [1 << 20, 1, 130, 4096].into_iter().map(|bytes| driver.region(bytes)).collect();
    regions.sort_by_key(|region| region.base_address);
    for pair in regions.windows(2) {
        let end = pair[0].base_address + pair[0].bytes;
        assert!(end <= pair[1].base_address, "{pair:?} overlap");
        assert_ne!(pair[0].id, pair[1].id);
    }
}

pub(super) fn regions_start_at_multiples_of_128_bytes(driver: &Driver<'_>) {
    for bytes in [1, 129, 4095, 1 << 20] {
        let region = driver.region(bytes);
        assert_eq!(region.base_address % 128, 0, "{region:?}");
    }
}

pub(super) fn regions_share_no_bytes(driver: &Driver<'_>) {
    let regions: Vec<Region> = (0..4).map(|_| driver.region(70_001)).collect();
    let ranges: Vec<_> = regions.iter().map(|&region| driver.range(region, 0, 70_001)).collect();
    for (number, range) in ranges.iter().enumerate() {
        assert_eq!(driver.run(FIRST, fill(&[number as u8 + 1], *range)), Ok(()));
    }
    for (number, range) in ranges.iter().enumerate() {
        let expected = vec![number as u8 + 1; 70_001];
        assert_bytes(&driver.download(*range), &expected, "a region among others");
    }
}

pub(super) fn too_large_a_region_is_refused_without_effect(driver: &Driver<'_>) {
    let regions = take_all(driver, 128).len();
    driver.hardware().reset();
    for _ in 0..3 {
        assert_eq!(driver.hardware().try_allocate(u64::MAX), None);
    }
    assert_eq!(take_all(driver, 128).len(), regions);
}

pub(super) fn regions_run_out_without_effect(driver: &Driver<'_>) {
    let regions = take_all(driver, 128);
    let last = *regions.last().expect("there is one region at least");
    assert_eq!(driver.hardware().try_allocate(128), None);
    driver.hardware().release(last.id);
    let again = driver.region(128);
    assert!(regions[..regions.len() - 1].iter().all(|region| region.id != again.id));
    assert_eq!(driver.hardware().try_allocate(128), None);
}

pub(super) fn a_refused_region_leaves_the_others_their_bytes(driver: &Driver<'_>) {
    let regions = take_all(driver, 128);
    let range = driver.range(regions[0], 0, 128);
    driver.upload(range, &[0x5a; 128]);
    assert_eq!(driver.hardware().try_allocate(128), None);
    assert_eq!(driver.hardware().try_allocate(u64::MAX), None);
    assert_bytes(&driver.download(range), &[0x5a; 128], "a region after a refusal");
}

pub(super) fn a_region_that_is_acquired_again_reads_as_zero(driver: &Driver<'_>) {
    let held = driver.region(4096);
    driver.upload(driver.range(held, 0, 4096), &[0x5a; 4096]);
    for round in 0..4 {
        let region = driver.region(100_000);
        let range = driver.range(region, 0, 100_000);
        let expected = vec![0; 100_000];
        assert_bytes(&driver.download(range), &expected, &format!("round {round}"));
        driver.upload(range, &vec![0xff; 100_000]);
        driver.hardware().release(region.id);
    }
    let range = driver.range(held, 0, 4096);
    assert_bytes(&driver.download(range), &[0x5a; 4096], "the region that was not released");
}
