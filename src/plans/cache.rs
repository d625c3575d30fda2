use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use spyre_artifact::CompilerOutput;
use spyre_compiler::{CompileOptions, Kernel};

use super::entry::{self, Entry};
use super::memory::{Made, Memory, PlanCell};
use super::source::Source;
use super::{Bundle, CacheFolder, CacheSettings, PlanError, PlanKey, SettingsError};

/// Plans by what they are made from: each is compiled once, for all callers.
///
/// A plan is looked for in memory, in bundles and in the folder, in this order, and compiled where it
/// is nowhere. Threads that ask for one plan at the same time have it compiled once; processes may
/// each compile it, and the last one's file stays. Plans from files are decoded and checked, so a
/// broken file costs time and nothing else. A folder that cannot be used is reported once, by
/// [`take_warning`](Self::take_warning), and everything goes on without it.
#[derive(Debug)]
pub struct PlanCache {
    memory: Memory,
    bundles: Vec<Bundle>,
    folder: Option<CacheFolder>,
    counts: Counts,
    warning: Mutex<Warning>,
}

/// Numbers of plans, by origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Plans in memory.
    pub plans: usize,
    /// Asked for, and found in memory.
    pub memory_hits: u64,
    /// Found in a bundle.
    pub bundle_hits: u64,
    /// Found in the folder.
    pub folder_hits: u64,
    /// Compiled, or refused by the compiler.
    pub compiled: u64,
    /// Entries of bundles and of the folder that were broken.
    pub broken: u64,
}

#[derive(Debug, Default)]
struct Counts {
    memory_hits: AtomicU64,
    bundle_hits: AtomicU64,
    folder_hits: AtomicU64,
    compiled: AtomicU64,
    broken: AtomicU64,
}

/// A warning that the user gets once.
#[derive(Debug, Default)]
enum Warning {
    #[default]
    None,
    Waits(String),
    Reported,
}

impl PlanCache {
    /// One with nothing in memory.
    pub fn new(settings: CacheSettings) -> Self {
        let CacheSettings { folder, most_bytes, most_plans } = settings;
        Self {
            memory: Memory::new(most_plans),
            bundles: Vec::new(),
            folder: folder.map(|path| CacheFolder::new(path, most_bytes)),
            counts: Counts::default(),
            warning: Mutex::default(),
        }
    }

    /// Adds plans that were compiled beforehand.
    #[must_use]
    pub fn with_bundle(mut self, bundle: Bundle) -> Self {
        self.bundles.push(bundle);
        self
    }

    /// The one of this process, as its environment describes it: see [`CacheSettings`].
    pub fn of_process() -> Result<&'static Self, SettingsError> {
        static CACHE: OnceLock<PlanCache> = OnceLock::new();
        if let Some(cache) = CACHE.get() {
            return Ok(cache);
        }
        let settings = CacheSettings::from_environment()?;
        Ok(CACHE.get_or_init(|| Self::new(settings)))
    }

    /// The plan of a kernel.
    pub fn plan(
        &self,
        kernel: &Kernel,
        options: &CompileOptions,
    ) -> Result<Arc<CompilerOutput>, PlanError> {
        self.made(kernel, options).1
    }

    /// The plan of a kernel's text. A text that was asked for before is not parsed again.
    pub fn plan_of_text(
        &self,
        text: &str,
        options: &CompileOptions,
    ) -> Result<Arc<CompilerOutput>, PlanError> {
        if let Some(made) = self.memory.find_text(text, options) {
            Counts::add(&self.counts.memory_hits);
            return made;
        }
        let (place, made) = self.made(&text.parse()?, options);
        self.memory.note_text(text, options, &place);
        made
    }

    /// A plan that is in memory: the fastest way for those who keep a key.
    pub fn find(&self, key: &PlanKey) -> Option<Arc<CompilerOutput>> {
        let plan = self.memory.find(key)?.ok()?;
        Counts::add(&self.counts.memory_hits);
        Some(plan)
    }

    /// The folder that processes share, if there is one.
    pub fn folder(&self) -> Option<&CacheFolder> {
        self.folder.as_ref()
    }

    /// Numbers of plans until now, by origin.
    pub fn statistics(&self) -> CacheStatistics {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheStatistics {
            plans: self.memory.plans(),
            memory_hits: count(&self.counts.memory_hits),
            bundle_hits: count(&self.counts.bundle_hits),
            folder_hits: count(&self.counts.folder_hits),
            compiled: count(&self.counts.compiled),
            broken: count(&self.counts.broken),
        }
    }

    /// Warning for the user that the folder could not be used. It is given once, for the first time.
    pub fn take_warning(&self) -> Option<String> {
        let mut warning = self.warning.lock();
        if !matches!(*warning, Warning::Waits(_)) {
            return None;
        }
        match std::mem::replace(&mut *warning, Warning::Reported) {
            Warning::Waits(text) => Some(text),
            _ => None,
        }
    }

    /// A plan and its place in memory.
    fn made(&self, kernel: &Kernel, options: &CompileOptions) -> (Arc<PlanCell>, Made) {
        let source = Source::new(kernel, options);
        let key = source.key();
        let place = self.memory.place(key);
        let mut is_new = false;
        let made = place.made_by(|| {
            is_new = true;
            self.obtain(&key, &source, kernel, options)
        });
        if !is_new {
            Counts::add(&self.counts.memory_hits);
        }
        (place, made)
    }

    /// A plan that is not in memory.
    fn obtain(
        &self,
        key: &PlanKey,
        source: &Source,
        kernel: &Kernel,
        options: &CompileOptions,
    ) -> Made {
        if let Some(plan) = self.in_bundles(key, source) {
            Counts::add(&self.counts.bundle_hits);
            log(source, "is in a bundle");
            return Ok(plan);
        }
        if let Some(plan) = self.in_folder(key, source) {
            Counts::add(&self.counts.folder_hits);
            log(source, "is in the folder");
            return Ok(plan);
        }
        Counts::add(&self.counts.compiled);
        let plan = kernel.compile(options)?;
        log(source, "was compiled");
        self.to_folder(key, source, &plan);
        Ok(Arc::new(plan))
    }

    fn in_bundles(&self, key: &PlanKey, source: &Source) -> Option<Arc<CompilerOutput>> {
        self.bundles.iter().find_map(|bundle| self.decode(bundle.read(key)?, source))
    }

    fn in_folder(&self, key: &PlanKey, source: &Source) -> Option<Arc<CompilerOutput>> {
        let folder = self.folder.as_ref()?;
        let bytes = match folder.read(key) {
            Ok(bytes) => bytes?,
            Err(error) => {
                self.warn(folder, "read", &error);
                return None;
            }
        };
        let plan = self.decode(&bytes, source)?;
        folder.mark(key);
        Some(plan)
    }

    fn to_folder(&self, key: &PlanKey, source: &Source, plan: &CompilerOutput) {
        let Some(folder) = &self.folder else { return };
        // A plan that has no files was not made by our compiler.
        let Ok(bytes) = entry::encode(source, plan) else { return };
        if let Err(error) = folder.store(key, &bytes) {
            self.warn(folder, "written", &error);
        }
    }

    fn decode(&self, bytes: &[u8], source: &Source) -> Option<Arc<CompilerOutput>> {
        let plan = Entry::decode(bytes).and_then(|entry| entry.plan(source));
        if plan.is_err() {
            Counts::add(&self.counts.broken);
        }
        plan.ok().map(Arc::new)
    }

    fn warn(&self, folder: &CacheFolder, what: &str, error: &std::io::Error) {
        let mut warning = self.warning.lock();
        if matches!(*warning, Warning::None) {
            *warning = Warning::Waits(format!(
                "plans cannot be {what} in {}: {error}. They are compiled anew by every process; \
                 set SPYRE_CACHE_DIR to another folder, or SPYRE_CACHE=0 to do without",
                folder.path().display()
            ));
        }
    }
}

/// Says where a plan comes from.
fn log(source: &Source, place: &str) {
    tracing::debug!(target: "spyre.compiler", "the plan of {:?} {place}", source.name().unwrap_or_default());
}

impl Counts {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
