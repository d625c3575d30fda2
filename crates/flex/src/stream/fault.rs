use spyre_hal::{BlockKind, Fault, Label, StreamPoint};

/// A fault, and the block that it happened to: the first cause of everything that was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{fault}", self.place())]
pub struct StreamFault {
    /// The block; number 0 if it was none of them.
    pub point: StreamPoint,
    /// Kind of the block.
    pub kind: BlockKind,
    /// Label of the block.
    pub label: Label,
    /// Fault that it failed with.
    pub fault: Fault,
}

impl StreamFault {
    fn place(&self) -> String {
        let Self { point, kind, label, .. } = self;
        if point.sequence == 0 {
            return String::new();
        }
        let place = format!("stream {}, block {} ({kind}", point.stream.0, point.sequence);
        match label.name() {
            None => format!("{place}): "),
            Some(name) => format!("{place} {name:?}): "),
        }
    }
}
