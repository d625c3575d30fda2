//! A thread that flushes subnormals, or rounds upwards, computes what every other does.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code, reason = "sets the floating-point control word")]

use std::arch::asm;
use std::sync::Arc;

use spyre_card::{SoftwareCard, Threads};
use spyre_hal::{
    ControlBlock, CopyFromDevice, CopyToDevice, DeviceHandle, DeviceRange, EngineIndex, HandleTag,
    Hardware, HostBuffer, MemoryMode, Regions, Started, Token, VFDeviceHandle,
};
use spyre_layout::{DmaNest, Endpoint, Solo, View};
use spyre_numerics::DataFormat::{IeeeFp32, IeeeFp64};

/// Subnormal results and operands are zero, and rounding is upwards.
const UNUSUAL: u32 = 0x1f80 | 0x8000 | 0x0040 | 0x4000;

fn set(word: u32) -> u32 {
    let mut before = 0_u32;
    // SAFETY: no reserved bit is set, and it is set back before anything but copies is done.
    unsafe {
        asm!("stmxcsr [{}]", in(reg) &raw mut before, options(nostack));
        asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack));
    }
    before
}

/// Doubles that are rounded, and that become subnormal.
fn doubles(count: usize) -> Vec<u8> {
    let number = |at: usize| {
        let fraction = 1.0 + (at as f64 * 0.618_033_988_75).fract();
        fraction * 2_f64.powi(-(at as i32 % 149))
    };
    (0..count).flat_map(|at| number(at).to_le_bytes()).collect()
}

fn narrowing(count: usize) -> Arc<DmaNest> {
    let source = View::contiguous(&[count]);
    let target = View::new(&[count], &[2], 0);
    let source = source.expect("a view");
    let target = target.expect("a view");
    let ends = (Endpoint::host(&source, IeeeFp64), Endpoint::host(&target, IeeeFp32));
    Arc::new(DmaNest::derive(ends.0, ends.1).expect("one size"))
}

#[test]
fn what_a_card_computes_does_not_depend_on_the_thread_that_starts_it() {
    // The helpers start in the midst of the second copy, from the thread that rounds otherwise.
    for count in [1000, 400_000] {
        let nest = narrowing(count);
        let source = doubles(count);
        let mut expected = vec![0; nest.target_reach_bytes()];
        nest.copy(&source, &mut expected, &Solo).expect("a legal copy");

        let card = SoftwareCard::new(MemoryMode::Vf).with_threads(Threads::new(3));
        let region = card.try_allocate(1 << 30).expect("there are eight");
        let place = VFDeviceHandle { region_id: region.id.0, vf_offset: 0 };
        let handle = DeviceHandle::vf(place, HandleTag { epoch: 0, generation: 0, slot: 0 });
        let target = DeviceRange::start_of(handle, expected.len() as u64);
        let copy = CopyToDevice { source: source.into(), target, nest: Some(nest) };
        let block = ControlBlock::CopyToDevice(Box::new(copy));

        let before = set(UNUSUAL);
        let started = card.start(EngineIndex(0), Token(0), block);
        let after = set(before);
        assert_eq!(started, Started::Done(Ok(())));
        assert_eq!(after & !0x3f, UNUSUAL, "the thread keeps its own");
        let host = HostBuffer::zeroed(expected.len());
        let back = CopyFromDevice {
            source: target,
            target: host.lend_to_write().expect("no block uses it"),
            nest: None,
        };
        let block = ControlBlock::CopyFromDevice(Box::new(back));
        assert_eq!(card.start(EngineIndex(0), Token(1), block), Started::Done(Ok(())));
        assert!(host.read().expect("it is back")[..] == expected[..], "{count} numbers");
    }
}

#[test]
fn the_numbers_of_this_test_would_differ() {
    let nest = narrowing(1000);
    let source = doubles(1000);
    let [mut usual, mut unusual] = [(); 2].map(|()| vec![0; nest.target_reach_bytes()]);
    nest.copy(&source, &mut usual, &Solo).expect("a legal copy");
    let before = set(UNUSUAL);
    let copied = nest.copy(&source, &mut unusual, &Solo);
    set(before);
    copied.expect("a legal copy");
    assert!(usual != unusual, "otherwise it shows nothing");
}
