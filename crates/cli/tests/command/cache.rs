use std::fs;

use crate::bed::{Bed, files};

const DOUBLE: &[u8] = b"kernel double(i) {
    in x: float32[i]
    out y: float32[i]
    y = x * 2
}";

#[test]
fn kernels_that_are_run_are_kept_and_found() {
    let bed = Bed::new();
    bed.write("double.ir", DOUBLE);
    let before = bed.json("cache");
    assert_eq!((&before["folder"], &before["plans"]), (&"cache".into(), &serde_json::json!([])));

    for _ in 0..3 {
        bed.fine("run double.ir --fill random --shape i=100");
    }
    bed.fine("run double.ir --fill random --shape i=100 --profile card");
    let kept = bed.json("cache list");
    let plans = kept["plans"].as_array().expect("plans");
    let listed: Vec<_> = plans
        .iter()
        .map(|plan| (plan["kernel"].as_str(), plan["profile"].as_str(), plan["hits"].as_u64()))
        .collect();
    assert!(listed.contains(&(Some("double"), Some("open"), Some(2))), "{listed:?}");
    assert!(listed.contains(&(Some("double"), Some("card"), Some(0))), "{listed:?}");
    assert!(plans.iter().all(|plan| plan["is_current"] == true));
}

#[test]
fn clearing_says_what_is_gone() {
    let bed = Bed::new();
    bed.write("double.ir", DOUBLE);
    bed.fine("inspect double.ir");
    fs::write(bed.path("cache/mine.txt"), b"mine").expect("written");
    let cleared = bed.json("cache clear");
    assert_eq!(cleared["cleared_plans"], 1);
    assert_eq!(files(&bed.path("cache")), ["mine.txt"]);
    assert_eq!(bed.fine("cache clear"), "cache: removed 0 plans, 0 B\n");
}

#[test]
fn broken_files_are_shown_as_such() {
    let bed = Bed::new();
    bed.write("double.ir", DOUBLE);
    bed.fine("inspect double.ir");
    let name = &files(&bed.path("cache"))[0];
    bed.write(&format!("cache/{name}"), b"nothing of ours");
    assert!(bed.fine("cache").contains("(broken)"));
    assert!(bed.json("cache")["plans"][0]["kernel"].is_null());
}

#[test]
fn a_folder_that_cannot_be_used_is_a_warning_and_no_more() {
    let bed = Bed::new();
    bed.write("double.ir", DOUBLE);
    let run = |bed: &Bed| {
        let mut command = bed.command("run double.ir --fill zeros --shape i=3");
        command.env("SPYRE_CACHE_DIR", "double.ir/cache").output().expect("it starts")
    };
    let output = run(&bed);
    assert!(output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.starts_with("warning: plans cannot be"), "{errors}");
}

#[test]
fn variables_that_mean_nothing_are_refused() {
    let bed = Bed::new();
    for (variable, value) in [("SPYRE_CACHE", "no"), ("SPYRE_CACHE_BYTES", "lots")] {
        let output = bed.command("cache").env(variable, value).output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(errors.starts_with(&format!("error: {variable} is \"{value}\"")), "{errors}");
    }
}
