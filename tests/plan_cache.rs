//! The plan cache: one compile for many threads, one folder for many processes, and no harm from
//! files that are broken, gone or not to be written.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime};

use spyre::compiler::{CompileOptions, Kernel};
use spyre::numerics::Profile;
use spyre::plans::{Bundle, CacheSettings, EntryFlaw, PlanCache, PlanError, PlanKey};

/// Variable by which each of many processes gets the folder to use.
const SHARED: &str = "SPYRE_TEST_SHARED_CACHE";

/// A folder that goes when it is dropped, and was not there before.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("spyre-plans-{}-{count}", std::process::id())))
    }

    fn cache(&self) -> PlanCache {
        PlanCache::new(CacheSettings::in_folder(&self.0))
    }

    fn file(&self, key: &PlanKey) -> PathBuf {
        self.0.join(format!("{key}.plan"))
    }

    fn names(&self) -> Vec<String> {
        names(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // one that stays does no harm
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A kernel for each number.
fn text(number: usize) -> String {
    format!("kernel times(i) {{\n in x: float32[i]\n out y: float32[i]\n y = x * {number}\n}}")
}

fn kernel(number: usize) -> Kernel {
    text(number).parse().expect("a kernel")
}

const OPTIONS: CompileOptions = CompileOptions::for_profile(Profile::Open);

#[test]
fn threads_that_ask_at_once_have_it_compiled_once() {
    let cache = PlanCache::new(CacheSettings::in_memory());
    let barrier = Barrier::new(8);
    let plans: Vec<_> = std::thread::scope(|scope| {
        let ask = |at: usize| {
            let cache = &cache;
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                match at % 2 {
                    0 => cache.plan(&kernel(1), &OPTIONS),
                    _ => cache.plan_of_text(&text(1), &OPTIONS),
                }
            })
        };
        let threads: Vec<_> = (0..8).map(ask).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let first = plans[0].as_ref().expect("a plan");
    assert!(plans.iter().all(|plan| Arc::ptr_eq(plan.as_ref().expect("a plan"), first)));
    let statistics = cache.statistics();
    assert_eq!((statistics.plans, statistics.compiled, statistics.memory_hits), (1, 1, 7));
}

#[test]
fn keys_differ_where_plans_may() -> Result<(), PlanError> {
    let cache = PlanCache::new(CacheSettings::in_memory());
    let card = CompileOptions::for_profile(Profile::Card);
    cache.plan(&kernel(1), &OPTIONS)?;
    cache.plan(&kernel(2), &OPTIONS)?;
    cache.plan(&kernel(1), &card)?;
    cache.plan(&kernel(1), &CompileOptions { max_tile: NonZeroU32::new(64), ..OPTIONS })?;
    cache.plan_of_text(&text(1).replace("kernel", "# the same\nkernel"), &OPTIONS)?;
    assert_eq!(cache.statistics().compiled, 4);
    assert_ne!(PlanKey::new(&kernel(1), &OPTIONS), PlanKey::new(&kernel(1), &card));
    Ok(())
}

#[test]
fn what_is_refused_once_is_not_compiled_again() {
    let cache = PlanCache::new(CacheSettings::in_memory());
    let wide = "kernel wide(i) {\n in x: float64[i]\n out y: float64[i]\n y = x\n}";
    let card = CompileOptions::for_profile(Profile::Card);
    for _ in 0..3 {
        let error = cache.plan_of_text(wide, &card).expect_err("the card has no float64");
        assert!(matches!(error, PlanError::Compile(_)), "{error}");
        let error = cache.plan_of_text("kernel", &card).expect_err("no kernel");
        assert!(matches!(error, PlanError::Parse(_)), "{error}");
    }
    assert_eq!(cache.statistics().compiled, 1);
}

#[test]
fn a_process_finds_what_another_one_left() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Folder::new();
    let compiled = folder.cache().plan(&kernel(1), &OPTIONS)?;
    for round in 1..=2 {
        let later = folder.cache();
        assert_eq!(later.plan(&kernel(1), &OPTIONS)?, compiled);
        let statistics = later.statistics();
        assert_eq!((statistics.folder_hits, statistics.compiled), (1, 0));
        let kept = later.folder().expect("a folder").plans()?;
        assert_eq!((kept.len(), kept[0].hits), (1, round));
        let made_from = kept[0].made_from.as_ref().expect("it is whole");
        assert_eq!((&*made_from.kernel, &*made_from.profile), ("times", "open"));
        assert_eq!(made_from.compiler, spyre::compiler::VERSION);
    }
    Ok(())
}

/// Not a test of its own: what each of many processes does.
#[test]
fn a_process_of_many() {
    let Some(folder) = std::env::var_os(SHARED) else { return };
    let cache = PlanCache::new(CacheSettings::in_folder(folder));
    for number in 0..20 {
        let plan = cache.plan(&kernel(number), &OPTIONS).expect("a plan");
        assert_eq!(*plan, kernel(number).compile(&OPTIONS).expect("a plan"));
    }
    assert_eq!((cache.statistics().broken, cache.take_warning()), (0, None));
}

#[test]
fn many_processes_share_a_folder() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Folder::new();
    let start = |_| {
        let mut command = Command::new(std::env::current_exe().expect("a test"));
        command.args(["--exact", "a_process_of_many"]).env(SHARED, &folder.0);
        command.output()
    };
    let outputs: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|at| scope.spawn(move || start(at))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    for output in outputs {
        let output = output?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let kept = folder.cache().folder().expect("a folder").plans()?;
    assert_eq!(kept.len(), 20);
    assert!(kept.iter().all(|plan| plan.made_from.is_some()));
    assert!(folder.names().iter().all(|name| name.ends_with(".plan")), "no draft is left");
    Ok(())
}

#[test]
fn broken_entries_are_made_again() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Folder::new();
    let cache = folder.cache();
    let expected = cache.plan(&kernel(1), &OPTIONS)?;
    cache.plan(&kernel(2), &OPTIONS)?;
    let [file, other] = [1, 2].map(|at| folder.file(&PlanKey::new(&kernel(at), &OPTIONS)));
    let whole = fs::read(&file)?;
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 0x10;
    let broken = [Vec::new(), whole[..whole.len() / 2].to_vec(), changed, fs::read(other)?];
    for bytes in broken {
        fs::write(&file, bytes)?;
        let later = folder.cache();
        assert_eq!(later.plan(&kernel(1), &OPTIONS)?, expected);
        let statistics = later.statistics();
        assert_eq!((statistics.broken, statistics.compiled), (1, 1));
        assert_eq!(fs::read(&file)?, whole, "it is whole again");
        assert_eq!(later.take_warning(), None);
    }
    Ok(())
}

#[test]
fn what_was_not_used_for_the_longest_time_goes_first() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Folder::new();
    folder.cache().plan(&kernel(0), &OPTIONS)?;
    let bytes = fs::metadata(folder.file(&PlanKey::new(&kernel(0), &OPTIONS)))?.len();
    let mut settings = CacheSettings::in_folder(&folder.0);
    settings.most_bytes = 10 * bytes;
    let cache = PlanCache::new(settings);
    for number in 1..40 {
        cache.plan(&kernel(number), &OPTIONS)?;
        let file = folder.file(&PlanKey::new(&kernel(number), &OPTIONS));
        let at = SystemTime::now() - Duration::from_secs(1000 - number as u64);
        fs::File::options().append(true).open(&file)?.set_modified(at)?;
        // Another process has a use for the first one, all the time.
        assert_eq!(folder.cache().plan(&kernel(0), &OPTIONS)?.steps[0].name, "times");
    }
    let kept = cache.folder().expect("a folder").plans()?;
    assert!(kept.iter().map(|plan| plan.bytes).sum::<u64>() <= 10 * bytes + bytes / 2);
    let is_kept =
        |number| kept.iter().any(|plan| plan.key == PlanKey::new(&kernel(number), &OPTIONS));
    assert!(is_kept(0) && is_kept(39) && !is_kept(1) && !is_kept(20), "{kept:?}");
    Ok(())
}

#[test]
fn a_folder_of_no_bytes_keeps_nothing() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Folder::new();
    let mut settings = CacheSettings::in_folder(&folder.0);
    settings.most_bytes = 0;
    let cache = PlanCache::new(settings);
    cache.plan(&kernel(1), &OPTIONS)?;
    assert!(!folder.0.exists());
    assert_eq!(cache.take_warning(), None);
    Ok(())
}

#[test]
fn a_folder_that_cannot_be_made_is_reported_once() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Folder::new();
    fs::create_dir(&folder.0)?;
    fs::write(folder.0.join("file"), b"in the way")?;
    let cache = PlanCache::new(CacheSettings::in_folder(folder.0.join("file/plans")));
    for number in 0..3 {
        cache.plan(&kernel(number), &OPTIONS)?;
    }
    let warning = cache.take_warning().expect("a warning for the user");
    assert!(warning.contains("file/plans") && warning.contains("SPYRE_CACHE_DIR"), "{warning}");
    cache.plan(&kernel(3), &OPTIONS)?;
    assert_eq!(cache.take_warning(), None);
    assert_eq!(cache.statistics().compiled, 4);
    Ok(())
}

#[test]
fn something_else_in_the_place_of_an_entry_does_no_harm() -> Result<(), Box<dyn std::error::Error>>
{
    let folder = Folder::new();
    fs::create_dir_all(folder.file(&PlanKey::new(&kernel(1), &OPTIONS)))?;
    let cache = folder.cache();
    cache.plan(&kernel(1), &OPTIONS)?;
    assert!(cache.take_warning().is_some());
    assert_eq!(folder.names().len(), 1, "no draft is left");
    Ok(())
}

#[cfg(unix)]
#[test]
fn a_folder_that_is_only_read_is_of_use() -> Result<(), Box<dyn std::error::Error>> {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    folder.cache().plan(&kernel(1), &OPTIONS)?;
    let file = folder.file(&PlanKey::new(&kernel(1), &OPTIONS));
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    set(&file, 0o400)?;
    set(&folder.0, 0o500)?;
    let can_write = fs::write(folder.0.join("mine"), b"").is_ok(); // as root

    let cache = folder.cache();
    cache.plan(&kernel(1), &OPTIONS)?;
    assert_eq!((cache.statistics().folder_hits, cache.take_warning()), (1, None));
    cache.plan(&kernel(2), &OPTIONS)?;
    assert_eq!(cache.take_warning().is_none(), can_write);

    set(&folder.0, 0o700)?;
    Ok(())
}

#[test]
fn clearing_removes_plans_and_nothing_else() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Folder::new();
    let cache = folder.cache();
    let empty = cache.folder().expect("a folder").clear()?;
    assert_eq!((empty.plans, empty.bytes), (0, 0), "it is not there yet");
    cache.plan(&kernel(1), &OPTIONS)?;
    cache.plan(&kernel(2), &OPTIONS)?;
    for name in ["mine.txt", "mine.plan", "1-1.draft"] {
        fs::write(folder.0.join(name), b"?")?;
    }
    let cleared = cache.folder().expect("a folder").clear()?;
    assert!(cleared.plans == 2 && cleared.bytes > 1000, "{cleared:?}");
    assert_eq!(folder.names(), ["mine.plan", "mine.txt"]);
    Ok(())
}

#[test]
fn a_process_without_a_home_keeps_plans_in_memory() -> Result<(), Box<dyn std::error::Error>> {
    let settings = CacheSettings::from_variables(|_| None)?;
    assert_eq!(settings.folder, None);
    let cache = PlanCache::new(settings);
    cache.plan(&kernel(1), &OPTIONS)?;
    assert_eq!((cache.statistics().compiled, cache.take_warning()), (1, None));
    Ok(())
}

#[test]
fn a_bundle_is_used_before_the_folder_and_is_not_trusted() -> Result<(), Box<dyn std::error::Error>>
{
    let folder = Folder::new();
    let kernels = [kernel(1), kernel(2), kernel(1)];
    let bytes = Bundle::compile(kernels.iter().map(|kernel| (kernel, &OPTIONS)))?;
    let bundle = Bundle::new(bytes.clone())?;
    assert_eq!(bundle.len(), 2);
    let cache = folder.cache().with_bundle(bundle);
    cache.plan(&kernels[0], &OPTIONS)?;
    cache.plan(&kernel(3), &OPTIONS)?;
    let statistics = cache.statistics();
    assert_eq!((statistics.bundle_hits, statistics.compiled), (1, 1));
    assert_eq!(folder.names().len(), 1, "what ships is not kept twice");

    let mut broken = bytes.clone();
    let last = broken.len() - 1;
    broken[last] ^= 1;
    let cache = PlanCache::new(CacheSettings::in_memory()).with_bundle(Bundle::new(broken)?);
    cache.plan(&kernels[0], &OPTIONS)?;
    cache.plan(&kernels[1], &OPTIONS)?;
    let statistics = cache.statistics();
    assert_eq!((statistics.bundle_hits, statistics.broken, statistics.compiled), (1, 1, 1));

    for length in 0..bytes.len() {
        assert!(Bundle::new(bytes[..length].to_vec()).is_err());
    }
    assert_eq!(
        Bundle::new(&b"SPYRPLNS\x01\0\0\0\x01\0\0\0\0\0\0\0x"[..]).err(),
        Some(EntryFlaw::Form)
    );
    Ok(())
}
