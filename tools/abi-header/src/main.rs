//! Writes `python/csrc/spyre_abi.h`: the C functions and types that `python/src` defines for the shim.
//!
//! With `--check` it writes nothing, and fails if the header is not what it would write.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The header, from the root of the project.
const HEADER: &str = "python/csrc/spyre_abi.h";

/// Types of Rust that the header names, as C++ knows them.
const TYPES: &str = "
struct StorageLayout;
template <typename T> using Box = T*;
template <typename T> using Option = T;";

/// Files and folders that define what the shim calls, from the root of the project.
const SOURCES: [&str; 7] = [
    "python/src/abi.rs",
    "python/src/abi",
    "python/src/failure.rs",
    "python/src/interrupts.rs",
    "python/src/native/arguments.rs",
    "python/src/statistics.rs",
    "python/src/traffic.rs",
];

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut header = Vec::new();
    bindings(&root).write(&mut header);
    let path = root.join(HEADER);
    if !std::env::args().any(|argument| argument == "--check") {
        std::fs::write(&path, header).expect("the header can be written");
        return ExitCode::SUCCESS;
    }
    if std::fs::read(&path).is_ok_and(|known| known == header) {
        return ExitCode::SUCCESS;
    }
    eprintln!("{HEADER} is not what python/src defines: run tools/abi-header/write");
    ExitCode::FAILURE
}

fn bindings(root: &Path) -> cbindgen::Bindings {
    let builder = cbindgen::Builder::new()
        .with_language(cbindgen::Language::Cxx)
        .with_pragma_once(true)
        .with_autogen_warning("// Written by tools/abi-header from python/src: do not edit it.")
        .with_after_include(TYPES)
        .exclude_item("Box")
        .exclude_item("Option")
        .with_documentation(true);
    let files = SOURCES.iter().flat_map(|source| files(&root.join(source)));
    let builder = files.fold(builder, cbindgen::Builder::with_src);
    builder.generate().expect("functions that C can call")
}

/// A file, or the files of a folder in the order of their names.
fn files(place: &Path) -> Vec<PathBuf> {
    if !place.is_dir() {
        return vec![place.to_owned()];
    }
    let entries = std::fs::read_dir(place).expect("a folder that can be read");
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}
