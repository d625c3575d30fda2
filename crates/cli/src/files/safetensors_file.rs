//! Files of named tensors, as model hubs have them.

use std::path::Path;

use anyhow::{Context, Result, bail};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use spyre::numerics::DType;
use spyre::runtime::CPUTensor;

use crate::files::npy::check_truth;

/// The names of dtypes that files can hold.
const NAMES: [(Dtype, DType); 19] = [
    (Dtype::BOOL, DType::Bool),
    (Dtype::U8, DType::UInt8),
    (Dtype::U16, DType::UInt16),
    (Dtype::U32, DType::UInt32),
    (Dtype::U64, DType::UInt64),
    (Dtype::I8, DType::Int8),
    (Dtype::I16, DType::Int16),
    (Dtype::I32, DType::Int32),
    (Dtype::I64, DType::Int64),
    (Dtype::F16, DType::Float16),
    (Dtype::BF16, DType::BFloat16),
    (Dtype::F32, DType::Float32),
    (Dtype::F64, DType::Float64),
    (Dtype::F8_E4M3, DType::Float8E4M3Fn),
    (Dtype::F8_E4M3FNUZ, DType::Float8E4M3FnUz),
    (Dtype::F8_E5M2, DType::Float8E5M2),
    (Dtype::F8_E5M2FNUZ, DType::Float8E5M2FnUz),
    (Dtype::F8_E8M0, DType::Float8E8M0FnU),
    (Dtype::C64, DType::Complex64),
];

/// Returns true if tensors of this dtype can be written.
pub(crate) fn can_hold(dtype: DType) -> bool {
    NAMES.iter().any(|(_, known)| *known == dtype)
}

/// Tensors that were read from a file.
#[derive(Debug)]
pub(crate) struct NamedTensors {
    /// Those that were wanted.
    pub(crate) wanted: Vec<(String, CPUTensor)>,
    /// The names of all.
    pub(crate) names: Vec<String>,
}

/// Those tensors of a file that are wanted.
pub(crate) fn read(bytes: &[u8], is_wanted: impl Fn(&str) -> bool) -> Result<NamedTensors> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut names: Vec<String> = file.names().into_iter().map(str::to_owned).collect();
    names.sort();
    let wanted = names.iter().filter(|name| is_wanted(name)).map(|name| {
        let tensor = file.tensor(name).map_err(|error| anyhow::anyhow!("{error}"));
        let tensor = tensor.and_then(|tensor| to_host(&tensor));
        Ok((name.clone(), tensor.with_context(|| format!("tensor {name:?}"))?))
    });
    let wanted: Vec<_> = wanted.collect::<Result<_>>()?;
    Ok(NamedTensors { wanted, names })
}

fn to_host(tensor: &TensorView<'_>) -> Result<CPUTensor> {
    let Some((_, dtype)) = NAMES.iter().find(|(known, _)| *known == tensor.dtype()) else {
        bail!("elements of type {:?} are not known", tensor.dtype());
    };
    check_truth(*dtype, tensor.data())?;
    Ok(CPUTensor::from_bytes(tensor.shape(), *dtype, tensor.data().to_vec())?)
}

/// Writes named tensors to one file.
pub(crate) fn write(path: &Path, tensors: &[(&str, &CPUTensor)]) -> Result<()> {
    let bytes: Result<Vec<Vec<u8>>> =
        tensors.iter().map(|(_, tensor)| Ok(tensor.buffer().read()?.to_vec())).collect();
    let bytes = bytes?;
    let views: Result<Vec<_>> = tensors
        .iter()
        .zip(&bytes)
        .map(|((name, tensor), bytes)| {
            let dtype = tensor.data_type();
            let known = NAMES.iter().find(|(_, known)| *known == dtype);
            let (name_there, _) =
                known.with_context(|| format!("{dtype} has no .safetensors form"))?;
            let view = TensorView::new(*name_there, tensor.shape().to_vec(), bytes);
            Ok((*name, view.map_err(|error| anyhow::anyhow!("{error}"))?))
        })
        .collect();
    let file = safetensors::serialize(views?, None).map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(std::fs::write(path, file)?)
}
