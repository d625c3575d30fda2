//! A plan as a folder. Writing is all or nothing; reading trusts no name, size or byte.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::CompilerOutput;
use super::manifest::{ImageFile, ImageKind, MAX_PLAN_BYTES, Manifest, PLAN_FILE};
use crate::{CodeImage, Error};

pub(super) fn save(plan: &CompilerOutput, folder: &Path) -> Result<(), Error> {
    if fs::symlink_metadata(folder).is_ok() {
        return Err(refuse(folder, "is already there; remove it or choose another name"));
    }
    let draft = DraftFolder::beside(folder)?;
    let mut files = Vec::with_capacity(plan.images.len());
    for (at, image) in plan.images.iter().enumerate() {
        files.push(draft.write_image(format!("image-{at}.bin"), image)?);
    }
    let json = Manifest::new(plan, files).to_json()?;
    if json.len() as u64 > MAX_PLAN_BYTES {
        let reason = format!("{} bytes of JSON, at most {MAX_PLAN_BYTES}", json.len());
        return Err(refuse(&folder.join(PLAN_FILE), reason));
    }
    draft.write(PLAN_FILE, json.as_bytes())?;
    draft.publish(folder)
}

pub(super) fn load(folder: &Path) -> Result<CompilerOutput, Error> {
    let found = file_names(folder)?;
    let json = read(&folder.join(PLAN_FILE), MAX_PLAN_BYTES)?;
    let manifest = Manifest::from_json(&json)?;
    check_names(folder, &found, &manifest)?;
    let images: Result<_, _> =
        manifest.images.iter().enumerate().map(|(at, file)| load_image(folder, at, file)).collect();
    let plan = manifest.into_plan(images?);
    plan.check()?;
    Ok(plan)
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

    fn write_image(&self, file: String, image: &CodeImage) -> Result<ImageFile, Error> {
        let bytes = image.encode();
        self.write(&file, &bytes)?;
        let (kind, crc32) = (ImageKind::of(image), crc32fast::hash(&bytes));
        Ok(ImageFile { file, kind, bytes: bytes.len() as u64, crc32 })
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

fn load_image(folder: &Path, at: usize, file: &ImageFile) -> Result<CodeImage, Error> {
    let path = folder.join(&file.file);
    let bytes = read(&path, file.bytes)?;
    if bytes.len() as u64 != file.bytes {
        let (found, expected) = (bytes.len(), file.bytes);
        return Err(refuse(&path, format!("{found} bytes, but the plan says {expected}")));
    }
    let crc32 = crc32fast::hash(&bytes);
    if crc32 != file.crc32 {
        let expected = file.crc32;
        let reason = format!("checksum {crc32:#010x}, but images[{at}].crc32 is {expected:#010x}");
        return Err(refuse(&path, reason));
    }
    let image = CodeImage::decode(&bytes).map_err(|error| Error::Image {
        file: path.display().to_string(),
        error: Box::new(error),
    })?;
    match ImageKind::of(&image) == file.kind {
        true => Ok(image),
        false => {
            let reason = format!("its kind is not the {:?} of images[{at}].kind", file.kind);
            Err(refuse(&path, reason))
        }
    }
}

/// The bytes of a plain file, if they are not more than announced.
fn read(path: &Path, most_bytes: u64) -> Result<Vec<u8>, Error> {
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
    match fs::symlink_metadata(folder).map_err(io)?.is_dir() {
        true => {}
        false => return Err(refuse(folder, "is no folder; links are refused")),
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

fn refuse(path: &Path, reason: impl Into<String>) -> Error {
    Error::File { file: path.display().to_string(), reason: reason.into() }
}
