use std::collections::HashMap;
use std::fmt;

/// Small enough that a test which touches a byte of a region of gigabytes stays small.
const PAGE_BYTES: u64 = 64 << 10;

/// The bytes of one region: only pages that were written to exist, the others are zero.
pub(super) struct Pages {
    region_bytes: u64,
    pages: HashMap<u64, Box<[u8]>>,
}

impl Pages {
    pub(super) fn new(region_bytes: u64) -> Self {
        Self { region_bytes, pages: HashMap::new() }
    }

    /// Returns true if this many bytes from `start` on lie inside the region.
    pub(super) fn hold(&self, start: u64, bytes: u64) -> bool {
        start.checked_add(bytes).is_some_and(|end| end <= self.region_bytes)
    }

    pub(super) fn read(&self, start: u64, target: &mut [u8]) {
        for piece in pieces(start, target.len()) {
            let target = &mut target[piece.at..piece.at + piece.bytes];
            match self.pages.get(&piece.page) {
                Some(page) => target.copy_from_slice(&page[piece.within..][..piece.bytes]),
                None => target.fill(0),
            }
        }
    }

    pub(super) fn write(&mut self, start: u64, source: &[u8]) {
        let unwritten = || vec![0; PAGE_BYTES as usize].into_boxed_slice();
        for piece in pieces(start, source.len()) {
            let page = self.pages.entry(piece.page).or_insert_with(unwritten);
            let source = &source[piece.at..piece.at + piece.bytes];
            page[piece.within..][..piece.bytes].copy_from_slice(source);
        }
    }

    /// Forgets the pages that lie wholly inside a range.
    pub(super) fn discard(&mut self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        let inside = start.div_ceil(PAGE_BYTES)..end / PAGE_BYTES;
        self.pages.retain(|page, _| !inside.contains(page));
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pages({} of {} bytes)", self.pages.len(), self.region_bytes)
    }
}

/// The part of an access that lies in one page.
struct Piece {
    page: u64,
    within: usize,
    /// Bytes of the access before it.
    at: usize,
    bytes: usize,
}

fn pieces(start: u64, bytes: usize) -> impl Iterator<Item = Piece> {
    let end = start + bytes as u64;
    let pages = start / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
    pages.filter(move |_| bytes > 0).map(move |page| {
        let from = start.max(page * PAGE_BYTES);
        let to = end.min((page + 1) * PAGE_BYTES);
        let within = (from - page * PAGE_BYTES) as usize;
        Piece { page, within, at: (from - start) as usize, bytes: (to - from) as usize }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_are_forgotten_and_parts_are_kept() {
        let mut pages = Pages::new(1 << 40);
        pages.write(0, &[7; 3 * PAGE_BYTES as usize]);
        pages.discard(1, 2 * PAGE_BYTES);
        let mut target = [9; 3];
        pages.read(PAGE_BYTES - 1, &mut target);
        assert_eq!(target, [7, 0, 0]);
        pages.read(2 * PAGE_BYTES - 1, &mut target);
        assert_eq!(target, [0, 7, 7]);
    }

    #[test]
    fn bytes_that_cross_pages_come_back() {
        let mut pages = Pages::new(1 << 40);
        let source: Vec<u8> = (0..200_000u32).map(|at| at as u8).collect();
        pages.write(PAGE_BYTES - 3, &source);

        let mut target = vec![9; source.len() + 4];
        pages.read(PAGE_BYTES - 5, &mut target);
        assert_eq!(target[..2], [0, 0]);
        assert_eq!(target[2..][..source.len()], source);
        assert_eq!(target[source.len() + 2..], [0, 0]);
        assert_eq!(pages.pages.len(), 5);
    }

    #[test]
    fn reading_makes_no_pages() {
        let pages = Pages::new(1 << 40);
        let mut target = [1; 3];
        pages.read(1 << 39, &mut target);
        assert_eq!(target, [0; 3]);
        assert!(pages.pages.is_empty());
    }

    #[test]
    fn an_access_past_the_end_is_outside() {
        let pages = Pages::new(100);
        assert!(pages.hold(100, 0) && pages.hold(99, 1) && pages.hold(0, 100));
        assert!(!pages.hold(100, 1) && !pages.hold(0, 101) && !pages.hold(u64::MAX, 2));
    }
}
