//! The folder that processes share: a file for each plan, named after its key.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::entry::Entry;
use super::key::PlanKey;

const KIND: &str = "plan";
/// Files of writers that have not come to an end, until they are as old as this.
const DRAFT: &str = "draft";
const OLD_DRAFT: Duration = Duration::from_secs(3600);
/// No plan comes near to it: what is larger is not read.
const MOST_ENTRY_BYTES: u64 = 1 << 30;
/// After so many plans of our own we look again how many there are: others write, too.
const LOOK_AFTER: u32 = 64;

/// Plans as files of a folder, which any number of processes read and write at once.
///
/// A file appears whole, by a rename, and is never changed but by a mark at its end for each time that
/// it was found. So no locks are needed: a process that meets a file that is gone or broken makes the
/// plan anew.
#[derive(Debug)]
pub struct CacheFolder {
    path: PathBuf,
    most_bytes: u64,
    stock: Mutex<Stock>,
}

/// Contents of the folder, as far as this process knows.
#[derive(Debug, Default)]
struct Stock {
    bytes: u64,
    stored: u32,
}

/// A plan in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPlan {
    /// Key by which it is found.
    pub key: PlanKey,
    /// Bytes of its file.
    pub bytes: u64,
    /// Time at which it was last found, or made.
    pub used_at: SystemTime,
    /// Number of times that a process without the plan found it here.
    pub hits: usize,
    /// Origin of the plan; `None` if the file is broken.
    pub made_from: Option<MadeFrom>,
}

/// Origin of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeFrom {
    /// The kernel's name.
    pub kernel: String,
    /// The compiler's version.
    pub compiler: String,
    /// Number formats that the device keeps: a profile's name.
    pub profile: String,
}

/// Plans that were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// Files.
    pub plans: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// File of a plan, as the file system describes it.
#[derive(Clone, Debug)]
struct Listed {
    key: PlanKey,
    path: PathBuf,
    bytes: u64,
    used_at: SystemTime,
}

impl CacheFolder {
    /// A folder that may not be there yet.
    pub fn new(path: impl Into<PathBuf>, most_bytes: u64) -> Self {
        Self { path: path.into(), most_bytes, stock: Mutex::default() }
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The most bytes of all plans together.
    pub fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// All plans, the one that was used last first. A folder that is not there has none.
    pub fn plans(&self) -> io::Result<Vec<KeptPlan>> {
        let mut plans: Vec<KeptPlan> = self.list()?.iter().map(Listed::look).collect();
        plans.sort_by_key(|plan| (std::cmp::Reverse(plan.used_at), plan.key));
        Ok(plans)
    }

    /// Removes all plans, and nothing else.
    pub fn clear(&self) -> io::Result<Cleared> {
        let mut cleared = Cleared::default();
        for listed in self.list()? {
            remove(&listed.path)?;
            cleared.plans += 1;
            cleared.bytes += listed.bytes;
        }
        self.remove_drafts(Duration::ZERO)?;
        *self.stock.lock() = Stock::default();
        Ok(cleared)
    }

    /// The bytes of an entry, if there is one.
    pub(super) fn read(&self, key: &PlanKey) -> io::Result<Option<Vec<u8>>> {
        match read(&self.file(key)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Notes that an entry was of use. Does nothing for a file that is only read; such entries are not
    /// removed either.
    pub(super) fn mark(&self, key: &PlanKey) {
        let file = OpenOptions::new().append(true).open(self.file(key));
        let _ = file.and_then(|mut file| file.write_all(b"."));
    }

    /// Writes an entry, whole or not at all, and makes room where there is too much.
    pub(super) fn store(&self, key: &PlanKey, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() as u64 > self.most_bytes {
            return Ok(());
        }
        create(&self.path)?;
        let draft = Draft::new(&self.path);
        fs::write(&draft.path, bytes)?;
        fs::rename(&draft.path, self.file(key))?;
        self.make_room(bytes.len() as u64)
    }

    /// Removes what was not used for the longest time, until a tenth of the folder is free.
    fn make_room(&self, more_bytes: u64) -> io::Result<()> {
        let mut stock = self.stock.lock();
        stock.bytes += more_bytes;
        stock.stored += 1;
        let is_known = stock.stored % LOOK_AFTER != 1;
        if is_known && stock.bytes <= self.most_bytes {
            return Ok(());
        }
        let mut listed = self.list()?;
        stock.bytes = listed.iter().map(|plan| plan.bytes).sum();
        self.remove_drafts(OLD_DRAFT)?;
        if stock.bytes <= self.most_bytes {
            return Ok(());
        }
        listed.sort_by_key(|plan| plan.used_at);
        for plan in listed {
            if stock.bytes <= self.most_bytes - self.most_bytes / 10 {
                break;
            }
            remove(&plan.path)?;
            stock.bytes = stock.bytes.saturating_sub(plan.bytes);
        }
        Ok(())
    }

    fn file(&self, key: &PlanKey) -> PathBuf {
        self.path.join(format!("{key}.{KIND}"))
    }

    /// The files of plans; what others removed in the meantime is left out.
    fn list(&self) -> io::Result<Vec<Listed>> {
        let mut listed = Vec::new();
        for path in self.files(KIND)? {
            let Some(Ok(key)) = path.file_stem().and_then(|stem| stem.to_str()).map(str::parse)
            else {
                continue;
            };
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.is_file() {
                let bytes = metadata.len();
                let used_at = metadata.modified()?;
                listed.push(Listed { key, path, bytes, used_at });
            }
        }
        Ok(listed)
    }

    fn remove_drafts(&self, older_than: Duration) -> io::Result<()> {
        for path in self.files(DRAFT)? {
            let modified = fs::symlink_metadata(&path).and_then(|metadata| metadata.modified());
            let age = modified.ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
            if age >= older_than {
                remove(&path)?;
            }
        }
        Ok(())
    }

    fn files(&self, kind: &str) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == kind) {
                paths.push(path);
            }
        }
        Ok(paths)
    }
}

impl Listed {
    /// Reads the file, to say what it was made from.
    fn look(&self) -> KeptPlan {
        let bytes = read(&self.path).unwrap_or_default();
        let entry = Entry::decode(&bytes).ok();
        let hits = entry.as_ref().map_or(0, Entry::marks);
        let made_from = entry.and_then(|entry| {
            let source = entry.source();
            Some(MadeFrom {
                kernel: source.name()?.to_owned(),
                compiler: source.compiler()?.to_owned(),
                profile: source.profile()?.to_owned(),
            })
        });
        let &Self { key, bytes, used_at, .. } = self;
        KeptPlan { key, bytes, used_at, hits, made_from }
    }
}

/// A file that is not complete yet; what is left of it goes when it is dropped.
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn new(folder: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self { path: folder.join(format!("{}-{count}.{DRAFT}", std::process::id())) }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // renamed, or not worth keeping
    }
}

/// Creates the folder for this user only: plans say what is computed.
fn create(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // To open a pipe would wait for its other end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no plain file"));
    }
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    if bytes > MOST_ENTRY_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too large for a plan"));
    }
    let mut content = Vec::with_capacity(bytes as usize);
    file.take(MOST_ENTRY_BYTES).read_to_end(&mut content)?;
    Ok(content)
}

/// Removes a file that others may have removed already.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
