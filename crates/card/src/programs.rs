//! Where programs will run.
//!
//! A launch has its [`Work`]: the memory that the program lies in and works on, the threads, and the
//! turn that tells it to end. It copies the image out of device memory before it looks at it, since
//! other blocks may change the original meanwhile.

use spyre_hal::{DeviceHandle, DeviceRange, Fault, Outcome};

use crate::memory::Way;
use crate::work::Work;

/// What any image must start with, to be told from other bytes.
const HEADER_BYTES: usize = 16;

impl Work<'_> {
    /// Runs the program that lies at a handle. No bytes are a program yet.
    pub(crate) fn launch(&self, program: DeviceHandle) -> Outcome {
        let range = DeviceRange::start_of(program, HEADER_BYTES as u64);
        let mut header = [0; HEADER_BYTES];
        self.memory.window(range)?.read(0, &mut header, Way::Cached);
        let why = format!("it starts with {header:02x?}, as no image does");
        Err(Fault::BadProgram { program, why: why.into() })
    }
}
