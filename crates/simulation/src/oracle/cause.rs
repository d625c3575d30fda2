use spyre_flex::StreamFault;
use spyre_hal::{BlockKind, Fault, Label, StreamIndex, StreamPoint};

/// Index of a cause among the oracle's.
pub(crate) type CauseId = usize;

/// Cause for which blocks failed or were cancelled, as the runtime must report it.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    pub(crate) id: CauseId,
    pub(crate) point: StreamPoint,
    pub(crate) kind: BlockKind,
    pub(crate) label: Label,
    pub(crate) fault: Fault,
}

impl Cause {
    /// A reset that a caller asked for: no block's fault.
    pub(crate) fn reset() -> Self {
        let point = StreamPoint { stream: StreamIndex(0), sequence: 0 };
        let kind = BlockKind::Launch;
        let label = Label::default();
        let fault = Fault::DeviceReset;
        Self { id: 0, point, kind, label, fault }
    }

    pub(crate) fn is(&self, reported: &StreamFault) -> bool {
        let is_same_fault = match (&self.fault, &reported.fault) {
            (Fault::Hung { .. }, Fault::Hung { .. }) => true,
            // How long it hung is for the runtime to say.
            (Fault::DeviceLost { why }, Fault::DeviceLost { why: reported }) => {
                why == reported || (&**why == GIVEN_UP && reported.ends_with(GIVEN_UP))
            }
            (fault, reported) => fault == reported,
        };
        let Self { point, kind, label, .. } = *self;
        is_same_fault && point == reported.point && kind == reported.kind && label == reported.label
    }
}

/// End of the runtime's message about a device that it gave up.
pub(crate) const GIVEN_UP: &str = "did not heed an abort";
