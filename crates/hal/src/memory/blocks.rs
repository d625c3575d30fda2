//! The blocks that move data, carried out on device memory.

use spyre_layout::{DmaNest, Solo};

use super::{DeviceMemory, same_length};
use crate::{ControlBlock, CopyDevice, CopyFromDevice, CopyPeer, CopyToDevice, Fault, Outcome};

impl DeviceMemory {
    /// Carries out a block that moves data, and drops it. Memory runs no programs: a launch is a
    /// [`Fault::BadProgram`], and what belongs to the host is refused too.
    pub fn carry_out(&self, block: ControlBlock) -> Outcome {
        match block {
            ControlBlock::CopyToDevice(copy) => self.copy_to(&copy),
            ControlBlock::CopyStaged(copy) => self.write(copy.target(), copy.bytes()),
            ControlBlock::CopyFromDevice(mut copy) => self.copy_from(&mut copy),
            ControlBlock::CopyDevice(copy) => self.copy_within(&copy),
            ControlBlock::CopyPeer(copy) => self.copy_peer(&copy),
            ControlBlock::Fill { pattern, target } => self.fill(target, pattern),
            ControlBlock::Launch { program, .. } => {
                Err(Fault::BadProgram { program, why: "memory runs no programs".into() })
            }
            ControlBlock::HostCallback(_)
            | ControlBlock::External(_)
            | ControlBlock::RecordEvent(_)
            | ControlBlock::WaitEvent(_) => Err(failed(format!("{} is no copy", block.kind()))),
        }
    }

    pub(crate) fn copy_to(&self, copy: &CopyToDevice) -> Outcome {
        let source = copy.source.bytes();
        match &copy.nest {
            None => {
                let bytes = source.len().min(copy.target.bytes as usize);
                self.write(copy.target, &source[..bytes])
            }
            Some(nest) => self.update(copy.target, |target| run(nest, source, target)),
        }
    }

    pub(crate) fn copy_from(&self, copy: &mut CopyFromDevice) -> Outcome {
        let target = copy.target.bytes_mut();
        match &copy.nest {
            None => {
                let bytes = target.len().min(copy.source.bytes as usize);
                self.read(copy.source, &mut target[..bytes])
            }
            Some(nest) => run(nest, &self.bytes(copy.source)?, target),
        }
    }

    pub(crate) fn copy_within(&self, copy: &CopyDevice) -> Outcome {
        let source = self.bytes(copy.source)?;
        match &copy.nest {
            None => self.write(copy.target, &source),
            Some(nest) => self.update(copy.target, |target| run(nest, &source, target)),
        }
    }

    /// Copies to another card. A fault of the other card is a failed copy here: that the other is lost
    /// does not mean that this one is.
    pub(crate) fn copy_peer(&self, copy: &CopyPeer) -> Outcome {
        same_length(copy.source.bytes, copy.target.bytes)?;
        let bytes = self.bytes(copy.source)?;
        let accepted = copy.peer.accept(copy.target, &bytes);
        accepted.map_err(|fault| failed(format!("on the other card, {fault}")))
    }
}

fn run(nest: &DmaNest, source: &[u8], target: &mut [u8]) -> Outcome {
    nest.copy(source, target, &Solo).map_err(|error| failed(error.to_string()))
}

fn failed(why: String) -> Fault {
    Fault::CopyFailed { why: why.into() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use spyre_layout::{Endpoint, View};
    use spyre_numerics::DataFormat::SenInt8;

    use super::*;
    use crate::{
        DeviceHandle, DeviceRange, HandleTag, HostBuffer, HostCallback, MemoryMode, Regions,
        VFDeviceHandle,
    };

    fn memory() -> (DeviceMemory, DeviceHandle) {
        let memory = DeviceMemory::new(MemoryMode::Vf, 1, 4096);
        let region = memory.try_allocate(4096).expect("there is one");
        let tag = HandleTag { epoch: 0, generation: 0, slot: 0 };
        let place = VFDeviceHandle { region_id: region.id.0, vf_offset: 0 };
        (memory, DeviceHandle::vf(place, tag))
    }

    fn every_other(elements: usize) -> Arc<DmaNest> {
        let dense = View::contiguous(&[elements]).expect("small");
        let spread = View::new(&[elements], &[2], 0).expect("small");
        let [source, target] = [Endpoint::host(&dense, SenInt8), Endpoint::host(&spread, SenInt8)];
        Arc::new(DmaNest::derive(source, target).expect("one size"))
    }

    #[test]
    fn bytes_that_a_nest_does_not_name_keep_their_value() {
        let (memory, handle) = memory();
        let target = DeviceRange::start_of(handle, 6);
        memory.write(target, &[9; 6]).expect("in bounds");
        let copy =
            CopyToDevice { source: vec![1, 2, 3].into(), target, nest: Some(every_other(3)) };
        assert_eq!(memory.carry_out(ControlBlock::CopyToDevice(Box::new(copy))), Ok(()));
        assert_eq!(memory.bytes(target), Ok(vec![1, 9, 2, 9, 3, 9]));
    }

    #[test]
    fn a_nest_that_reaches_past_its_range_fails_and_writes_nothing() {
        let (memory, handle) = memory();
        let target = DeviceRange::start_of(handle, 4);
        let copy =
            CopyToDevice { source: vec![1, 2, 3].into(), target, nest: Some(every_other(3)) };
        let fault = memory.copy_to(&copy).expect_err("five bytes are reached");
        assert!(matches!(&fault, Fault::CopyFailed { why } if why.contains('5')), "{fault}");
        assert_eq!(memory.bytes(target), Ok(vec![0; 4]));
    }

    #[test]
    fn a_host_buffer_of_another_length_is_refused() {
        let (memory, handle) = memory();
        let target = HostBuffer::zeroed(3).lend_to_write().expect("it is not lent");
        let source = DeviceRange::start_of(handle, 4);
        let copy = CopyFromDevice { source, target, nest: None };
        let outcome = memory.carry_out(ControlBlock::CopyFromDevice(Box::new(copy)));
        assert!(matches!(outcome, Err(Fault::CopyFailed { .. })), "{outcome:?}");
    }

    #[test]
    fn what_is_no_copy_is_refused() {
        let (memory, program) = memory();
        let launch = ControlBlock::launch(program, crate::Label::default());
        assert!(matches!(memory.carry_out(launch), Err(Fault::BadProgram { .. })));
        let callback = ControlBlock::HostCallback(HostCallback::new(|| Ok(())));
        let fault = memory.carry_out(callback).expect_err("the host's");
        assert_eq!(fault.to_string(), "the copy failed: host callback is no copy");
    }
}
