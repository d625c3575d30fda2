use std::num::NonZeroU64;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use spyre_numerics::{DType, DataFormat};

use super::text;

/// A tensor that a launch is given: one row of the segment table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorMetadata {
    /// Human-readable name.
    pub name: String,
    /// Type of its elements in the framework.
    #[serde(with = "text::dtype")]
    pub dtype: DType,
    /// Format of its elements in device memory.
    #[serde(with = "text::format")]
    pub format: DataFormat,
    /// Expected dimensions.
    pub dims: Vec<ExpectedDim>,
    /// Role of the tensor in the plan.
    pub role: Role,
}

impl TensorMetadata {
    /// A tensor whose dims have these names and sizes.
    pub fn new(
        name: &str,
        dtype: DType,
        format: DataFormat,
        dims: &[(&str, ExpectedSize)],
        role: Role,
    ) -> Self {
        let dim = |&(name, size): &(&str, ExpectedSize)| ExpectedDim { name: name.into(), size };
        Self { name: name.into(), dtype, format, dims: dims.iter().map(dim).collect(), role }
    }
}

impl ExpectedSize {
    /// A tile of so many elements; `None` for none.
    pub fn fixed(elements: u64) -> Option<Self> {
        NonZeroU64::new(elements).map(Self::Fixed)
    }
}

/// One dimension of an expected tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedDim {
    /// Dimensions of one name have one size, in every tensor.
    pub name: String,
    /// Expected length.
    pub size: ExpectedSize,
}

/// Expected length of a dimension: a number in the plan, or `"any"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExpectedSize {
    /// The tile that the program was made for.
    Fixed(NonZeroU64),
    /// Any length: it is patched at launch.
    Any,
}

/// Role of a tensor in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It is read.
    Input,
    /// It is written; steps behind the one that wrote it may read it.
    Output,
    /// It is read and then written.
    Both,
}

impl Role {
    /// Returns true if steps may write it.
    pub fn is_written(self) -> bool {
        self != Self::Input
    }
}

impl Serialize for ExpectedSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(elements) => serializer.serialize_u64(elements.get()),
            Self::Any => serializer.serialize_str("any"),
        }
    }
}

impl<'de> Deserialize<'de> for ExpectedSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl serde::de::Visitor<'_> for SizeVisitor {
    type Value = ExpectedSize;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number of elements above 0, or \"any\"")
    }

    fn visit_u64<E: serde::de::Error>(self, elements: u64) -> Result<ExpectedSize, E> {
        let found = serde::de::Unexpected::Unsigned(elements);
        let fixed = NonZeroU64::new(elements).map(ExpectedSize::Fixed);
        fixed.ok_or_else(|| E::invalid_value(found, &self))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ExpectedSize, E> {
        match text {
            "any" => Ok(ExpectedSize::Any),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }
}
