//! SpyreCode directories: our plans come back, others are read, and errors have the documents' texts.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spyre_artifact::samples::{Elements, addition, matmul, two_additions};
use spyre_artifact::*;
use spyre_numerics::DType;

use crate::plans::Scratch;

/// A job of another compiler: opaque binaries, opaque metadata.
fn foreign() -> Value {
    let pointer = JOB_BASE.to_string();
    let compute = json!({ "command": "ComputeOnDevice", "properties": { "job_bin_ptr": pointer } });
    json!({
        "JobPreparationPlan": [
            { "command": "Allocate", "properties": { "size": "1024" } },
            { "command": "InitTransfer", "properties":
                { "init_bin_file": "init.bin", "dev_ptr": pointer, "size": "512" } },
        ],
        "JobExecPlan": [
            { "command": "ComputeOnHost", "properties": {
                "ohandle": "h", "size": "128", "ishape": ["0"], "ihandle": "",
                "hcm": { "vdci": {}, "senConstants": [] } } },
            { "command": "DataTransfer", "properties":
                { "dirn": "false", "host_handle": "h", "dev_ptr": "120259084800", "size": "128" } },
            compute,
        ],
    })
}

fn folder_of(job: &Value) -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    let folder = scratch.path().join("job");
    fs::create_dir(&folder).expect("a new folder");
    fs::write(folder.join("spyrecode.json"), job.to_string()).expect("written");
    fs::write(folder.join("init.bin"), [7; 512]).expect("written");
    (scratch, folder)
}

fn refusal(folder: &Path) -> String {
    SpyreCode::load(folder).expect_err("refused").to_string()
}

/// The refusal of the foreign job after a change to one of its values.
fn changed(pointer: &str, value: Value) -> String {
    let mut job = foreign();
    *job.pointer_mut(pointer).expect("it is there") = value;
    refusal(&folder_of(&job).1)
}

/// The refusal of the foreign job without one of its properties.
fn without(step: usize, property: &str) -> String {
    let mut job = foreign();
    let properties = &mut job["JobExecPlan"][step]["properties"];
    properties.as_object_mut().expect("an object").remove(property).expect("it was there");
    refusal(&folder_of(&job).1)
}

#[test]
fn plans_come_back_from_jobs() -> Result<(), Error> {
    let elements = Elements::exact(DType::Float32);
    let plans = [
        addition(elements, None)?,
        matmul(elements, Some([64, 64, 64]))?,
        two_additions(elements, None)?,
    ];
    for plan in plans {
        let scratch = Scratch::new();
        let folder = scratch.path().join("job");
        let code = SpyreCode::of_plan(&plan)?;
        code.save(&folder)?;
        let read = SpyreCode::load(&folder)?;
        assert_eq!(read, code);
        assert_eq!(read.plan()?.as_ref(), Some(&plan));
        let launches = read.steps().iter().filter(|step| step.kind() == StepType::Compute).count();
        assert_eq!(launches, 2 * plan.steps.len());
        assert!(code.save(&folder).expect_err("there").to_string().contains("already there"));
    }
    Ok(())
}

#[test]
fn binaries_lie_apart_in_the_jobs_memory() -> Result<(), Error> {
    let code = SpyreCode::of_plan(&matmul(Elements::exact(DType::Float16), None)?)?;
    let mut end = JOB_BASE;
    for transfer in code.transfers() {
        assert_eq!((transfer.address >= end, transfer.address % 128), (true, 0));
        end = transfer.address + transfer.bytes.len() as u64;
    }
    assert!(end <= JOB_BASE + code.job_bytes());
    Ok(())
}

#[test]
fn a_job_of_another_compiler_is_read() -> Result<(), Error> {
    let (_scratch, folder) = folder_of(&foreign());
    let code = SpyreCode::load(&folder)?;
    let kinds: Vec<_> = code.steps().iter().map(|step| step.kind().to_string()).collect();
    assert_eq!(kinds, ["HostCompute", "H2D", "Compute"]);
    assert_eq!((code.job_bytes(), code.transfers()[0].bytes.len()), (1024, 512));
    assert_eq!(code.plan()?, None);
    Ok(())
}

#[test]
fn both_spellings_are_read() -> Result<(), Error> {
    let mut job = foreign();
    job["JobPreparationPlan"][1]["properties"] =
        json!({ "file_path": "init.bin", "dev_ptr": JOB_BASE, "size": "0" });
    job["JobExecPlan"][1]["properties"] =
        json!({ "direction": 0, "host_handle": "h", "dev_ptr": "120259084800", "size": "128" });
    let (_scratch, folder) = folder_of(&job);
    let code = SpyreCode::load(&folder)?;
    assert_eq!(code.transfers()[0].bytes.len(), 512, "all of the file");
    assert_eq!(code.steps()[1].kind(), StepType::H2D);
    Ok(())
}

#[test]
fn missing_folders_and_files_are_named() {
    let scratch = Scratch::new();
    let nowhere = refusal(&scratch.path().join("nowhere"));
    assert!(nowhere.starts_with("SpyreCode directory does not exist: "), "{nowhere}");
    let empty = refusal(scratch.path());
    assert!(empty.starts_with("spyrecode.json not found in "), "{empty}");
    let (_scratch, folder) = folder_of(&foreign());
    fs::remove_file(folder.join("init.bin")).expect("removed");
    assert!(refusal(&folder).contains("init.bin: "));
}

#[test]
fn a_step_says_which_property_it_misses() {
    for property in ["ohandle", "size", "ishape", "ihandle", "hcm"] {
        let expected = format!("ComputeOnHost command missing '{property}' property");
        assert_eq!(without(0, property), expected);
    }
    assert_eq!(without(2, "job_bin_ptr"), "ComputeOnDevice command missing 'job_bin_ptr' property");
    assert_eq!(without(1, "dirn"), "DataTransfer command missing 'dirn' property");
}

#[test]
fn wrong_kinds_and_unknown_buffers_are_named() {
    let host = "/JobExecPlan/0/properties";
    let of = |property: &str, value: Value| changed(&format!("{host}/{property}"), value);
    assert_eq!(of("ishape", json!("0")), "ComputeOnHost 'ishape' must be an array");
    assert_eq!(of("ishape", json!([0])), "ComputeOnHost 'ishape' elements must be strings");
    assert_eq!(of("hcm", json!("{}")), "ComputeOnHost 'hcm' must be an object");
    assert_eq!(of("ihandle", json!("x")), "ihandle 'x' not found in pinned buffer map");
    assert_eq!(of("size", json!("many")), "ComputeOnHost 'size' must be a decimal number");
    let transfer = changed("/JobExecPlan/1/properties/host_handle", json!("y"));
    assert_eq!(transfer, "host_handle 'y' not found in pinned buffer map");
}

#[test]
fn addresses_and_orders_are_checked() {
    let pointer = "/JobExecPlan/2/properties/job_bin_ptr";
    assert!(changed(pointer, json!("4096")).contains("outside of [120259084288, "));
    assert!(changed(pointer, json!("120259085312")).contains("end past the 1024"));
    let transfer = "/JobPreparationPlan/1/properties";
    assert!(changed(&format!("{transfer}/size"), json!("2048")).contains("end past the 1024"));
    assert!(changed(&format!("{transfer}/size"), json!("256")).contains("at most 256"));
    assert!(changed(&format!("{transfer}/size"), json!("600")).contains("holds 512 bytes"));
    for name in ["../init.bin", "/etc/passwd", ""] {
        let text = changed(&format!("{transfer}/init_bin_file"), json!(name));
        assert!(text.contains("must be a name inside of the SpyreCode directory"), "{text}");
    }
    let first = changed("/JobPreparationPlan/0/command", json!("InitTransfer"));
    assert!(first.starts_with("JobPreparationPlan[0] is \"InitTransfer\""), "{first}");
    let step = changed("/JobExecPlan/2/command", json!("Dream"));
    assert!(step.starts_with("JobExecPlan[2] is \"Dream\", expected ComputeOnDevice"), "{step}");
    let mut job = foreign();
    let transfer = job["JobExecPlan"][1].clone();
    job["JobExecPlan"].as_array_mut().expect("a list").push(transfer);
    let order = refusal(&folder_of(&job).1);
    assert!(order.starts_with("JobExecPlan[3] is H2D: a leading HostCompute"), "{order}");
    assert!(changed("/JobPreparationPlan", json!([])).contains("at least 2 commands"));
}

#[test]
fn a_job_that_runs_something_else_than_its_plan_is_refused() -> Result<(), Error> {
    let scratch = Scratch::new();
    let folder = scratch.path().join("job");
    SpyreCode::of_plan(&addition(Elements::exact(DType::Float32), None)?)?.save(&folder)?;
    let file = folder.join("spyrecode.json");
    let mut job: Value =
        serde_json::from_slice(&fs::read(&file).expect("a file")).expect("some JSON");
    job["JobExecPlan"].as_array_mut().expect("a list").truncate(3);
    fs::write(&file, job.to_string()).expect("written");
    let text = SpyreCode::load(&folder)?.plan().expect_err("refused").to_string();
    assert!(text.starts_with("JobExecPlan does not run the plan beside it"), "{text}");
    Ok(())
}

#[test]
fn hostile_text_is_refused_in_peace() {
    let texts = ["", "{", "[]", "null", "{\"JobPreparationPlan\": 3}", "{\"JobExecPlan\": []}"];
    for text in texts {
        let (_scratch, folder) = folder_of(&json!({}));
        fs::write(folder.join("spyrecode.json"), text).expect("written");
        assert!(refusal(&folder).starts_with("spyrecode.json: "), "{text}");
    }
}
