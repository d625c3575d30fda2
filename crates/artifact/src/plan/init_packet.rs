use serde::{Deserialize, Serialize};

use super::text;

/// Bytes that are written when an instance is made: what is known at compile time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitPacket {
    /// Image of a step.
    pub image: InitTarget,
    /// Bytes from the image's start; headers and code are out of reach.
    pub offset: u64,
    /// Bytes that are written.
    #[serde(with = "text::hex")]
    pub bytes: Vec<u8>,
}

/// An image that belongs to one instance. Code images are shared, and nothing writes to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InitTarget {
    /// The entry image of this step: its table and scratch.
    Entry(u32),
    /// The correction image of this step: its input area.
    Correction(u32),
}
