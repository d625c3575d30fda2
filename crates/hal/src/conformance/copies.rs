//! Bytes as they are.

use super::driver::{assert_bytes, from_device, on_device};
use super::{Driver, FIRST};
use crate::random::Random;
use crate::{HostBuffer, Region};

/// Byte that lies around a target, and must stay.
const ZONE: u8 = 0xa5;

/// More than a page of any hardware that has small ones, and no round number.
const BYTES: u64 = 200_003;

/// Offsets and lengths that start, end and cross where pages and sticks do, and do not.
const PIECES: [(u64, u64); 8] = [
    (0, 1),
    (1, 127),
    (127, 2),
    (4095, 4098),
    (65_535, 1),
    (65_535, 2),
    (65_536, 65_536),
    (99_999, 100_000),
];

pub(super) fn zone(driver: &Driver<'_>) -> Region {
    let region = driver.region(BYTES);
    driver.upload(driver.range(region, 0, BYTES), &vec![ZONE; BYTES as usize]);
    region
}

/// All of the region is the zone, but for these bytes.
pub(super) fn assert_only(driver: &Driver<'_>, region: Region, offset: u64, bytes: &[u8]) {
    let mut expected = vec![ZONE; region.bytes as usize];
    expected[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    let found = driver.download(driver.range(region, 0, region.bytes));
    assert_bytes(&found, &expected, &format!("{} bytes written at {offset}", bytes.len()));
}

pub(super) fn bytes_come_back_as_they_were(driver: &Driver<'_>) {
    let range = driver.range(driver.region(BYTES), 0, BYTES);
    let bytes = Random::new(1).bytes(BYTES as usize);
    driver.upload(range, &bytes);
    assert_bytes(&driver.download(range), &bytes, "a whole region");
    assert_bytes(&driver.download(range), &bytes, "a second read");
}

pub(super) fn one_byte_is_copied_alone(driver: &Driver<'_>) {
    for offset in [0, 1, 63, 127, 128, BYTES - 1] {
        let region = zone(driver);
        driver.upload(driver.range(region, offset, 1), &[0x3c]);
        assert_only(driver, region, offset, &[0x3c]);
        driver.hardware().release(region.id);
    }
}

pub(super) fn a_copy_to_the_device_leaves_its_neighbours(driver: &Driver<'_>) {
    for (offset, bytes) in PIECES {
        let region = zone(driver);
        let source = Random::new(offset).bytes(bytes as usize);
        driver.upload(driver.range(region, offset, bytes), &source);
        assert_only(driver, region, offset, &source);
        driver.hardware().release(region.id);
    }
}

pub(super) fn a_copy_from_the_device_reads_its_range_only(driver: &Driver<'_>) {
    let region = driver.region(BYTES);
    let all = Random::new(2).bytes(BYTES as usize);
    driver.upload(driver.range(region, 0, BYTES), &all);
    for (offset, bytes) in PIECES {
        let found = driver.download(driver.range(region, offset, bytes));
        assert_bytes(&found, &all[offset as usize..][..bytes as usize], "a piece");
    }
    assert_bytes(&driver.download(driver.range(region, 0, BYTES)), &all, "what was read");
}

pub(super) fn a_handle_inside_a_region_counts_from_there(driver: &Driver<'_>) {
    let region = zone(driver);
    let handle = driver.handle(region, 1280);
    let range = crate::DeviceRange { handle, offset: 5, bytes: 3 };
    driver.upload(range, &[1, 2, 3]);
    assert_only(driver, region, 1285, &[1, 2, 3]);
    assert_eq!(driver.download(range), [1, 2, 3]);
}

pub(super) fn a_copy_on_the_device_leaves_its_neighbours(driver: &Driver<'_>) {
    let source_region = driver.region(BYTES);
    let all = Random::new(3).bytes(BYTES as usize);
    driver.upload(driver.range(source_region, 0, BYTES), &all);
    for (offset, bytes) in PIECES {
        let region = zone(driver);
        let source = driver.range(source_region, BYTES - bytes - 1, bytes);
        let target = driver.range(region, offset, bytes);
        assert_eq!(driver.run(FIRST, on_device(source, target, None)), Ok(()));
        let start = (BYTES - bytes - 1) as usize;
        assert_only(driver, region, offset, &all[start..][..bytes as usize]);
        driver.hardware().release(region.id);
    }
    assert_bytes(&driver.download(driver.range(source_region, 0, BYTES)), &all, "the source");
}

pub(super) fn a_copy_inside_a_region_moves_its_bytes(driver: &Driver<'_>) {
    let region = driver.region(BYTES);
    let mut all = Random::new(4).bytes(BYTES as usize);
    driver.upload(driver.range(region, 0, BYTES), &all);
    for (source, target, bytes) in [(0, 100_000, 99_999), (150_000, 7, 30_001), (50, 51, 1)] {
        let copy = on_device(
            driver.range(region, source, bytes),
            driver.range(region, target, bytes),
            None,
        );
        assert_eq!(driver.run(FIRST, copy), Ok(()));
        all.copy_within(source as usize..(source + bytes) as usize, target as usize);
    }
    assert_bytes(&driver.download(driver.range(region, 0, BYTES)), &all, "the region");
}

pub(super) fn an_empty_copy_changes_nothing(driver: &Driver<'_>) {
    let region = zone(driver);
    for offset in [0, 77, BYTES] {
        let none = driver.range(region, offset, 0);
        driver.upload(none, &[]);
        assert!(driver.download(none).is_empty());
        assert_eq!(driver.run(FIRST, on_device(none, none, None)), Ok(()));
    }
    assert_only(driver, region, 0, &[]);
}

pub(super) fn every_byte_of_a_host_target_is_written(driver: &Driver<'_>) {
    let region = driver.region(1000);
    for byte in [0x00, 0xff] {
        driver.upload(driver.range(region, 0, 1000), &[byte; 1000]);
        let host = HostBuffer::from(vec![!byte; 1000]);
        let copy = from_device(driver.range(region, 0, 1000), &host, None);
        assert_eq!(driver.run(FIRST, copy), Ok(()));
        assert_bytes(&host.read().expect("it has ended"), &[byte; 1000], "the host's bytes");
    }
}
