//! The conformance suite, on every card of this crate.

use std::sync::Arc;

use spyre_hal::conformance::{Ending, Subject};
use spyre_hal::{
    Behaviour, DeviceHandle, Fault, Hardware, Late, MemoryMode, NullCard, ScriptedCard, Trigger,
};

const ENDINGS: &[Ending] = &[Ending::Well, Ending::Fault, Ending::Hang, Ending::Lose];

/// A program of the scripted card that ends in that way wherever it is launched from `program`.
fn program(card: &ScriptedCard, ending: Ending, program: DeviceHandle) -> Vec<u8> {
    let behaviour = match ending {
        Ending::Well => None,
        Ending::Fault => Some(Behaviour::Fault(Fault::IndexOutOfRange { index: -1, size: 5 })),
        Ending::Hang => Some(Behaviour::Hang),
        Ending::Lose => Some(Behaviour::Lose),
    };
    if let Some(behaviour) = behaviour {
        card.script(Trigger::EveryLaunch(program), behaviour);
    }
    ScriptedCard::PROGRAM.to_vec()
}

fn null(hardware: impl Hardware + 'static) -> Subject {
    Subject::new(Arc::new(hardware)).without_data()
}

fn scripted(mode: MemoryMode, engines: u16) -> Subject {
    let card = Arc::new(ScriptedCard::new(mode).with_engines(engines));
    let programs = card.clone();
    Subject::new(card)
        .with_programs(ENDINGS, move |ending, handle| program(&programs, ending, handle))
}

fn late_scripted(mode: MemoryMode, engines: u16) -> Subject {
    let card = Arc::new(Late::new(ScriptedCard::new(mode).with_engines(engines), 7));
    let programs = card.clone();
    Subject::new(card)
        .with_programs(ENDINGS, move |ending, handle| program(programs.inner(), ending, handle))
}

spyre_hal::conformance!(null_card, || null(NullCard::new()));
spyre_hal::conformance!(null_card_of_4_engines, || null(NullCard::with_engines(4)));
spyre_hal::conformance!(scripted_pf, || scripted(MemoryMode::Pf, 1));
spyre_hal::conformance!(scripted_vf, || scripted(MemoryMode::Vf, 1));
spyre_hal::conformance!(scripted_of_4_engines, || scripted(MemoryMode::Vf, 4));
spyre_hal::conformance!(late_scripted_pf, || late_scripted(MemoryMode::Pf, 1));
spyre_hal::conformance!(late_scripted_of_4_engines, || late_scripted(MemoryMode::Vf, 4));
spyre_hal::conformance!(late_null, || null(Late::new(NullCard::with_engines(4), 7)));
