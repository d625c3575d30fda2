use std::any::Any;
use std::fmt::Debug;

use crate::{DeviceRange, Fault, Outcome};

/// Memory of a card as other cards see it, which copy to it and can do nothing else.
pub trait PeerMemory: Debug + Send + Sync {
    /// Takes bytes that another card copies here.
    fn accept(&self, target: DeviceRange, bytes: &[u8]) -> Outcome;

    /// Memory that a card of the same kind writes itself, if there is such a way: what it is, the two
    /// agree upon. It stays writable, at no harm to others, also if the range is freed meanwhile.
    fn window(&self, _target: DeviceRange) -> Result<Option<Box<dyn Any + Send>>, Fault> {
        Ok(None)
    }
}
