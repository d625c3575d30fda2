//! `plan.json`: everything of a plan but the bytes of its images.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    CompilerOptions, CompilerOutput, CorrectionMetadata, FORMAT_VERSION, InitPacket, Intermediate,
    Step, TensorMetadata,
};
use crate::Error;
use crate::isa::{CodeImage, HEADER_BYTES, MAX_IMAGE_BYTES};

/// The file that a plan is read from.
pub(super) const PLAN_FILE: &str = "plan.json";
/// The most bytes of `plan.json`.
pub const MAX_PLAN_BYTES: u64 = 8 << 20;

const MAX_FILE_NAME_BYTES: usize = 64;

/// The JSON form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format_version: u32,
    options: CompilerOptions,
    pub(super) images: Vec<ImageFile>,
    tensor_input_metadata: Vec<TensorMetadata>,
    intermediates: Vec<Intermediate>,
    steps: Vec<Step>,
    correction_metadata: Vec<CorrectionMetadata>,
    init_packets: Vec<InitPacket>,
}

/// One binary beside `plan.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImageFile {
    pub(super) file: String,
    pub(super) kind: ImageKind,
    pub(super) bytes: u64,
    pub(super) crc32: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ImageKind {
    Compute,
    Correction,
}

/// All that is read of a plan before its version is known.
#[derive(Deserialize)]
struct Version {
    format_version: u32,
}

impl ImageKind {
    pub(super) fn of(image: &CodeImage) -> Self {
        if image.program().is_some() { Self::Compute } else { Self::Correction }
    }
}

impl Manifest {
    pub(super) fn new(plan: &CompilerOutput, images: Vec<ImageFile>) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            options: plan.options,
            images,
            tensor_input_metadata: plan.tensor_input_metadata.clone(),
            intermediates: plan.intermediates.clone(),
            steps: plan.steps.clone(),
            correction_metadata: plan.correction_metadata.clone(),
            init_packets: plan.init_packets.clone(),
        }
    }

    pub(super) fn into_plan(self, images: Vec<CodeImage>) -> CompilerOutput {
        CompilerOutput {
            options: self.options,
            images,
            tensor_input_metadata: self.tensor_input_metadata,
            intermediates: self.intermediates,
            steps: self.steps,
            correction_metadata: self.correction_metadata,
            init_packets: self.init_packets,
        }
    }

    pub(super) fn to_json(&self) -> Result<String, Error> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| refuse("$", error.to_string()))
    }

    pub(super) fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        let version: Version = parse(bytes)?;
        if version.format_version != FORMAT_VERSION {
            let found = version.format_version;
            let reason = format!("{found}, but this reader knows version {FORMAT_VERSION}");
            return Err(refuse("format_version", reason));
        }
        let manifest: Self = parse(bytes)?;
        manifest.check_files()?;
        Ok(manifest)
    }

    fn check_files(&self) -> Result<(), Error> {
        let mut names = BTreeSet::new();
        for (at, image) in self.images.iter().enumerate() {
            let path = format!("images[{at}]");
            check_file_name(&image.file)
                .map_err(|reason| refuse(&format!("{path}.file"), reason))?;
            if !names.insert(&image.file) {
                return Err(refuse(&format!("{path}.file"), format!("{:?} twice", image.file)));
            }
            let sizes = HEADER_BYTES as u64..=MAX_IMAGE_BYTES as u64;
            if !sizes.contains(&image.bytes) {
                let reason =
                    format!("{}, expected {HEADER_BYTES} to {MAX_IMAGE_BYTES}", image.bytes);
                return Err(refuse(&format!("{path}.bytes"), reason));
            }
        }
        Ok(())
    }
}

/// A name that cannot lead out of the folder, on any system.
fn check_file_name(name: &str) -> Result<(), String> {
    let fits = (1..=MAX_FILE_NAME_BYTES).contains(&name.len());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !fits || !name.bytes().all(is_plain) || name.starts_with('.') {
        return Err(format!(
            "{name:?} is no plain file name: letters, digits, '.', '_' and '-', not '.' first"
        ));
    }
    if name == PLAN_FILE { Err(format!("{PLAN_FILE} is the plan itself")) } else { Ok(()) }
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| refuse(&error.path().to_string(), error.inner().to_string()))?;
    json.end().map_err(|error| refuse("$", error.to_string()))?;
    Ok(value)
}

fn refuse(path: &str, reason: String) -> Error {
    Error::Plan { file: PLAN_FILE.into(), path: path.into(), reason }
}
