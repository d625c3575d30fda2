//! `docs/command-line.md` shows real output: its console blocks are run, in order, in one folder.

use std::path::PathBuf;

use crate::bed::{Bed, Said};

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/command-line.md")
}

/// A folder with the kernel that the page compiles.
fn bed() -> Bed {
    let bed = Bed::new();
    bed.write("softmax.ir", include_bytes!("../../../../examples/kernels/softmax.ir"));
    bed
}

/// A command of the page, and the lines that it shows.
struct Example {
    command: String,
    shown: Vec<String>,
}

/// A page in parts: text as it is, and the commands of its console blocks.
enum Part {
    Text(String),
    Example(Example),
}

fn parts(page: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut is_console = false;
    for line in page.lines() {
        match parts.last_mut() {
            _ if line.starts_with("```") => {
                is_console = line == "```console";
                parts.push(Part::Text(line.to_owned()));
            }
            _ if is_console && line.starts_with("$ ") => {
                let command = line[2..].to_owned();
                let shown = Vec::new();
                parts.push(Part::Example(Example { command, shown }));
            }
            Some(Part::Example(example)) if is_console => example.shown.push(line.to_owned()),
            _ => parts.push(Part::Text(line.to_owned())),
        }
    }
    parts
}

/// Lines that a command prints, errors behind the rest.
fn run(bed: &Bed, command: &str) -> Vec<String> {
    let mut words = command.split_whitespace().peekable();
    let mut variables = Vec::new();
    while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
        variables.push((name, value));
        words.next();
    }
    assert_eq!(words.next(), Some("spyre"), "no one tests {command:?}");
    let arguments = words.collect::<Vec<_>>().join(" ");
    let output = bed.command(&arguments).envs(variables).output().expect("it starts");
    let said = Said::of(&output);
    said.out.lines().chain(said.errors.lines()).map(str::to_owned).collect()
}

/// A line without what differs from machine to machine: times, cores, their instructions.
fn settled(line: &str) -> String {
    let machine = ["threads ", "cpu ", "spyre 0."];
    if let Some(start) = machine.into_iter().find(|start| line.trim_start().starts_with(start)) {
        return start.to_owned();
    }
    let is_timed =
        ["blocks", "bar", "<=", ">=", " ago", "cache: "].iter().any(|word| line.contains(word));
    if !is_timed {
        return line.to_owned();
    }
    let words = line.split_whitespace().filter(|word| *word != "MISSED").map(|word| {
        let is_number = word.trim_end_matches([',', ';']).parse::<f64>().is_ok();
        let is_unit = ["ns", "us", "ms"].contains(&word.trim_end_matches([',', ';']));
        let is_key = word.len() == 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_number || is_unit || is_key { "#" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns true if a command said what the page shows. A line of dots stands for any number of lines.
fn agrees(shown: &[String], said: &[String]) -> bool {
    match (shown, said) {
        ([], []) => true,
        ([dots, rest @ ..], _) if dots.trim() == "..." => {
            (0..=said.len()).any(|skipped| agrees(rest, &said[skipped..]))
        }
        ([first, rest @ ..], [line, lines @ ..]) => {
            settled(first) == settled(line) && agrees(rest, lines)
        }
        _ => false,
    }
}

#[test]
fn the_page_shows_what_commands_say() {
    let bed = bed();
    let text = std::fs::read_to_string(page()).expect("the page");
    let is_blessed = std::env::var_os("BLESS").is_some();
    let mut page_now = String::new();
    let mut examples = 0;
    for part in parts(&text) {
        let example = match part {
            Part::Text(line) => {
                page_now += &(line + "\n");
                continue;
            }
            Part::Example(example) => example,
        };
        examples += 1;
        let Example { command, shown } = example;
        let said = run(&bed, &command);
        let is_cut = shown.iter().any(|line| line.trim() == "...");
        let lines = if is_blessed && !is_cut && !agrees(&shown, &said) { &said } else { &shown };
        page_now += &format!("$ {command}\n");
        lines.iter().for_each(|line| page_now += &format!("{line}\n"));
        if !is_blessed || is_cut {
            assert!(agrees(&shown, &said), "{command} says\n{}", said.join("\n"));
        }
    }
    assert!(examples >= 10, "only {examples} examples");
    if is_blessed {
        std::fs::write(page(), page_now).expect("written");
    }
}

#[test]
fn every_sub_command_and_field_is_on_the_page() {
    let text = std::fs::read_to_string(page()).expect("the page");
    let bed = Bed::with_matmul();
    bed.write("softmax.ir", include_bytes!("../../../../examples/kernels/softmax.ir"));
    let documents = [
        bed.json("info"),
        bed.json("plan addition -o add"),
        bed.json("cache"),
        bed.json("compile softmax.ir"),
        bed.json("inspect matmul"),
        bed.json("run matmul --fill zeros"),
        bed.json("trace matmul --fill zeros -o t.json"),
        bed.json("bench --filter no-such-benchmark"),
    ];
    for document in documents {
        for field in document.as_object().expect("an object").keys() {
            assert!(text.contains(&format!("`{field}`")), "{field} is not explained");
        }
    }
}
