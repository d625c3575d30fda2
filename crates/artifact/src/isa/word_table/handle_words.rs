use std::fmt;

use crate::Error;
use crate::isa::wire::Reader;

/// A device handle as three words, opaque here: the layer that makes handles defines them.
///
/// All zeros names nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct HandleWords(pub [u64; 3]);

impl HandleWords {
    /// Names nothing.
    pub const NONE: Self = Self([0; 3]);

    pub(in crate::isa) fn read(
        reader: &mut Reader<'_>,
        field: &'static str,
    ) -> Result<Self, Error> {
        Ok(Self([reader.u64(field)?, reader.u64(field)?, reader.u64(field)?]))
    }
}

impl fmt::Debug for HandleWords {
    /// Shows no address: on a shared card it is private.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::NONE { "HandleWords(none)" } else { "HandleWords(..)" })
    }
}
