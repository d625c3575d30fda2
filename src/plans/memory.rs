use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{RwLock, RwLockUpgradableReadGuard};
use spyre_artifact::CompilerOutput;
use spyre_compiler::CompileOptions;

use super::PlanError;
use super::key::{KeyHashing, PlanKey};

/// A plan, or why there is none: a kernel that was refused once is not compiled again.
pub(super) type Made = Result<Arc<CompilerOutput>, PlanError>;

/// The place of a plan: the first thread makes the plan, and others wait for it.
#[derive(Debug, Default)]
pub(super) struct PlanCell {
    made: OnceLock<Made>,
    is_used: AtomicBool,
}

/// Plans in memory, by their keys and by texts that were asked for.
#[derive(Debug)]
pub(super) struct Memory {
    most: usize,
    places: RwLock<PlanCells>,
}

#[derive(Debug, Default)]
struct PlanCells {
    by_key: HashMap<PlanKey, Arc<PlanCell>, KeyHashing>,
    /// Texts as they came: to find one does not take a parser.
    by_text: HashMap<CompileOptions, HashMap<Box<str>, Arc<PlanCell>>>,
    texts: usize,
}

impl Memory {
    /// Memory for so many plans, and for as many texts.
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), places: RwLock::default() }
    }

    pub(super) fn find(&self, key: &PlanKey) -> Option<Made> {
        self.places.read().by_key.get(key)?.made()
    }

    pub(super) fn find_text(&self, text: &str, options: &CompileOptions) -> Option<Made> {
        self.places.read().by_text.get(options)?.get(text)?.made()
    }

    /// The place of this key, with nothing in it if it is new.
    pub(super) fn place(&self, key: PlanKey) -> Arc<PlanCell> {
        let places = self.places.upgradable_read();
        if let Some(place) = places.by_key.get(&key) {
            return Arc::clone(place);
        }
        let mut places = RwLockUpgradableReadGuard::upgrade(places);
        if places.by_key.len() >= self.most {
            places.sweep(self.most / 2);
        }
        Arc::clone(places.by_key.entry(key).or_default())
    }

    /// Has a text lead to a place.
    pub(super) fn note_text(&self, text: &str, options: &CompileOptions, place: &Arc<PlanCell>) {
        let mut places = self.places.write();
        if places.texts >= self.most {
            places.sweep(self.most / 2);
        }
        let texts = places.by_text.entry(*options).or_default();
        if texts.insert(text.into(), Arc::clone(place)).is_none() {
            places.texts += 1;
        }
    }

    /// Number of plans.
    pub(super) fn plans(&self) -> usize {
        self.places.read().by_key.len()
    }
}

impl PlanCells {
    /// Removes what was not used since the last time, and if that is not enough, whatever comes.
    fn sweep(&mut self, most: usize) {
        for texts in self.by_text.values_mut() {
            let mut room = most;
            texts.retain(|_, place| place.is_used.load(Ordering::Relaxed) && take(&mut room));
        }
        self.by_text.retain(|_, texts| !texts.is_empty());
        self.texts = self.by_text.values().map(HashMap::len).sum();
        let mut room = most;
        self.by_key.retain(|_, place| {
            let is_used = place.is_used.swap(false, Ordering::Relaxed);
            is_used && take(&mut room)
        });
    }
}

fn take(room: &mut usize) -> bool {
    let is_free = *room > 0;
    *room = room.saturating_sub(1);
    is_free
}

impl PlanCell {
    /// The plan that is here, if it has been made.
    fn made(&self) -> Option<Made> {
        let made = self.made.get()?.clone();
        // Most finds change nothing: the line stays in every core's cache.
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        Some(made)
    }

    /// The plan that is here, else the result of `make`. Threads that ask in the meantime wait for it.
    pub(super) fn made_by(&self, make: impl FnOnce() -> Made) -> Made {
        self.is_used.store(true, Ordering::Relaxed);
        self.made.get_or_init(make).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> PlanKey {
        PlanKey::of_bytes(&number.to_le_bytes())
    }

    #[test]
    fn memory_is_bounded_and_keeps_what_is_used() {
        let memory = Memory::new(8);
        let options = CompileOptions::default();
        for number in 0..100 {
            let place = memory.place(key(number));
            let _ = place.made_by(|| Ok(Arc::default()));
            memory.note_text(&number.to_string(), &options, &place);
            assert!(memory.find(&key(number)).is_some());
            assert!(memory.find_text(&number.to_string(), &options).is_some());
            assert!(memory.plans() <= 8, "{}", memory.plans());
        }
        assert!(memory.find(&key(0)).is_none());
    }
}
