//! Kernels that are prepared from folders: saved plans, and SpyreCode directories.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use spyre::artifact::samples::{self, Elements};
use spyre::artifact::{CompilerOutput, JOB_BASE, SpyreCode, StepType};
use spyre::card::SoftwareCard;
use spyre::hal::MemoryMode;
use spyre::numerics::DType;
use spyre::runtime::{CPUTensor, Device, Error, JobPlan, SpyreStream, SpyreTensor};

/// A folder of this test's own, gone when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("spyre-jobs-{}-{count}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn stream() -> Result<SpyreStream, Error> {
    Device::open(Arc::new(SoftwareCard::new(MemoryMode::Vf)))?.default_stream()
}

fn addition() -> Result<CompilerOutput, spyre::artifact::Error> {
    samples::addition(Elements::exact(DType::Float32), None)
}

/// Launches `c = a + b` and compares.
fn adds(job: &JobPlan, stream: &SpyreStream) -> Result<(), Error> {
    let values: Vec<f32> = (0..300_u16).map(f32::from).collect();
    let host = CPUTensor::from_values(&[3, 100], &values)?;
    let a = SpyreTensor::from_host(stream, &host)?;
    let c = SpyreTensor::empty(stream, &[3, 100], DType::Float32)?;
    job.launch(stream, &[a.clone(), a, c.clone()], &[])?;
    let result = c.to_host(stream)?;
    stream.synchronize()?;
    let expected: Vec<f32> = values.iter().map(|value| 2.0 * value).collect();
    assert_eq!(result.values::<f32>()?, expected);
    Ok(())
}

#[test]
fn a_saved_plan_is_prepared_and_launched() -> Result<(), Error> {
    let scratch = Scratch::new();
    let stream = stream()?;
    addition()?.save(&scratch.0)?;

    let job = JobPlan::prepare(&scratch.0, &stream)?;

    let types: Result<Vec<_>, _> = (0..job.num_steps()).map(|at| job.step_type(at)).collect();
    assert_eq!(
        types?,
        [StepType::HostCompute, StepType::H2D, StepType::Compute, StepType::Compute]
    );
    assert!(job.job_allocation_size() > 0);
    adds(&job, &stream)
}

#[test]
fn a_spyrecode_directory_of_ours_is_launched_as_its_plan() -> Result<(), Error> {
    let scratch = Scratch::new();
    let stream = stream()?;
    SpyreCode::of_plan(&addition()?)?.save(&scratch.0)?;
    adds(&JobPlan::prepare(&scratch.0, &stream)?, &stream)
}

#[test]
fn a_job_of_another_card_is_prepared_but_never_run() -> Result<(), Error> {
    let scratch = Scratch::new();
    let stream = stream()?;
    fs::create_dir(&scratch.0).expect("a new folder");
    fs::write(scratch.0.join("init.bin"), [9; 256]).expect("written");
    let job = format!(
        r#"{{"JobPreparationPlan": [
             {{"command": "Allocate", "properties": {{"size": "4096"}}}},
             {{"command": "InitTransfer", "properties":
                 {{"init_bin_file": "init.bin", "dev_ptr": "{JOB_BASE}", "size": "256"}}}}],
            "JobExecPlan": [
             {{"command": "ComputeOnDevice", "properties": {{"job_bin_ptr": "{JOB_BASE}"}}}}]}}"#
    );
    fs::write(scratch.0.join("spyrecode.json"), job).expect("written");
    let before = stream.device().allocator().statistics().allocated_bytes;

    let job = JobPlan::prepare(&scratch.0, &stream)?;

    let taken = stream.device().allocator().statistics().allocated_bytes - before;
    assert_eq!((job.num_steps(), job.job_allocation_size(), taken), (1, 4096, 4096));
    let refused = job.launch(&stream, &[], &[]).expect_err("another card's").to_string();
    assert!(refused.contains("compiled for another card"), "{refused}");
    stream.synchronize()?;
    drop(job);
    assert_eq!(stream.device().allocator().statistics().allocated_bytes, before);
    Ok(())
}

#[test]
fn what_is_asked_wrongly_has_the_documents_texts() -> Result<(), Error> {
    let scratch = Scratch::new();
    let stream = stream()?;
    let text = |error: Error| error.to_string();
    let nowhere = JobPlan::prepare(&scratch.0, &stream).map_err(text).expect_err("no folder");
    assert!(nowhere.starts_with("SpyreCode directory does not exist"), "{nowhere}");
    fs::create_dir(&scratch.0).expect("a new folder");
    let empty = JobPlan::prepare(&scratch.0, &stream).map_err(text).expect_err("no job");
    assert!(empty.starts_with("spyrecode.json not found"), "{empty}");
    fs::remove_dir(&scratch.0).expect("removed");
    addition()?.save(&scratch.0)?;
    let job = JobPlan::prepare(&scratch.0, &stream)?;
    let step = job.step_type(4).map_err(text).expect_err("four steps");
    assert!(step.starts_with("Step index out of range"), "{step}");
    Ok(())
}
