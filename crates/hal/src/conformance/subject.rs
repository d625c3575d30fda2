use std::fmt;
use std::sync::Arc;

use crate::{DeviceHandle, Hardware};

/// Way in which a program is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Ends without a fault.
    Well,
    /// Ends with a fault that leaves the device usable.
    Fault,
    /// Does not end by itself.
    Hang,
    /// Ends with the loss of the device.
    Lose,
}

/// A hardware that is to be checked, and what can be asked of it.
pub struct Subject {
    hardware: Arc<dyn Hardware>,
    keeps_data: bool,
    guards_programs: bool,
    endings: &'static [Ending],
    programs: Box<dyn Fn(Ending, DeviceHandle) -> Vec<u8>>,
}

impl Subject {
    /// A hardware that keeps data, and of whose programs nothing is known.
    pub fn new(hardware: Arc<dyn Hardware>) -> Self {
        let programs = Box::new(|_, _| Vec::new());
        Self { hardware, keeps_data: true, guards_programs: false, endings: &[], programs }
    }

    /// Declares that the hardware forgets what is written to it.
    #[must_use]
    pub fn without_data(self) -> Self {
        Self { keeps_data: false, ..self }
    }

    /// Declares that the hardware guards programs.
    #[must_use]
    pub fn with_guarded_programs(self) -> Self {
        Self { guards_programs: true, ..self }
    }

    /// Sets the programs, which end in these ways. `programs` gives the bytes of one that will be
    /// written to a handle, and launched from there.
    #[must_use]
    pub fn with_programs(
        self,
        endings: &'static [Ending],
        programs: impl Fn(Ending, DeviceHandle) -> Vec<u8> + 'static,
    ) -> Self {
        Self { endings, programs: Box::new(programs), ..self }
    }

    pub(super) fn hardware(&self) -> &Arc<dyn Hardware> {
        &self.hardware
    }

    pub(super) fn keeps_data(&self) -> bool {
        self.keeps_data
    }

    pub(super) fn guards_programs(&self) -> bool {
        self.guards_programs
    }

    pub(super) fn ends(&self, ending: Ending) -> bool {
        self.endings.contains(&ending)
    }

    pub(super) fn program(&self, ending: Ending, handle: DeviceHandle) -> Vec<u8> {
        (self.programs)(ending, handle)
    }
}

impl<H: Hardware + 'static> From<Arc<H>> for Subject {
    fn from(hardware: Arc<H>) -> Self {
        Self::new(hardware)
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Subject");
        debug.field("hardware", &self.hardware).field("keeps_data", &self.keeps_data);
        debug.field("endings", &self.endings).finish_non_exhaustive()
    }
}
