//! Epochs: the card, and its life between two resets, that a handle belongs to.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::Error;

static LIVE: Mutex<Epochs> = Mutex::new(Epochs { next: 0, live: BTreeSet::new() });

/// The life that an allocator is in.
///
/// It begins when the first block is asked for, so that to make an allocator cannot fail. Its epoch
/// is kept after its end until the next life has one: the two are never the same.
#[derive(Debug, Default)]
pub(super) struct Life {
    epoch: Option<Epoch>,
    is_over: bool,
}

impl Life {
    /// Begins, if it has not.
    pub(super) fn begin(&mut self) -> Result<(), Error> {
        if self.epoch.is_none() || self.is_over {
            self.epoch = Some(Epoch::take()?);
            self.is_over = false;
        }
        Ok(())
    }

    /// Marks the life as ended.
    pub(super) fn ended(self) -> Self {
        Self { is_over: true, ..self }
    }

    /// Number that its handles carry. Before it begins there are no handles, and the number means
    /// nothing.
    #[inline]
    pub(super) fn epoch(&self) -> u16 {
        self.epoch.as_ref().map_or(0, |epoch| epoch.0)
    }

    /// Returns true if a handle of this epoch was given out in this life.
    #[inline]
    pub(super) fn is(&self, epoch: u16) -> bool {
        !self.is_over && self.epoch.as_ref().is_some_and(|own| own.0 == epoch)
    }
}

/// A number that no other allocator of the process has while this one does.
#[derive(Debug)]
struct Epoch(u16);

impl Epoch {
    fn take() -> Result<Self, Error> {
        LIVE.lock().take().map(Self).ok_or(Error::TooManyCards { open: Epochs::ALL })
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        LIVE.lock().live.remove(&self.0);
    }
}

/// The epochs in use. One that was given back is given out again as late as can be, so that
/// handles from then are long forgotten.
#[derive(Debug)]
struct Epochs {
    next: u16,
    live: BTreeSet<u16>,
}

impl Epochs {
    const ALL: usize = 1 << 16;

    fn take(&mut self) -> Option<u16> {
        if self.live.len() == Self::ALL {
            return None;
        }
        while !self.live.insert(self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let taken = self.next;
        self.next = taken.wrapping_add(1);
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_live_ones_are_the_same() {
        let mut epochs = Epochs { next: 65_000, live: BTreeSet::new() };
        let taken: BTreeSet<u16> = std::iter::from_fn(|| epochs.take()).collect();
        assert_eq!(taken.len(), Epochs::ALL);
        assert_eq!(epochs.take(), None);

        epochs.live.remove(&7);
        assert_eq!(epochs.take(), Some(7));
        assert_eq!(epochs.take(), None);
    }

    #[test]
    fn one_that_was_given_back_comes_last() {
        let mut epochs = Epochs { next: 0, live: BTreeSet::new() };
        for _ in 0..=u16::MAX {
            let taken = epochs.take().expect("all but one are left");
            epochs.live.remove(&taken);
        }
        assert_eq!(epochs.take(), Some(0));
    }

    #[test]
    fn a_life_ends_before_the_next_begins() -> Result<(), Error> {
        let mut life = Life::default();
        assert!(!life.is(life.epoch()));
        life.begin()?;
        let first = life.epoch();
        assert!(life.is(first));

        life = life.ended();
        assert!(!life.is(first));
        life.begin()?;
        assert!(!life.is(first) && life.is(life.epoch()));
        Ok(())
    }
}
