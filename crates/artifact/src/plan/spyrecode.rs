//! The SpyreCode directory: the documents' file form of a job, beside ours.

mod export;
mod flaw;
mod json;
mod step;

use std::path::{Component, Path};

pub use flaw::SpyreCodeFlaw;
pub use step::{Direction, HostCompute, JOB_BASE, JOB_LIMIT, JobStep, StepType};

use super::{CompilerOutput, folder};
use crate::Error;

/// The file that a job is read from.
const JOB_FILE: &str = "spyrecode.json";
/// The most bytes of `spyrecode.json`.
const MAX_JOB_BYTES: u64 = 16 << 20;

/// A job as a SpyreCode directory has it: memory that is prepared once, and steps that run at every
/// launch.
///
/// A directory that was written from a plan of ours holds that plan, and is launched as it is. Others
/// can be read and inspected: their binaries are programs of another card.
///
/// ```
/// use spyre_artifact::SpyreCode;
/// use spyre_artifact::samples::{Elements, addition};
/// use spyre_numerics::DType;
///
/// let plan = addition(Elements::exact(DType::Float32), None)?;
/// let code = SpyreCode::of_plan(&plan)?;
/// let types: Vec<String> = code.steps().iter().map(|step| step.kind().to_string()).collect();
/// assert_eq!(types, ["HostCompute", "H2D", "Compute", "Compute"]);
///
/// let folder = std::env::temp_dir().join(format!("spyrecode-{}", std::process::id()));
/// code.save(&folder)?;
/// assert_eq!(SpyreCode::load(&folder)?.plan()?, Some(plan));
/// # let _ = std::fs::remove_dir_all(&folder);
/// # Ok::<(), spyre_artifact::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SpyreCode {
    job_bytes: u64,
    transfers: Vec<InitTransfer>,
    steps: Vec<JobStep>,
    /// The plan that it was written from, but for its images.
    manifest: Option<serde_json::Value>,
}

/// A binary that is copied when the job is prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitTransfer {
    /// Its file, beside `spyrecode.json`.
    pub file: String,
    /// Target address, from [`JOB_BASE`] on.
    pub address: u64,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

impl SpyreCode {
    /// Reads a directory and checks all of it.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = folder.as_ref();
        let name = || folder.display().to_string();
        if !folder.is_dir() {
            return Err(SpyreCodeFlaw::NoFolder { folder: name() }.into());
        }
        let job = folder.join(JOB_FILE);
        if !job.is_file() {
            return Err(SpyreCodeFlaw::NoJob { folder: name() }.into());
        }
        let text = folder::read(&job, MAX_JOB_BYTES)?;
        json::read(&text, |file, most_bytes| {
            check_relative(file)?;
            folder::read(&folder.join(file), most_bytes)
        })
    }

    /// Returns true if a folder holds a job.
    pub fn is_in(folder: impl AsRef<Path>) -> bool {
        folder.as_ref().join(JOB_FILE).is_file()
    }

    /// The job that a plan is.
    pub fn of_plan(plan: &CompilerOutput) -> Result<Self, Error> {
        export::of_plan(plan)
    }

    /// The plan that the job was written from; `None` if it is another compiler's.
    pub fn plan(&self) -> Result<Option<CompilerOutput>, Error> {
        export::plan(self)
    }

    /// Writes the job to a folder that is not there yet: all of it, or nothing.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), Error> {
        let binaries = self.transfers.iter();
        let mut files: Vec<_> =
            binaries.map(|transfer| (transfer.file.clone(), transfer.bytes.clone())).collect();
        files.push((JOB_FILE.to_owned(), json::write(self)));
        folder::write(folder.as_ref(), files)
    }

    /// Bytes of the job's memory: binaries, what corrections are given, spill.
    pub fn job_bytes(&self) -> u64 {
        self.job_bytes
    }

    /// Binaries that are copied when the job is prepared.
    pub fn transfers(&self) -> &[InitTransfer] {
        &self.transfers
    }

    /// Steps that run at every launch, in order.
    pub fn steps(&self) -> &[JobStep] {
        &self.steps
    }
}

/// A name that cannot lead out of the folder.
fn check_relative(file: &str) -> Result<(), Error> {
    let mut parts = Path::new(file).components();
    let is_inside = !file.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)));
    if is_inside { Ok(()) } else { Err(SpyreCodeFlaw::FileName { file: file.to_owned() }.into()) }
}
