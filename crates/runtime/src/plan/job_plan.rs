use std::path::{Path, PathBuf};

use spyre_artifact::{CompilerOutput, JOB_BASE, SpyreCode, StepType};
use spyre_hal::StreamPoint;

use crate::plan::binary::Binary;
use crate::{Error, ExecutionPlan, SpyreStream, SpyreTensor, launch_kernel_with};

/// A kernel that was prepared from a folder: a plan on a device, ready to be launched.
///
/// The folder holds what a compiler saved: a plan, or a SpyreCode directory. Device memory that it
/// takes is given back when it is dropped and its launches are done.
#[derive(Debug)]
pub struct JobPlan {
    folder: PathBuf,
    steps: Vec<StepType>,
    job_bytes: u64,
    job: Job,
}

#[derive(Debug)]
enum Job {
    /// A plan of ours.
    Plan(ExecutionPlan),
    /// Programs of another card, which lie in memory and cannot run.
    Foreign { memory: Binary },
}

impl JobPlan {
    /// Reads a folder, and copies its binaries to the stream's device.
    pub fn prepare(folder: impl AsRef<Path>, stream: &SpyreStream) -> Result<Self, Error> {
        let folder = folder.as_ref();
        if folder.join("plan.json").is_file() && !SpyreCode::is_in(folder) {
            let plan = CompilerOutput::load(folder)?;
            let code = SpyreCode::of_plan(&plan)?;
            return Self::of(folder, &code, Some(plan), stream);
        }
        let code = SpyreCode::load(folder)?;
        let plan = code.plan()?;
        Self::of(folder, &code, plan, stream)
    }

    /// The job of a plan that was compiled in this process, copied to the stream's device. It has no folder.
    pub fn of_output(output: CompilerOutput, stream: &SpyreStream) -> Result<Self, Error> {
        let code = SpyreCode::of_plan(&output)?;
        Self::of(Path::new(""), &code, Some(output), stream)
    }

    /// Number of steps of a launch.
    pub fn num_steps(&self) -> usize {
        self.steps.len()
    }

    /// Bytes of the job's memory, as its compiler counts them.
    pub fn job_allocation_size(&self) -> u64 {
        self.job_bytes
    }

    /// Type of a step.
    pub fn step_type(&self, index: usize) -> Result<StepType, Error> {
        let steps = self.steps.len();
        self.steps.get(index).copied().ok_or(Error::StepIndex { index, steps })
    }

    /// The plan, unless the job is another card's.
    pub fn plan(&self) -> Option<&ExecutionPlan> {
        match &self.job {
            Job::Plan(plan) => Some(plan),
            Job::Foreign { .. } => None,
        }
    }

    /// Returns true if it is still on the device: a reset takes it away.
    pub fn is_live(&self) -> bool {
        match &self.job {
            Job::Plan(plan) => plan.is_loaded(),
            Job::Foreign { memory } => memory.is_live(),
        }
    }

    /// The folder that it was prepared from; empty if it came from none.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Launches it, with the scalars that its programs are given: see [`launch_kernel_with`].
    pub fn launch(
        &self,
        stream: &SpyreStream,
        tensors: &[SpyreTensor],
        scalars: &[u64],
    ) -> Result<StreamPoint, Error> {
        match &self.job {
            Job::Plan(plan) => launch_kernel_with(stream, plan, tensors, scalars),
            Job::Foreign { .. } => {
                Err(Error::ForeignJob { folder: self.folder.display().to_string() })
            }
        }
    }

    fn of(
        folder: &Path,
        code: &SpyreCode,
        plan: Option<CompilerOutput>,
        stream: &SpyreStream,
    ) -> Result<Self, Error> {
        let job = match plan {
            Some(plan) => {
                let plan = ExecutionPlan::from_compiler_output(plan)?;
                plan.load(stream)?;
                Job::Plan(plan)
            }
            None => Job::Foreign { memory: memory_of(code, stream)? },
        };
        let steps = code.steps().iter().map(spyre_artifact::JobStep::kind).collect();
        Ok(Self { folder: folder.to_owned(), steps, job_bytes: code.job_bytes(), job })
    }
}

/// The memory that a job asks for, with its binaries in it.
fn memory_of(code: &SpyreCode, stream: &SpyreStream) -> Result<Binary, Error> {
    let memory = Binary::load(stream, Vec::new(), code.job_bytes().max(1))?;
    for transfer in code.transfers() {
        memory.write(stream, transfer.address - JOB_BASE, transfer.bytes.clone())?;
    }
    Ok(memory)
}
