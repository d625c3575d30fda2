use serde::{Deserialize, Serialize};
use spyre_layout::SpyreTensorLayout;
use spyre_numerics::DataFormat;

use super::text;
use crate::Error;

/// Device memory that lives between steps of one launch: a tensor that only the plan knows.
///
/// ```
/// use spyre_artifact::{Intermediate, IntermediateDim};
/// use spyre_numerics::DataFormat::IeeeFp32;
///
/// let dims = vec![IntermediateDim::Named("m".into()), IntermediateDim::Fixed(40)];
/// let partial = Intermediate { name: "partial".into(), format: IeeeFp32, dims };
/// let bytes = partial.bytes(|name| (name == "m").then_some(10))?;
/// assert_eq!(bytes, 10 * 2 * 128); // 40 floats fill two sticks
/// # Ok::<(), spyre_artifact::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intermediate {
    /// Human-readable name.
    pub name: String,
    /// Format of its elements in device memory.
    #[serde(with = "text::format")]
    pub format: DataFormat,
    /// Dimensions; the last one runs along the sticks.
    pub dims: Vec<IntermediateDim>,
}

/// One dimension of an intermediate: a name or a number in the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntermediateDim {
    /// Length of the dim of this name.
    Named(String),
    /// Number of elements.
    Fixed(u64),
}

impl Intermediate {
    /// Device bytes that it needs where `extent` gives the length of each named dim.
    pub fn bytes(&self, extent: impl Fn(&str) -> Option<u64>) -> Result<u64, Error> {
        let sizes: Result<Vec<usize>, Error> =
            self.dims.iter().map(|dim| self.size(dim, &extent)).collect();
        let layout = SpyreTensorLayout::contiguous(&sizes?, self.format)?;
        Ok(layout.device_bytes() as u64)
    }

    fn size(
        &self,
        dim: &IntermediateDim,
        extent: impl Fn(&str) -> Option<u64>,
    ) -> Result<usize, Error> {
        let size = match dim {
            IntermediateDim::Named(name) => extent(name),
            IntermediateDim::Fixed(elements) => Some(*elements),
        };
        size.and_then(|size| usize::try_from(size).ok()).ok_or_else(|| Error::UnknownExtent {
            name: self.name.clone(),
            dim: format!("{dim:?}"),
        })
    }
}
