use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use spyre_numerics::Profile;

use super::text;

/// Options that a compiler was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompilerOptions {
    /// Profile of the device: the numbers that it keeps.
    #[serde(with = "text::profile")]
    pub profile: Profile,
    /// The longest dim that a program was made for; larger ones are launched tile by tile.
    pub max_tile: Option<NonZeroU32>,
}
