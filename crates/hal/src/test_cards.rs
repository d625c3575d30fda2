//! Devices for tests: one that does nothing, one that fails as a script says, and two that complete
//! the blocks of another device later.

mod deferred;
mod late;
mod null;
mod scripted;

pub use deferred::DeferredCard;
pub use late::LateCard;
pub use null::NullCard;
pub use scripted::{Behaviour, ScriptedCard, StartedBlock, Trigger};
