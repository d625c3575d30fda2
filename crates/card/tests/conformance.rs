//! The conformance suite, on every make of the software card.

use std::sync::Arc;

use spyre_artifact::{Code, CodeImage, Dim, EntryImage, Lane, Program, ProgramBuilder};
use spyre_card::{SoftwareCard, Threads, handle_words};
use spyre_hal::conformance::{Ending, Subject};
use spyre_hal::{
    DeviceHandle, Hardware, LateCard, Location, MemoryMode, PFDeviceHandle, VFDeviceHandle,
};

fn pf() -> SoftwareCard {
    SoftwareCard::new(MemoryMode::Pf)
}

fn vf(engines: u16) -> SoftwareCard {
    SoftwareCard::new(MemoryMode::Vf).with_engines(engines)
}

fn guarded() -> SoftwareCard {
    vf(4).guarded().with_threads(Threads::new(3))
}

fn subject(card: impl Hardware + 'static) -> Subject {
    let endings = &[Ending::Well, Ending::Fault, Ending::Hang];
    Subject::new(Arc::new(card)).with_guarded_programs().with_programs(endings, program)
}

/// An instance, and behind it the code that it names.
fn program(ending: Ending, handle: DeviceHandle) -> Vec<u8> {
    let program = match ending {
        Ending::Hang => long_loop(),
        _ => ProgramBuilder::new().build().expect("it follows the rules"),
    };
    let blank = EntryImage::new(handle_words(handle), program.table_shape(), 0).expect("small");
    let code = behind(handle, blank.encode().len() as u64);
    let mut entry = EntryImage::new(handle_words(code), program.table_shape(), 0).expect("small");
    for dim in 0..program.dims() {
        let word = program.table_shape().extent_word(Dim(dim as u8));
        entry.table_mut()[word] = 1 << 20;
    }
    let mut bytes = entry.encode();
    bytes.extend(CodeImage::new(Code::Compute(program), Vec::new()).expect("small").encode());
    if ending == Ending::Fault {
        *bytes.last_mut().expect("an image") ^= 1;
    }
    bytes
}

/// It takes days.
fn long_loop() -> Program {
    let mut code = ProgramBuilder::new();
    let i = code.dim();
    let j = code.dim();
    code.each(i, 1, |code| {
        code.each(j, 1, |code| {
            code.constant(Lane::F32, [i, j], 1.0);
        });
    });
    code.build().expect("it follows the rules")
}

fn behind(handle: DeviceHandle, bytes: u64) -> DeviceHandle {
    let tag = handle.tag();
    match handle.location() {
        Location::Pf(PFDeviceHandle { physical_address }) => {
            let place = PFDeviceHandle { physical_address: physical_address + bytes };
            DeviceHandle::pf(place, tag)
        }
        Location::Vf(VFDeviceHandle { region_id, vf_offset }) => {
            DeviceHandle::vf(VFDeviceHandle { region_id, vf_offset: vf_offset + bytes }, tag)
        }
    }
}

spyre_hal::conformance!(software_pf, || subject(pf()));
spyre_hal::conformance!(software_vf, || subject(vf(1)));
spyre_hal::conformance!(software_of_4_engines, || subject(vf(4)));
spyre_hal::conformance!(software_guarded, || subject(guarded()));
spyre_hal::conformance!(software_guarded_pf, || subject(pf().guarded()));
spyre_hal::conformance!(late_software, || subject(LateCard::new(pf(), 7)));
spyre_hal::conformance!(late_software_of_4_engines, || subject(LateCard::new(vf(4), 7)));
spyre_hal::conformance!(late_guarded, || subject(LateCard::new(guarded(), 7)));
