//! Handles in a program's table: the card asks which are good, unless the scheduler has checked them.

use std::sync::Arc;

use spyre_artifact::Program;
use spyre_hal::{
    Allocations, CheckedOperands, ControlBlock, DeviceHandle, DeviceRange, Label, Outcome, Regions,
};
use spyre_numerics::DataFormat::IeeeFp32;

use super::bed::{Bed, LAUNCHES, Tensor, entry};
use super::{addition, number};

/// Knows no handle.
#[derive(Debug)]
struct NoAllocations;

impl Allocations for NoAllocations {
    fn first_refused(&self, ranges: &[DeviceRange]) -> Option<(usize, Box<str>)> {
        ranges.first().map(|_| (0, "it is not allocated".into()))
    }
}

fn launch(bed: &Bed, program: DeviceHandle, checked_operands: CheckedOperands) -> Outcome {
    bed.start(
        LAUNCHES,
        ControlBlock::Launch { program, label: Label::default(), checked_operands, is_long: false },
    )
}

#[test]
fn handles_are_looked_up_unless_just_they_were_checked() {
    let mut bed = Bed::new();
    let program: Program = addition(IeeeFp32);
    let code = bed.put_code(&program);
    let tensors: [Tensor; 3] =
        [1, 5, 9].map(|seed| bed.tensor(&[2, 40], IeeeFp32, |at| number(at * seed)));
    let instance = bed.put_program(&entry(code, &program, &tensors, &[2, 40], &[]).encode());
    assert_eq!(launch(&bed, instance, CheckedOperands::NONE), Ok(()), "no allocator is asked");

    let allocations: Arc<dyn Allocations> = Arc::new(NoAllocations);
    bed.card.attach(Arc::downgrade(&allocations));
    let range =
        |tensor: &Tensor| DeviceRange::start_of(tensor.handle, tensor.layout.device_bytes() as u64);
    let [a, b, c] = tensors.each_ref().map(range);
    let shorter = DeviceRange { bytes: a.bytes - 1, ..a };
    for others in [&[a, b][..], &[b, a, c], &[shorter, b, c], &[a, b, c, c], &[]] {
        let fault =
            launch(&bed, instance, CheckedOperands::of(others)).expect_err("they are others");
        assert!(fault.to_string().ends_with("it is not allocated"), "{fault}");
    }
    assert!(launch(&bed, instance, CheckedOperands::NONE).is_err());
    assert_eq!(launch(&bed, instance, CheckedOperands::of(&[a, b, c])), Ok(()));
}
