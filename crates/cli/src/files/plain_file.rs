//! Files that are read whole.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use spyre::compiler::MOST_TEXT_BYTES;

/// The text of a kernel.
pub(crate) fn kernel_text(path: &Path) -> Result<String> {
    let name = || path.display().to_string();
    let most = MOST_TEXT_BYTES as u64;
    let file = open(path)?;
    let mut text = String::new();
    // It may have grown since it was looked at.
    file.take(most + 1).read_to_string(&mut text).with_context(name)?;
    let given = fs::metadata(path).map_or(text.len() as u64, |known| known.len());
    ensure!(
        text.len() <= MOST_TEXT_BYTES,
        "{}: {given} bytes, and a kernel's text has {most} at most: make several kernels of it",
        name()
    );
    Ok(text)
}

/// A plain file, opened: to read a device, a pipe or a socket could go on for ever.
pub(crate) fn open(path: &Path) -> Result<File> {
    let name = || path.display().to_string();
    let kind = fs::metadata(path).with_context(name)?.file_type();
    if kind.is_dir() {
        bail!("{}: is a folder; give a plain file", name());
    }
    ensure!(kind.is_file(), "{}: is a device, a pipe or a socket; give a plain file", name());
    File::open(path).with_context(name)
}
