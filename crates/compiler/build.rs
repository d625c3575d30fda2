//! A number for what the compiler is made from: plans of two compilers are not taken for one
//! another's, whatever their versions say.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Sources that a plan depends on, beside this crate.
const SOURCES: [&str; 3] = ["src", "../artifact/src", "../numerics/src"];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = Vec::new();
    for folder in SOURCES.map(|folder| here.join(folder)) {
        println!("cargo::rerun-if-changed={}", folder.display());
        collect(&folder, &mut files)?;
    }
    files.sort();
    let mut digest = Digest::default();
    for path in &files {
        let name = path.strip_prefix(&here).unwrap_or(path).to_string_lossy();
        digest.add(name.as_bytes());
        digest.add(&fs::read(path)?);
    }
    println!("cargo::rustc-env=SPYRE_COMPILER_SOURCES={:016x}", digest.0);
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

/// FNV-1a: it tells sources apart, and is no protection against attacks.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_le_bytes();
        for &byte in length.iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
