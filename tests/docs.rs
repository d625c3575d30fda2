//! The documentation is run: its commands, its pictures. (Its Rust blocks are doc-tests, and its
//! console blocks are tests of the command line.)

use std::path::{Path, PathBuf};
use std::process::Command;

use spyre::compiler::{CompileOptions, Kernel};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every document.
fn documents() -> Vec<String> {
    let pages = std::fs::read_dir(root().join("docs"))
        .expect("docs")
        .map(|entry| format!("docs/{}", entry.expect("an entry").file_name().to_string_lossy()));
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let is_page = |name: &String| name.ends_with(".md");
    top.map(str::to_owned).into_iter().chain(pages.filter(is_page)).collect()
}

#[test]
fn every_page_is_run_as_a_doc_test() {
    let facade = read("src/lib.rs");
    for name in documents().iter().filter(|name| read(name).contains("```rust")) {
        assert!(facade.contains(&format!("include_str!(\"../{name}\")")), "{name} is not run");
    }
}

/// The blocks of a document that are kernels.
fn kernels(document: &str) -> Vec<String> {
    let blocks = document.split("```text\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    let is_kernel = |block: &&str| block.lines().any(|line| line.starts_with("kernel "));
    blocks.filter(is_kernel).map(str::to_owned).collect()
}

#[test]
fn every_kernel_in_the_documents_is_compiled() {
    let mut count = 0;
    for name in documents() {
        for text in kernels(&read(&name)) {
            let kernel: Kernel =
                text.parse().unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
            let plan = kernel.compile(&CompileOptions::default());
            plan.unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
            count += 1;
        }
    }
    assert!(count >= 8, "only {count} kernels");
}

/// The lines of a document's shell blocks.
fn commands(document: &str) -> Vec<String> {
    let mut inside = false;
    let mut commands = Vec::new();
    for line in document.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside {
            commands.push(line.to_owned());
        }
    }
    commands
}

/// Runs an example as the command line says, in an empty folder, and returns the folder.
fn run_example(arguments: &[&str], folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder");
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?} failed: {errors}");
}

#[test]
fn every_command_in_the_documents_works() {
    let makefile = read("Makefile");
    let folder = root().join("target/docs-test/commands");
    let _ = std::fs::remove_dir_all(&folder); // plans are not written over
    for name in documents() {
        for command in commands(&read(&name)) {
            let words: Vec<&str> = command.split_whitespace().collect();
            match words[..] {
                ["make", target] => {
                    assert!(makefile.contains(&format!("\n{target}:")), "{name}: {command}");
                }
                ["cargo", "run", ref arguments @ ..] => run_example(arguments, &folder),
                _ => panic!("{name}: no one tests {command:?}"),
            }
        }
    }
}

#[test]
fn the_picture_in_the_readme_is_what_the_tour_draws() {
    let folder = root().join("target/docs-test/picture");
    run_example(&["--example", "01-layout"], &folder);
    let drawn = std::fs::read_to_string(folder.join("layout.svg")).expect("a drawing");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(root().join("docs/layout.svg"), &drawn).expect("written");
    }
    assert!(drawn == read("docs/layout.svg"), "run BLESS=1 make test and look at the difference");
}

#[test]
fn every_link_in_the_documents_leads_somewhere() {
    for name in documents() {
        let document = read(&name);
        for link in document.split("](").skip(1) {
            let target = link.split(')').next().unwrap_or_default();
            let folder = root().join(&name).parent().expect("a folder").to_owned();
            assert!(folder.join(target).exists(), "{name} links to {target}");
        }
    }
}
