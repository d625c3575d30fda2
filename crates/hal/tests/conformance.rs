//! The conformance suite, on every card of this crate.

#[path = "conformance/blocking.rs"]
mod blocking;

use std::sync::Arc;

use spyre_hal::conformance::{Ending, Subject};
use spyre_hal::{
    Behaviour, DeviceHandle, Fault, Hardware, LateCard, MemoryMode, NullCard, ScriptedCard, Trigger,
};

use blocking::Blocking;

const ENDINGS: &[Ending] = &[Ending::Well, Ending::Fault, Ending::Hang, Ending::Lose];

/// A program of the scripted card that ends in that way wherever it is launched from `program`.
fn program(card: &ScriptedCard, ending: Ending, program: DeviceHandle) -> Vec<u8> {
    let behaviour = match ending {
        Ending::Well => None,
        Ending::Fault => {
            let operand = 1;
            let dimension = 0;
            let fault = Fault::IndexOutOfRange { operand, dimension, index: -1, size: 5 };
            Some(Behaviour::Fault(fault))
        }
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

/// A card, and the scripted one that is somewhere inside it.
fn scripted<H: Hardware + 'static>(card: H, inner: fn(&H) -> &ScriptedCard) -> Subject {
    let card = Arc::new(card);
    let programs = card.clone();
    Subject::new(card)
        .with_programs(ENDINGS, move |ending, handle| program(inner(&programs), ending, handle))
}

fn pf() -> ScriptedCard {
    ScriptedCard::new(MemoryMode::Pf)
}

fn vf(engines: u16) -> ScriptedCard {
    ScriptedCard::new(MemoryMode::Vf).with_engines(engines)
}

fn late_blocking() -> Subject {
    scripted(LateCard::new(Blocking::new(vf(4)), 7), |late| late.inner().inner())
}

spyre_hal::conformance!(null_card, || null(NullCard::new()));
spyre_hal::conformance!(null_card_of_4_engines, || null(NullCard::with_engines(4)));
spyre_hal::conformance!(scripted_pf, || scripted(pf(), |card| card));
spyre_hal::conformance!(scripted_vf, || scripted(vf(1), |card| card));
spyre_hal::conformance!(scripted_of_4_engines, || scripted(vf(4), |card| card));
spyre_hal::conformance!(late_scripted, || scripted(LateCard::new(pf(), 7), LateCard::inner));
spyre_hal::conformance!(late_of_4_engines, || scripted(LateCard::new(vf(4), 7), LateCard::inner));
spyre_hal::conformance!(blocking_pf, || scripted(Blocking::new(pf()), Blocking::inner));
spyre_hal::conformance!(blocking_4_engines, || scripted(Blocking::new(vf(4)), Blocking::inner));
spyre_hal::conformance!(late_blocking_of_4_engines, late_blocking);
spyre_hal::conformance!(late_null, || null(LateCard::new(NullCard::with_engines(4), 7)));
