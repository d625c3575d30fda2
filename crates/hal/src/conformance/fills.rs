//! Fills: a few bytes, again and again.

use super::copies::{assert_only, zone};
use super::driver::{assert_bytes, fill};
use super::{Driver, FIRST};

const PATTERNS: [&[u8]; 4] = [&[7], &[1, 2], &[3, 4, 5], &[6, 7, 8, 9]];

fn repeated(pattern: &[u8], bytes: usize) -> Vec<u8> {
    pattern.iter().copied().cycle().take(bytes).collect()
}

pub(super) fn a_fill_repeats_its_pattern(driver: &Driver<'_>) {
    let region = driver.region(150_000);
    let range = driver.range(region, 0, 150_000);
    for pattern in PATTERNS {
        assert_eq!(driver.run(FIRST, fill(pattern, range)), Ok(()));
        let expected = repeated(pattern, 150_000);
        assert_bytes(&driver.download(range), &expected, &format!("pattern {pattern:?}"));
    }
}

pub(super) fn a_ragged_fill_leaves_its_neighbours(driver: &Driver<'_>) {
    for pattern in PATTERNS {
        for (offset, bytes) in [(0, 1), (1, 2), (3, 5), (126, 7), (65_530, 13), (9, 100_003)] {
            let region = zone(driver);
            let target = driver.range(region, offset, bytes);
            assert_eq!(driver.run(FIRST, fill(pattern, target)), Ok(()));
            assert_only(driver, region, offset, &repeated(pattern, bytes as usize));
            driver.hardware().release(region.id);
        }
    }
}

pub(super) fn a_fill_of_zeros_clears(driver: &Driver<'_>) {
    let region = zone(driver);
    let target = driver.range(region, 1000, 70_000);
    assert_eq!(driver.run(FIRST, fill(&[0], target)), Ok(()));
    assert_only(driver, region, 1000, &vec![0; 70_000]);
}

pub(super) fn an_empty_fill_changes_nothing(driver: &Driver<'_>) {
    let region = zone(driver);
    for pattern in PATTERNS {
        assert_eq!(driver.run(FIRST, fill(pattern, driver.range(region, 500, 0))), Ok(()));
    }
    assert_only(driver, region, 0, &[]);
}
