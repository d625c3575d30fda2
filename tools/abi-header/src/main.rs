//! Writes `python/csrc/spyre_abi.h`: the C functions and types that `python/src` defines for the shim, and
//! `python/csrc/collectives.h`: those for the library of the distributed backend.
//!
//! With `--check` it writes nothing, and fails if a header is not what it would write.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A header, and the files and folders that define what it holds, from the root of the project.
struct Header {
    path: &'static str,
    sources: &'static [&'static str],
    /// Headers that it needs; without any, it says what Rust's own types are.
    includes: &'static [&'static str],
    /// Types that no function names.
    items: &'static [&'static str],
}

const HEADERS: [Header; 2] = [
    Header {
        path: "python/csrc/spyre_abi.h",
        sources: &[
            "python/src/abi.rs",
            "python/src/abi",
            "python/src/failure.rs",
            "python/src/interrupts.rs",
            "python/src/native/arguments.rs",
            "python/src/statistics.rs",
            "python/src/traffic.rs",
        ],
        includes: &[],
        items: &[],
    },
    Header {
        path: "python/csrc/collectives.h",
        sources: &["python/src/collectives.rs", "python/src/collectives"],
        includes: &["spyre_abi.h"],
        items: &["GroupTable"],
    },
];

/// Types of Rust that the header names, as C++ knows them.
const TYPES: &str = "
struct StorageLayout;
template <typename T> using Box = T*;
template <typename T> using Option = T;";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is_check = std::env::args().any(|argument| argument == "--check");
    let mut code = ExitCode::SUCCESS;
    for header in &HEADERS {
        let mut text = Vec::new();
        bindings(&root, header).write(&mut text);
        let path = root.join(header.path);
        if std::fs::read(&path).is_ok_and(|known| known == text) {
            continue;
        }
        if is_check {
            eprintln!("{} is not what python/src defines: run tools/abi-header/write", header.path);
            code = ExitCode::FAILURE;
        } else {
            std::fs::write(&path, text).expect("the header can be written");
        }
    }
    code
}

fn bindings(root: &Path, header: &Header) -> cbindgen::Bindings {
    let mut builder = cbindgen::Builder::new()
        .with_language(cbindgen::Language::Cxx)
        .with_pragma_once(true)
        .with_autogen_warning("// Written by tools/abi-header from python/src: do not edit it.")
        .exclude_item("Box")
        .exclude_item("Option")
        .with_documentation(true);
    if header.includes.is_empty() {
        builder = builder.with_after_include(TYPES);
    }
    builder = header.includes.iter().fold(builder, cbindgen::Builder::with_include);
    builder = header.items.iter().fold(builder, cbindgen::Builder::include_item);
    let files = header.sources.iter().flat_map(|source| files(&root.join(source)));
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
