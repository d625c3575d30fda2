use std::ops::Range;

/// Units of 128 bytes in a page of the host: 4 KiB.
const PAGE_UNITS: u64 = 32;

/// Pages of a region that have just become free, in units of 128 bytes.
///
/// A page is among them when its last byte does, and so only once however it was cut up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pages {
    pub(super) region: u16,
    pub(super) units: Range<u64>,
}

impl Pages {
    /// The pages that became free with `released`, which is now a part of the free block `joined`.
    pub(super) fn freed(region: u16, released: Range<u64>, joined: Range<u64>) -> Option<Self> {
        let first = released.start / PAGE_UNITS * PAGE_UNITS;
        let last = released.end.next_multiple_of(PAGE_UNITS);
        // Where a page reaches out of the free block, it is not free yet.
        let start = if first < joined.start { first + PAGE_UNITS } else { first };
        let end = if last > joined.end { last - PAGE_UNITS } else { last };
        (start < end).then_some(Self { region, units: start..end })
    }

    /// Joins pages into as few pieces as possible: small blocks are given back in large numbers.
    pub(super) fn joined(mut pages: Vec<Self>) -> Vec<Self> {
        pages.sort_unstable_by_key(|pages| (pages.region, pages.units.start));
        pages.dedup_by(|next, pages| {
            let is_next = next.region == pages.region && next.units.start == pages.units.end;
            if is_next {
                pages.units.end = next.units.end;
            }
            is_next
        });
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freed(released: Range<u64>, joined: Range<u64>) -> Option<Range<u64>> {
        Pages::freed(0, released, joined).map(|pages| pages.units)
    }

    #[test]
    fn a_page_is_freed_with_its_last_byte() {
        assert_eq!(freed(0..64, 0..64), Some(0..64));
        assert_eq!(freed(1..64, 1..64), Some(32..64)); // the first unit is in use
        assert_eq!(freed(1..64, 0..64), Some(0..64)); // it is free
        assert_eq!(freed(0..63, 0..63), Some(0..32));
        assert_eq!(freed(0..63, 0..100), Some(0..64));
        assert_eq!(freed(40..41, 32..64), Some(32..64));
        assert_eq!(freed(40..41, 33..64), None);
        assert_eq!(freed(40..41, 32..63), None);
        assert_eq!(freed(31..33, 31..33), None);
    }

    #[test]
    fn neighbours_are_joined() {
        let pages = |region, units| Pages { region, units };
        let all = vec![pages(1, 0..32), pages(0, 64..96), pages(0, 0..32), pages(0, 32..64)];
        assert_eq!(Pages::joined(all), [pages(0, 0..96), pages(1, 0..32)]);
    }
}
