//! Files and folders that results are written to.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use spyre::artifact::TensorMetadata;
use spyre::runtime::CPUTensor;

use crate::arguments::inputs::names;
use crate::files::tensor_file::{self, Form};

/// The files that results are written to.
#[derive(Debug)]
pub(crate) struct Outputs {
    files: Vec<(PathBuf, Vec<String>)>,
    folders: Vec<PathBuf>,
}

impl Outputs {
    /// Parses `--output`: `name=FILE`, a `.safetensors` file for all, or a folder for one `.npy`
    /// file each. Whatever can be found wrong before a launch is.
    pub(crate) fn new(tensors: &[TensorMetadata], arguments: &[String]) -> Result<Self> {
        let results: Vec<&TensorMetadata> =
            tensors.iter().filter(|tensor| tensor.role.is_written()).collect();
        let mut outputs = Self { files: Vec::new(), folders: Vec::new() };
        for argument in arguments {
            outputs.add(tensors, &results, argument)?;
        }
        for (path, held) in &outputs.files {
            let form = Form::expected(path)?;
            for tensor in results.iter().filter(|tensor| held.contains(&tensor.name)) {
                form.check(tensor.dtype).with_context(|| format!("tensor {:?}", tensor.name))?;
            }
        }
        Ok(outputs)
    }

    fn add(
        &mut self,
        tensors: &[TensorMetadata],
        results: &[&TensorMetadata],
        argument: &str,
    ) -> Result<()> {
        if let Some((name, path)) = argument.split_once('=') {
            let Some(tensor) = tensors.iter().find(|tensor| tensor.name == name) else {
                bail!("the plan has no tensor {name:?}: its tensors are {}", names(tensors));
            };
            ensure!(tensor.role.is_written(), "tensor {name:?} is no result of the plan");
            self.files.push((path.into(), vec![name.to_owned()]));
            return Ok(());
        }
        let path = Path::new(argument);
        match Form::of(path) {
            Some(Form::Safetensors) => {
                let all = results.iter().map(|tensor| tensor.name.clone());
                self.files.push((path.into(), all.collect()));
            }
            Some(Form::Npy) => bail!("{argument}: say which tensor it is for, as name={argument}"),
            None => {
                self.folders.push(path.into());
                let file = |tensor: &&TensorMetadata| {
                    let name = file_name(&tensor.name)?;
                    Ok((path.join(name), vec![tensor.name.clone()]))
                };
                let files: Result<Vec<_>> = results.iter().map(file).collect();
                self.files.extend(files?);
            }
        }
        Ok(())
    }

    /// Writes the results.
    pub(crate) fn write(&self, results: &[(String, CPUTensor)]) -> Result<()> {
        for folder in &self.folders {
            let failed = || format!("cannot make the folder {}", folder.display());
            std::fs::create_dir_all(folder).with_context(failed)?;
        }
        for (path, held) in &self.files {
            let tensors: Vec<(&str, &CPUTensor)> = results
                .iter()
                .filter(|(name, _)| held.contains(name))
                .map(|(name, tensor)| (name.as_str(), tensor))
                .collect();
            tensor_file::write(path, &tensors)?;
        }
        Ok(())
    }

    /// The files of one result.
    pub(crate) fn of(&self, name: &str) -> Vec<String> {
        let files = self.files.iter().filter(|(_, held)| held.iter().any(|held| held == name));
        files.map(|(path, _)| path.display().to_string()).collect()
    }
}

/// A plan is data: its names must not lead out of the folder.
fn file_name(tensor: &str) -> Result<String> {
    let is_plain = |c: char| c.is_alphanumeric() || "._-".contains(c);
    ensure!(
        !tensor.is_empty() && tensor.chars().all(is_plain) && !tensor.starts_with('.'),
        "tensor {tensor:?} is no name for a file: give --output {tensor}=FILE.npy"
    );
    Ok(format!("{tensor}.npy"))
}
