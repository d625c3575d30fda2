//! Compiles the C++ shim against the installed PyTorch and links it into the extension.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Folder of the shim's sources.
const SOURCES: &str = "csrc";

fn main() {
    println!("cargo:rerun-if-changed={SOURCES}");
    println!("cargo:rerun-if-env-changed=PYO3_PYTHON");
    println!("cargo:rerun-if-env-changed=VIRTUAL_ENV");
    println!("cargo:rerun-if-env-changed=TORCH_SPYRE_LINT");
    println!("cargo:rerun-if-env-changed=TORCH_SPYRE_LINES");
    // Lints look at the Rust side only.
    if std::env::var_os("TORCH_SPYRE_LINT").is_some() {
        return;
    }
    let torch = torch_folder();
    let folder = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it"));
    println!("cargo:rustc-link-search=native={}", folder.display());
    let sources = sources();
    compile_all(&torch, &folder, &sources);
    for source in &sources {
        // Nothing refers to the objects that register the device: all of them are to be linked.
        println!("cargo:rustc-link-lib=static:+whole-archive={}", archive_name(source));
    }
    println!("cargo:rustc-link-search=native={}", torch.join("lib").display());
    // `import torch` has loaded these already when the extension is.
    for library in ["torch_python", "torch_cpu", "c10", "stdc++"] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
}

/// Compiles what is out of date, as many sources at a time as there are cores.
fn compile_all(torch: &Path, folder: &Path, sources: &[PathBuf]) {
    let rest = Mutex::new(sources.iter());
    // The lock is let go of before a source is compiled.
    let next = || rest.lock().expect("no one panics with it").next();
    let compile_next = || {
        while let Some(source) = next() {
            let name = archive_name(source);
            if is_older(&folder.join(format!("lib{name}.a")), source) {
                compile(torch, source, &name);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(compile_next))));
}

/// Name of a source's archive. Those with line tables are beside the others, so that neither is compiled anew.
fn archive_name(source: &Path) -> String {
    let kind = if has_lines() { "spyre_lines" } else { "spyre" };
    format!("{kind}_{}", source.file_stem().expect("a name").to_string_lossy())
}

/// Returns true if `tools/launch-files` asks for line tables, which the wheel does without.
fn has_lines() -> bool {
    std::env::var_os("TORCH_SPYRE_LINES").is_some()
}

fn compile(torch: &Path, source: &Path, name: &str) {
    let include = torch.join("include");
    let headers = python_headers();
    let lines = has_lines().then_some("-g1");
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .opt_level(2)
        .debug(false)
        .include(SOURCES)
        .flags(lines)
        .flag("-fvisibility=hidden")
        .flag("-Wno-unused-parameter")
        // As a system's, so that warnings are about our own lines.
        .flag("-isystem")
        .flag(include.to_str().expect("a path in UTF-8"))
        .flag("-isystem")
        .flag(include.join("kineto").to_str().expect("a path in UTF-8"))
        .flag("-isystem")
        .flag(headers.to_str().expect("a path in UTF-8"))
        .file(source)
        .cargo_metadata(false)
        .compile(name);
}

/// Returns true if an archive is to be made again: each source takes half a minute.
fn is_older(archive: &Path, source: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    let own = source.with_extension("h");
    let [shared, border] = ["spyre.h", "spyre_abi.h"].map(|name| Path::new(SOURCES).join(name));
    let inputs = [source, &own, &shared, &border, Path::new("build.rs")];
    inputs.iter().any(|input| changed(archive) < changed(input))
}

fn sources() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(SOURCES).expect("the shim's folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut sources: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|kind| kind == "cpp")).collect();
    // The longest first, so that cores end at the same time.
    sources
        .sort_by_key(|path| (Reverse(path.metadata().map_or(0, |data| data.len())), path.clone()));
    sources
}

/// Finds PyTorch without importing it: that takes seconds, and would load the extension itself.
fn torch_folder() -> PathBuf {
    let question = "import importlib.util as u; s = u.find_spec('torch'); \
                    print(s.submodule_search_locations[0] if s else '')";
    let python = python();
    let output = Command::new(&python).args(["-c", question]).output();
    let answer = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match answer {
        Ok(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => panic!("{} has no torch: install torch 2.13 first", python.display()),
    }
}

/// Finds Python's own headers: an exception that crosses C++ is one of its objects.
fn python_headers() -> PathBuf {
    let question = "import sysconfig; print(sysconfig.get_path('include'))";
    let python = python();
    let output = Command::new(&python).args(["-c", question]).output();
    let answer = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let folder = PathBuf::from(answer.unwrap_or_default());
    let remedy = "install them first (Debian: python3-dev)";
    assert!(folder.join("Python.h").exists(), "{} has no headers: {remedy}", python.display());
    folder
}

/// The interpreter that pyo3 builds for: maturin's, the environment's, or the first in the path.
fn python() -> PathBuf {
    if let Some(python) = std::env::var_os("PYO3_PYTHON") {
        return python.into();
    }
    match std::env::var_os("VIRTUAL_ENV") {
        Some(environment) => Path::new(&environment).join("bin/python"),
        None => "python3".into(),
    }
}
