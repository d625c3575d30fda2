//! A plan of ours as a job: its binaries are the plan's images, and the plan itself stands beside the
//! two lists.

use serde_json::{Map, Value, json};

use super::{Direction, HostCompute, InitTransfer, JOB_BASE, JobStep, SpyreCode, SpyreCodeFlaw};
use crate::Error;
use crate::plan::manifest::PLAN_FILE;
use crate::plan::{CompilerOutput, ImageId};

/// The host buffer that holds what corrections are given.
const INPUTS: &str = "correction_inputs";
/// Everything in a job's memory begins at such an address.
const ALIGNMENT: u64 = 128;

pub(super) fn of_plan(plan: &CompilerOutput) -> Result<SpyreCode, Error> {
    let mut files = plan.to_files()?;
    let (_, manifest) = files.pop().unwrap_or_default();
    let manifest: Value = serde_json::from_slice(&manifest)
        .map_err(|error| SpyreCodeFlaw::Json { reason: error.to_string() })?;
    let mut end = JOB_BASE;
    let transfers: Vec<_> = files
        .into_iter()
        .map(|(file, bytes)| {
            let address = end;
            end += (bytes.len() as u64).next_multiple_of(ALIGNMENT);
            InitTransfer { file, address, bytes }
        })
        .collect();
    let inputs: u64 = plan.correction_metadata.iter().map(|metadata| metadata.input_bytes).sum();
    let mut steps = Vec::new();
    if inputs > 0 {
        steps.extend(correction(plan, end, inputs));
    }
    for (step, name, image) in computes(plan) {
        let transfer: &InitTransfer = &transfers[image.0 as usize];
        let name = Some(format!("{name}#{step}"));
        steps.push(JobStep::ComputeOnDevice { address: transfer.address, name });
    }
    let job_bytes = end - JOB_BASE + inputs.next_multiple_of(ALIGNMENT);
    Ok(SpyreCode { job_bytes, transfers, steps, manifest: Some(manifest) })
}

pub(super) fn plan(code: &SpyreCode) -> Result<Option<CompilerOutput>, Error> {
    let Some(manifest) = &code.manifest else { return Ok(None) };
    let manifest = manifest.to_string().into_bytes();
    let plan = CompilerOutput::from_files(|name| match name {
        PLAN_FILE => Some(&manifest),
        _ => code.transfers.iter().find(|file| file.file == name).map(|file| &file.bytes),
    })?;
    check(code, &plan)?;
    Ok(Some(plan))
}

/// The host's step and the copy of what it makes.
fn correction(plan: &CompilerOutput, address: u64, bytes: u64) -> [JobStep; 2] {
    let mut metadata = Map::new();
    metadata.insert("vdci".into(), json!({}));
    metadata.insert("senConstants".into(), json!([]));
    let compute = HostCompute {
        output: INPUTS.into(),
        bytes,
        input_shape: vec![plan.tensor_input_metadata.len().to_string()],
        input: String::new(),
        metadata,
    };
    let direction = Direction::ToDevice;
    let transfer = JobStep::DataTransfer { direction, buffer: INPUTS.into(), address, bytes };
    [JobStep::ComputeOnHost(compute), transfer]
}

/// The programs that a plan launches, in order: each correction before its compute.
fn computes(plan: &CompilerOutput) -> impl Iterator<Item = (usize, &str, ImageId)> {
    plan.steps.iter().enumerate().flat_map(|(at, step)| {
        let programs = step.correction.into_iter().chain([step.compute]);
        programs.map(move |image| (at, step.name.as_str(), image))
    })
}

/// Refuses a job that runs something else than its plan.
fn check(code: &SpyreCode, plan: &CompilerOutput) -> Result<(), SpyreCodeFlaw> {
    let launched = code.steps.iter().filter_map(|step| match step {
        JobStep::ComputeOnDevice { address, .. } => Some(*address),
        _ => None,
    });
    let address = |(_, _, image): (usize, &str, ImageId)| {
        let file = format!("image-{}.bin", image.0);
        code.transfers.iter().find(|transfer| transfer.file == file).map(|file| file.address)
    };
    if launched.map(Some).eq(computes(plan).map(address)) {
        Ok(())
    } else {
        Err(SpyreCodeFlaw::OtherPlan { why: "job_bin_ptr names other programs" })
    }
}
