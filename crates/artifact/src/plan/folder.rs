//! A plan as a folder. Writing is all or nothing; reading trusts no name, size or byte.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::CompilerOutput;
use super::files::{self, refuse};
use super::manifest::{MAX_PLAN_BYTES, Manifest, PLAN_FILE};
use crate::Error;

pub(super) fn save(plan: &CompilerOutput, folder: &Path) -> Result<(), Error> {
    write(folder, files::of_plan(plan)?)
}

pub(super) fn load(folder: &Path) -> Result<CompilerOutput, Error> {
    let found = file_names(folder)?;
    let manifest = Manifest::from_json(&read(&folder.join(PLAN_FILE), MAX_PLAN_BYTES)?)?;
    check_names(folder, &found, &manifest)?;
    files::to_plan(manifest, folder, |file| read(&folder.join(&file.file), file.bytes))
}

/// Writes files to a folder that is not there yet: all of them, or none.
pub(super) fn write(folder: &Path, files: Vec<(String, Vec<u8>)>) -> Result<(), Error> {
    if fs::symlink_metadata(folder).is_ok() {
        return Err(refuse(folder, "is already there; remove it or choose another name"));
    }
    let draft = DraftFolder::beside(folder)?;
    for (name, bytes) in files {
        draft.write(&name, &bytes)?;
    }
    draft.publish(folder)
}

/// A folder that is not complete yet; what is left of it goes when it is dropped.
#[derive(Debug)]
struct DraftFolder {
    path: PathBuf,
}

impl DraftFolder {
    /// A new folder on the same file system, so that the last step is one rename.
    fn beside(folder: &Path) -> Result<Self, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let Some(name) = folder.file_name() else {
            return Err(refuse(folder, "is no name for a folder"));
        };
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{count}", std::process::id()));
        let path = folder.with_file_name(hidden);
        fs::create_dir(&path).map_err(|error| refuse(&path, error.to_string()))?;
        Ok(Self { path })
    }

    /// Writes a file and has it reach the disk: a rename must not overtake what it publishes.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path.join(name);
        let written = File::create_new(&path).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        written.map_err(|error| refuse(&path, error.to_string()))
    }

    fn publish(&self, folder: &Path) -> Result<(), Error> {
        fs::rename(&self.path, folder).map_err(|error| refuse(folder, error.to_string()))
    }
}

impl Drop for DraftFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path); // published, or not worth keeping
    }
}

/// The bytes of a plain file, if they are not more than announced.
pub(super) fn read(path: &Path, most_bytes: u64) -> Result<Vec<u8>, Error> {
    let io = |error: std::io::Error| refuse(path, error.to_string());
    let named = fs::symlink_metadata(path).map_err(io)?;
    if !named.is_file() {
        return Err(refuse(path, "is no plain file; links and folders are refused"));
    }
    let file = File::open(path).map_err(io)?;
    let opened = file.metadata().map_err(io)?;
    if !is_same_file(&named, &opened) {
        return Err(refuse(path, "was exchanged while it was opened"));
    }
    if opened.len() > most_bytes {
        let reason = format!("{} bytes, expected at most {most_bytes}", opened.len());
        return Err(refuse(path, reason));
    }
    let mut bytes = Vec::with_capacity(opened.len() as usize);
    file.take(most_bytes + 1).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

#[cfg(unix)]
fn is_same_file(named: &fs::Metadata, opened: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (named.dev(), named.ino()) == (opened.dev(), opened.ino())
}

#[cfg(not(unix))]
fn is_same_file(named: &fs::Metadata, opened: &fs::Metadata) -> bool {
    named.len() == opened.len() && opened.is_file()
}

fn file_names(folder: &Path) -> Result<BTreeSet<OsString>, Error> {
    let io = |error: std::io::Error| refuse(folder, error.to_string());
    if !fs::symlink_metadata(folder).map_err(io)?.is_dir() {
        return Err(refuse(folder, "is no folder; links are refused"));
    }
    fs::read_dir(folder).map_err(io)?.map(|entry| Ok(entry.map_err(io)?.file_name())).collect()
}

/// Refuses files that the plan does not name, and names without a file.
fn check_names(
    folder: &Path,
    found: &BTreeSet<OsString>,
    manifest: &Manifest,
) -> Result<(), Error> {
    let images = manifest.images.iter().map(|image| image.file.as_str());
    let expected: BTreeSet<OsString> = images.chain([PLAN_FILE]).map(OsString::from).collect();
    if let Some(missing) = expected.difference(found).next() {
        return Err(refuse(&folder.join(missing), "is missing, but the plan names it"));
    }
    match found.difference(&expected).next() {
        Some(extra) => Err(refuse(&folder.join(extra), "is not part of the plan; remove it")),
        None => Ok(()),
    }
}
