//! Which handles in a program's table are good: the card asks, unless the queue has vouched for them.

use std::sync::Arc;

use spyre_artifact::Program;
use spyre_hal::{
    Allocations, ControlBlock, DeviceHandle, DeviceRange, Label, Outcome, Regions, Vouched,
};
use spyre_numerics::DataFormat::IeeeFp32;

use super::bed::{Bed, LAUNCHES, Tensor, entry};
use super::{addition, number};

/// Knows no handle.
#[derive(Debug)]
struct Nobody;

impl Allocations for Nobody {
    fn first_refused(&self, ranges: &[DeviceRange]) -> Option<(usize, Box<str>)> {
        ranges.first().map(|_| (0, "nobody knows it".into()))
    }
}

fn launch(bed: &Bed, program: DeviceHandle, vouched: Vouched) -> Outcome {
    bed.start(
        LAUNCHES,
        ControlBlock::Launch { program, label: Label::default(), vouched, is_long: false },
    )
}

#[test]
fn handles_are_asked_for_unless_just_they_are_vouched_for() {
    let mut bed = Bed::new();
    let program: Program = addition(IeeeFp32);
    let code = bed.put_code(&program);
    let tensors: [Tensor; 3] =
        [1, 5, 9].map(|seed| bed.tensor(&[2, 40], IeeeFp32, |at| number(at * seed)));
    let instance = bed.put_program(&entry(code, &program, &tensors, &[2, 40], &[]).encode());
    assert_eq!(launch(&bed, instance, Vouched::NONE), Ok(()), "nobody is asked");

    let nobody: Arc<dyn Allocations> = Arc::new(Nobody);
    bed.card.attach(Arc::downgrade(&nobody));
    let range =
        |tensor: &Tensor| DeviceRange::start_of(tensor.handle, tensor.layout.device_bytes() as u64);
    let [a, b, c] = tensors.each_ref().map(range);
    let shorter = DeviceRange { bytes: a.bytes - 1, ..a };
    for others in [&[a, b][..], &[b, a, c], &[shorter, b, c], &[a, b, c, c], &[]] {
        let told = launch(&bed, instance, Vouched::of(others)).expect_err("they are others");
        assert!(told.to_string().ends_with("nobody knows it"), "{told}");
    }
    assert!(launch(&bed, instance, Vouched::NONE).is_err());
    assert_eq!(launch(&bed, instance, Vouched::of(&[a, b, c])), Ok(()));
}
