//! Two streams, an event, a fault and a reset: `cargo run --example 02-streams`.
#![allow(clippy::print_stdout, reason = "a program that talks to a person")]

use std::sync::Arc;

use spyre::flex::{Context, Error, Event, Priority};
use spyre::hal::{
    Behaviour, DeviceRange, HostBuffer, Label, LateCard, MemoryMode, ScriptedCard, Trigger,
};

fn main() -> Result<(), Error> {
    // A card that completes its blocks later, from another thread, as real hardware does.
    let card = Arc::new(LateCard::new(ScriptedCard::new(MemoryMode::Vf).with_engines(2), 7));
    let context = Context::open(card.clone())?;
    context.scheduler().set_tracing(true);
    let loads = context.stream(Priority::Low)?;
    let computes = context.stream(Priority::High)?;

    println!("A program and a tensor go to the device, and come back:");
    let program = loads.allocate_program(4096)?;
    let tensor = DeviceRange::start_of(loads.allocate(1 << 20)?, 1 << 20);
    let code = DeviceRange::start_of(program, ScriptedCard::PROGRAM.len() as u64);
    loads.copy_to_device(ScriptedCard::PROGRAM.to_vec(), code)?;
    loads.fill(tensor, 42)?;
    let loaded = Event::timed();
    let done = Event::timed();
    loads.record(&loaded)?;
    computes.wait(&loaded)?;
    computes.launch_labelled(program, Label::named("matmul"))?;
    let host = HostBuffer::zeroed(1 << 20);
    computes.copy_from_device(tensor, &host)?;
    computes.record(&done)?;
    computes.synchronize()?;
    println!("  the tensor holds {} in every byte: {}", 42, host.read()?.iter().all(|&b| b == 42));
    println!("  {:?} from event to event\n", loaded.elapsed(&done)?);

    println!("The card is lost while a program runs:");
    card.inner().script(Trigger::NextLaunch(program), Behaviour::Lose);
    computes.launch_labelled(program, Label::named("softmax"))?;
    println!("  computes: {}", computes.synchronize().expect_err("it was lost"));
    println!("  loads:    {}\n", loads.fill(tensor, 0).expect_err("it was lost"));

    println!("A reset brings it back, without its memory:");
    context.reset()?;
    println!("  {}", computes.launch(program).expect_err("an old handle"));
    let fresh = loads.allocate(4096)?;
    loads.fill(DeviceRange::start_of(fresh, 4096), 1)?;
    loads.synchronize()?;
    println!("  and the streams go on\n");

    println!("The flight recorder saw:");
    for record in context.scheduler().flight_record() {
        println!("  {record}");
    }
    Ok(())
}
