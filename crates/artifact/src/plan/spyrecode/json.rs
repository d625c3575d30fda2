//! `spyrecode.json`, in both spellings of the documents.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    Direction, HostCompute, InitTransfer, JOB_BASE, JOB_LIMIT, JobStep, SpyreCode, SpyreCodeFlaw,
    StepType,
};
use crate::Error;

const PREPARATION: &str = "JobPreparationPlan";
const EXECUTION: &str = "JobExecPlan";
/// Ours: what other readers leave alone.
const PLAN: &str = "plan";
/// The buffer that stands for the arguments of the launch.
const ARGUMENTS: &str = "iargs";

/// A job from its text, and the files that `binary` reads: a name, and the most bytes.
pub(super) fn read(
    text: &[u8],
    binary: impl Fn(&str, u64) -> Result<Vec<u8>, Error>,
) -> Result<SpyreCode, Error> {
    let value: Value = serde_json::from_slice(text)
        .map_err(|error| SpyreCodeFlaw::Json { reason: error.to_string() })?;
    let preparation = list(&value, PREPARATION, 2)?;
    let execution = list(&value, EXECUTION, 0)?;
    let job_bytes = job_bytes(&preparation[0])?;
    let transfers: Result<_, Error> = (1..preparation.len())
        .map(|index| transfer(index, &preparation[index], job_bytes, &binary))
        .collect();
    let mut buffers = BTreeSet::new();
    let steps: Result<Vec<_>, _> = execution
        .iter()
        .enumerate()
        .map(|(index, command)| step(index, command, job_bytes, &mut buffers))
        .collect();
    let steps = steps?;
    check_order(&steps)?;
    let manifest = value.get(PLAN).cloned();
    Ok(SpyreCode { job_bytes, transfers: transfers?, steps, manifest })
}

/// The text of a job.
pub(super) fn write(code: &SpyreCode) -> Vec<u8> {
    let allocate = command("Allocate", json!({ "size": code.job_bytes.to_string() }));
    let transfers = code.transfers.iter().map(|transfer| {
        let InitTransfer { file, address, bytes } = transfer;
        let address = address.to_string();
        let size = bytes.len().to_string();
        command("InitTransfer", json!({ "init_bin_file": file, "dev_ptr": address, "size": size }))
    });
    let preparation: Vec<Value> = [allocate].into_iter().chain(transfers).collect();
    let execution: Vec<Value> = code.steps.iter().map(written).collect();
    let mut text = json!({ PREPARATION: preparation, EXECUTION: execution });
    if let Some(manifest) = &code.manifest {
        text[PLAN] = manifest.clone();
    }
    format!("{text:#}\n").into_bytes()
}

fn written(step: &JobStep) -> Value {
    match step {
        JobStep::ComputeOnDevice { address, name } => {
            let mut properties = json!({ "job_bin_ptr": address.to_string() });
            if let Some(name) = name {
                properties["name"] = json!(name);
            }
            command("ComputeOnDevice", properties)
        }
        JobStep::ComputeOnHost(compute) => {
            let HostCompute { output, bytes, input_shape, input, metadata } = compute;
            let properties = json!({
                "ohandle": output, "size": bytes.to_string(), "ishape": input_shape,
                "ihandle": input, "hcm": metadata,
            });
            command("ComputeOnHost", properties)
        }
        JobStep::DataTransfer { direction, buffer, address, bytes } => {
            let dirn = (*direction == Direction::FromDevice).to_string();
            let address = address.to_string();
            let size = bytes.to_string();
            let properties =
                json!({ "dirn": dirn, "host_handle": buffer, "dev_ptr": address, "size": size });
            command("DataTransfer", properties)
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is made for this call")]
fn command(name: &str, properties: Value) -> Value {
    json!({ "command": name, "properties": properties })
}

fn list<'a>(
    value: &'a Value,
    name: &'static str,
    least: usize,
) -> Result<&'a [Value], SpyreCodeFlaw> {
    let commands = value.get(name).and_then(Value::as_array);
    let commands = commands.filter(|commands| commands.len() >= least);
    commands.map(Vec::as_slice).ok_or(SpyreCodeFlaw::List { list: name, least })
}

fn job_bytes(value: &Value) -> Result<u64, Error> {
    let command = Command::read(PREPARATION, 0, value)?;
    if command.name != "Allocate" {
        return Err(command.unexpected("Allocate").into());
    }
    let bytes = Properties { command: "Allocate", ..command.properties }.number(&["size"])?;
    if bytes <= JOB_LIMIT - JOB_BASE {
        Ok(bytes)
    } else {
        let limit = JOB_LIMIT - JOB_BASE;
        let reason = format!("Allocate 'size' is {bytes}, at most {limit} fit the segment");
        Err(SpyreCodeFlaw::Json { reason }.into())
    }
}

fn transfer(
    index: usize,
    value: &Value,
    job_bytes: u64,
    binary: impl Fn(&str, u64) -> Result<Vec<u8>, Error>,
) -> Result<InitTransfer, Error> {
    let command = Command::read(PREPARATION, index, value)?;
    if command.name != "InitTransfer" {
        return Err(command.unexpected("InitTransfer").into());
    }
    let properties = Properties { command: "InitTransfer", ..command.properties };
    let file = properties.text(&["init_bin_file", "file_path"])?;
    let address = properties.address("dev_ptr")?;
    let given = properties.number(&["size"])?;
    let room = properties.room(address, given, job_bytes)?;
    let bytes = binary(&file, room)?;
    let found = bytes.len() as u64;
    if given != 0 && found != given {
        return Err(SpyreCodeFlaw::FileBytes { file, found, expected: given }.into());
    }
    Ok(InitTransfer { file, address, bytes })
}

fn step(
    index: usize,
    value: &Value,
    job_bytes: u64,
    buffers: &mut BTreeSet<String>,
) -> Result<JobStep, SpyreCodeFlaw> {
    let command = Command::read(EXECUTION, index, value)?;
    let of = |name: &'static str| Properties { command: name, ..command.properties };
    match command.name {
        "ComputeOnDevice" => compute_on_device(of("ComputeOnDevice"), job_bytes),
        "ComputeOnHost" => compute_on_host(of("ComputeOnHost"), buffers),
        "DataTransfer" => data_transfer(of("DataTransfer"), job_bytes, buffers),
        _ => Err(command.unexpected("ComputeOnDevice, ComputeOnHost or DataTransfer")),
    }
}

fn compute_on_device(given: Properties<'_>, job_bytes: u64) -> Result<JobStep, SpyreCodeFlaw> {
    let address = given.address("job_bin_ptr")?;
    given.room(address, 0, job_bytes)?;
    let name = given.get("name").and_then(Value::as_str).map(str::to_owned);
    Ok(JobStep::ComputeOnDevice { address, name })
}

fn compute_on_host(
    given: Properties<'_>,
    buffers: &mut BTreeSet<String>,
) -> Result<JobStep, SpyreCodeFlaw> {
    let output = given.text(&["ohandle"])?;
    let bytes = given.number(&["size"])?;
    let shape = given.required(&["ishape"])?;
    let shape = shape.as_array().ok_or_else(|| given.kind("ishape", "an array"))?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let input_shape: Option<Vec<String>> = shape.iter().map(text).collect();
    let elements = SpyreCodeFlaw::Elements { command: given.command, property: "ishape" };
    let input_shape = input_shape.ok_or(elements)?;
    let input = given.text(&["ihandle"])?;
    let metadata = given.required(&["hcm"])?.as_object();
    let metadata = metadata.ok_or_else(|| given.kind("hcm", "an object"))?.clone();
    if !input.is_empty() && input != ARGUMENTS && !buffers.contains(&input) {
        return Err(SpyreCodeFlaw::NoBuffer { property: "ihandle", handle: input });
    }
    if !buffers.insert(output.clone()) {
        return Err(SpyreCodeFlaw::BufferTwice { property: "ohandle", handle: output });
    }
    Ok(JobStep::ComputeOnHost(HostCompute { output, bytes, input_shape, input, metadata }))
}

fn data_transfer(
    given: Properties<'_>,
    job_bytes: u64,
    buffers: &mut BTreeSet<String>,
) -> Result<JobStep, SpyreCodeFlaw> {
    let direction = match given.text(&["dirn", "direction"])?.as_str() {
        "false" | "0" => Direction::ToDevice,
        "true" | "1" => Direction::FromDevice,
        _ => return Err(given.kind("dirn", "\"false\" (to the device) or \"true\" (from it)")),
    };
    let buffer = given.text(&["host_handle"])?;
    let address = given.address("dev_ptr")?;
    let bytes = given.room(address, given.number(&["size"])?, job_bytes)?;
    let property = "host_handle";
    let handle = buffer.clone();
    match direction {
        Direction::ToDevice if !buffers.contains(&buffer) => {
            Err(SpyreCodeFlaw::NoBuffer { property, handle })
        }
        Direction::FromDevice if !buffers.insert(buffer.clone()) => {
            Err(SpyreCodeFlaw::BufferTwice { property, handle })
        }
        _ => Ok(JobStep::DataTransfer { direction, buffer, address, bytes }),
    }
}

fn check_order(steps: &[JobStep]) -> Result<(), SpyreCodeFlaw> {
    if steps.first().is_none_or(|step| step.kind() != StepType::HostCompute) {
        return Ok(());
    }
    let expected = |index: usize| if index == 1 { StepType::H2D } else { StepType::Compute };
    let mut later = steps.iter().map(JobStep::kind).enumerate().skip(1);
    match later.find(|(index, found)| *found != expected(*index)) {
        Some((index, found)) => Err(SpyreCodeFlaw::Order { index, found }),
        None => Ok(()),
    }
}

/// One entry of a list.
struct Command<'a> {
    list: &'static str,
    index: usize,
    name: &'a str,
    properties: Properties<'a>,
}

#[derive(Clone, Copy)]
struct Properties<'a> {
    command: &'static str,
    map: Option<&'a Map<String, Value>>,
}

impl<'a> Command<'a> {
    fn read(list: &'static str, index: usize, value: &'a Value) -> Result<Self, SpyreCodeFlaw> {
        let reason = || format!("{list}[{index}] has no 'command'");
        let name = value.get("command").and_then(Value::as_str);
        let name = name.ok_or_else(|| SpyreCodeFlaw::Json { reason: reason() })?;
        let map = value.get("properties").and_then(Value::as_object);
        Ok(Self { list, index, name, properties: Properties { command: "", map } })
    }

    fn unexpected(&self, expected: &'static str) -> SpyreCodeFlaw {
        let Self { list, index, name, .. } = *self;
        SpyreCodeFlaw::Command { list, index, found: name.to_owned(), expected }
    }
}

impl<'a> Properties<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.map?.get(name)
    }

    /// The property by the first of its names that is there.
    fn required(&self, names: &[&'static str]) -> Result<&'a Value, SpyreCodeFlaw> {
        let missing = || SpyreCodeFlaw::Missing { command: self.command, property: names[0] };
        names.iter().find_map(|name| self.get(name)).ok_or_else(missing)
    }

    fn kind(&self, property: &'static str, expected: &'static str) -> SpyreCodeFlaw {
        SpyreCodeFlaw::Kind { command: self.command, property, expected }
    }

    /// A text; numbers and truth values stand for theirs.
    fn text(&self, names: &[&'static str]) -> Result<String, SpyreCodeFlaw> {
        match self.required(names)? {
            Value::String(text) => Ok(text.clone()),
            value @ (Value::Bool(_) | Value::Number(_)) => Ok(value.to_string()),
            _ => Err(self.kind(names[0], "a string")),
        }
    }

    fn number(&self, names: &[&'static str]) -> Result<u64, SpyreCodeFlaw> {
        let text = self.text(names)?;
        text.trim().parse().map_err(|_| self.kind(names[0], "a decimal number"))
    }

    fn address(&self, name: &'static str) -> Result<u64, SpyreCodeFlaw> {
        let address = self.number(&[name])?;
        if (JOB_BASE..JOB_LIMIT).contains(&address) {
            Ok(address)
        } else {
            Err(SpyreCodeFlaw::Address { command: self.command, property: name, address })
        }
    }

    /// The bytes at an address: as many as are given, or all to the end of the job's memory.
    fn room(&self, address: u64, bytes: u64, job_bytes: u64) -> Result<u64, SpyreCodeFlaw> {
        let refused = SpyreCodeFlaw::Reach { command: self.command, address, bytes, job_bytes };
        match job_bytes.checked_sub(address - JOB_BASE) {
            Some(rest) if bytes == 0 && rest > 0 => Ok(rest),
            Some(rest) if bytes > 0 && bytes <= rest => Ok(bytes),
            _ => Err(refused),
        }
    }
}
