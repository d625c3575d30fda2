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

/// Names in a folder.
fn entries(folder: &str) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(root().join(folder)).expect("a folder");
    let folder = folder.to_owned();
    entries
        .map(move |entry| format!("{folder}/{}", entry.expect("it").file_name().to_string_lossy()))
}

/// Every document.
fn documents() -> Vec<String> {
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md", "CHANGELOG.md"];
    let pages = entries("docs").filter(|name| name.ends_with(".md"));
    top.map(str::to_owned).into_iter().chain(pages).chain(designs()).collect()
}

/// The pages of crates.
fn designs() -> impl Iterator<Item = String> {
    let folders = entries("crates").chain(["python".to_owned()]);
    folders.map(|folder| format!("{folder}/DESIGN.md")).filter(|name| root().join(name).exists())
}

#[test]
fn every_page_is_run_as_a_doc_test() {
    let facade = read("src/lib.rs");
    for name in documents().iter().filter(|name| read(name).contains("```rust")) {
        let is_run = match name.strip_suffix("/DESIGN.md") {
            Some(folder) => read(&format!("{folder}/src/lib.rs")).contains(DESIGN),
            None => facade.contains(&format!("include_str!(\"../{name}\")")),
        };
        assert!(is_run, "{name} is not run");
    }
}

/// Line of a crate's documentation that has its page.
const DESIGN: &str = "#![doc = include_str!(\"../DESIGN.md\")]";

#[test]
fn every_page_of_a_crate_is_its_documentation() {
    for name in designs() {
        let library = name.replace("DESIGN.md", "src/lib.rs");
        assert!(read(&library).contains(DESIGN), "{library} has no {name}");
    }
}

/// Rows of tables that end with a type and its file.
fn defined(document: &str) -> Vec<[String; 2]> {
    let rows = document.lines().filter_map(|line| line.strip_suffix(".rs |"));
    let row = |line: &str| {
        let mut cells = line.rsplit(" | ");
        let file = format!("{}.rs", cells.next()?);
        Some([cells.next()?.trim_matches('`').to_owned(), file])
    };
    rows.filter_map(row).collect()
}

#[test]
fn words_and_questions_lead_to_the_files_that_define_their_types() {
    let words = defined(&read("GLOSSARY.md"));
    let questions = defined(&read("CONTRIBUTING.md"));
    assert!((40..=50).contains(&words.len()), "{} words", words.len());
    assert_eq!(questions.len(), 10);
    for [name, file] in words.iter().chain(&questions) {
        let kinds = ["struct", "enum", "trait", "type", "const", "fn"];
        let text = read(file);
        let is_defined = kinds.iter().any(|kind| {
            let start = format!("{kind} {name}");
            text.match_indices(&start).any(|(at, _)| {
                let next = text[at + start.len()..].chars().next();
                !next.is_some_and(|next| next.is_alphanumeric() || next == '_')
            })
        });
        assert!(is_defined, "{file} does not define {name}");
    }
}

#[test]
fn every_file_that_a_page_names_is_there() {
    let roots = ["crates/", "python/", "src/plans", "tests/", "tools/", "docs/"];
    let mut count = 0;
    for name in documents().iter().filter(|name| *name != "CHANGELOG.md") {
        for word in read(name).split('`').skip(1).step_by(2) {
            let is_file = roots.iter().any(|root| word.starts_with(root))
                && [".rs", ".cpp", ".h", ".md", ".py"].iter().any(|end| word.ends_with(end));
            if is_file && !word.contains(['*', '{', '<', ' ']) {
                assert!(root().join(word).exists(), "{name} names {word}");
                count += 1;
            }
        }
    }
    assert!(count > 20, "only {count} files");
}

#[test]
fn every_file_that_a_launch_passes_is_there() {
    let page = read("docs/life-of-a-launch.md");
    let list = page.split("<!-- launch-files: ").nth(1).expect("a list between two markers");
    let files: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    assert!(files.len() > 20, "only {} files", files.len());
    assert!(list.contains(&format!("\n{} files, ", files.len())), "not {} files", files.len());
    for file in files {
        assert!(root().join(file).exists(), "{file} is gone: run make launch-files");
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
