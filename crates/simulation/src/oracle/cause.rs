use spyre_flex::StreamFault;
use spyre_hal::{BlockKind, Fault, Label, StreamIndex, StreamPoint};

/// Which cause.
pub(crate) type CauseId = usize;

/// Why blocks failed or were cancelled: what the runtime must say.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    pub(crate) id: CauseId,
    pub(crate) point: StreamPoint,
    pub(crate) kind: BlockKind,
    pub(crate) label: Label,
    pub(crate) fault: Fault,
}

impl Cause {
    /// A reset that somebody asked for: no block's fault.
    pub(crate) fn reset() -> Self {
        let point = StreamPoint { stream: StreamIndex(0), sequence: 0 };
        let (kind, label, fault) = (BlockKind::Launch, Label::default(), Fault::DeviceReset);
        Self { id: 0, point, kind, label, fault }
    }

    pub(crate) fn is(&self, told: &StreamFault) -> bool {
        let is_same_fault = match (&self.fault, &told.fault) {
            (Fault::Hung { .. }, Fault::Hung { .. }) => true,
            // How long it hung is for the runtime to say.
            (Fault::DeviceLost { why }, Fault::DeviceLost { why: told }) => {
                why == told || (&**why == GIVEN_UP && told.ends_with(GIVEN_UP))
            }
            (fault, told) => fault == told,
        };
        let Self { point, kind, label, .. } = *self;
        is_same_fault && point == told.point && kind == told.kind && label == told.label
    }
}

/// How the runtime ends what it says about a device that it gave up.
pub(crate) const GIVEN_UP: &str = "did not heed an abort";
