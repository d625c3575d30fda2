//! The architecture as a test: which crate may know which.

use std::collections::BTreeMap;
use std::process::Command;

/// Each crate, and the crates of ours that it may name.
const LAYERS: &[(&str, &[&str])] = &[
    ("spyre-numerics", &[]),
    ("spyre-layout", &["spyre-numerics"]),
    ("spyre-collectives", &["spyre-numerics"]),
    ("spyre-artifact", &["spyre-layout", "spyre-numerics"]),
    ("spyre-hal", &["spyre-layout", "spyre-numerics"]),
    ("spyre-card", &["spyre-artifact", "spyre-hal", "spyre-layout", "spyre-numerics"]),
    ("spyre-compiler", &["spyre-artifact", "spyre-numerics"]),
    ("spyre-aten", &["spyre-artifact", "spyre-compiler", "spyre-layout", "spyre-numerics"]),
    ("spyre-flex", &["spyre-hal", "spyre-layout", "spyre-numerics"]),
    ("spyre-picture", &["spyre-layout", "spyre-numerics"]),
    (
        "spyre",
        &[
            "spyre-artifact",
            "spyre-aten",
            "spyre-card",
            "spyre-collectives",
            "spyre-compiler",
            "spyre-flex",
            "spyre-hal",
            "spyre-layout",
            "spyre-numerics",
            "spyre-picture",
            "spyre-runtime",
        ],
    ),
    (
        "spyre-runtime",
        &["spyre-artifact", "spyre-flex", "spyre-hal", "spyre-layout", "spyre-numerics"],
    ),
    (
        "spyre-bench",
        &[
            "spyre-artifact",
            "spyre-card",
            "spyre-flex",
            "spyre-hal",
            "spyre-layout",
            "spyre-numerics",
            "spyre-runtime",
        ],
    ),
    (
        "spyre-fuzz",
        &[
            "spyre-artifact",
            "spyre-card",
            "spyre-flex",
            "spyre-hal",
            "spyre-layout",
            "spyre-numerics",
            "spyre-runtime",
        ],
    ),
    ("spyre-cli", &["spyre", "spyre-bench"]),
    ("spyre-simulation", &["spyre-flex", "spyre-hal", "spyre-layout", "spyre-numerics"]),
    ("torch-spyre", &["spyre"]),
];

/// The dependencies of every crate on crates of ours, as cargo sees them.
fn edges() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("a name").to_owned();
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            let ours =
                dependencies.iter().map(|d| text(&d["name"])).filter(|d| d.starts_with("spyre"));
            (text(&package["name"]), ours.collect())
        })
        .collect()
}

#[test]
fn every_crate_knows_only_the_layers_below_it() {
    let layers: BTreeMap<&str, &[&str]> = LAYERS.iter().copied().collect();
    let edges = edges();
    assert_eq!(
        edges.keys().map(String::as_str).collect::<Vec<_>>(),
        layers.keys().copied().collect::<Vec<_>>(),
        "every crate has a row in LAYERS"
    );
    for (name, dependencies) in &edges {
        for dependency in dependencies {
            let allowed = layers[name.as_str()].contains(&dependency.as_str());
            assert!(allowed, "{name} may not know {dependency}: see ARCHITECTURE.md");
        }
    }
}

#[test]
fn examples_are_numbered() {
    for (folder, kind) in [("examples", "rs"), ("examples/python", "py")] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let entries = std::fs::read_dir(path).expect("examples");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let mut names: Vec<String> = paths
            .filter(|path| path.extension().is_some_and(|extension| extension == kind))
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        names.sort();
        assert!(!names.is_empty(), "{folder} has examples");
        for (at, name) in names.iter().enumerate() {
            assert!(name.starts_with(&format!("{:02}-", at + 1)), "{name} is number {}", at + 1);
        }
    }
}
