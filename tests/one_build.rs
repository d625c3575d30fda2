//! `make run` compiles the workspace once: the command, the wheel and the examples ask the same features of
//! what they share. A crate with other features is another crate to cargo, and so is all that is made from it.

use std::collections::BTreeMap;
use std::process::Command;

/// The features of every crate that a package is compiled from.
fn features(arguments: &[&str]) -> BTreeMap<String, String> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["tree", "--offline", "--locked"]);
    command.args(["--prefix", "none", "--format", "{p}|{f}"]).args(arguments);
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names are text");
    let line = |line: &str| {
        let (name, features) = line.trim_end_matches(" (*)").split_once('|')?;
        Some((name.to_owned(), features.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn the_command_the_wheel_and_the_examples_share_their_crates() {
    let wheel = features(&["-p", "torch-spyre", "-F", "pyo3/abi3-py310", "-e", "normal,build"]);
    let others = [
        ("the plans", features(&["-p", "spyre", "-e", "normal,build"])),
        ("the command", features(&["-p", "spyre-cli", "-e", "normal,build"])),
        ("the examples", features(&["-p", "spyre", "-e", "normal,build,dev"])),
    ];
    for (name, crates) in others {
        let shared: Vec<_> = crates.keys().filter(|known| wheel.contains_key(*known)).collect();
        assert!(shared.len() > 40, "{name} and the wheel share {} crates", shared.len());
        for known in shared {
            let own = &crates[known];
            let wheels = &wheel[known];
            assert_eq!(own, wheels, "{known}: features for {name}, and for the wheel");
        }
    }
}
