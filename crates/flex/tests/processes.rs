//! Processes that fork, end at any moment, or only drop what they had.
#![allow(unsafe_code, reason = "a fork is a call into the C library")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use spyre_flex::{
    Context, ControlBlockStream, Drive, Error, Event, FlexStream, LastUse, Policy, Priority,
    SchedulerSettings, Ticket,
};
use spyre_hal::{
    Behaviour, BlockKind, ControlBlock, DeviceHandle, DeviceRange, HostBuffer, Label, LateCard,
    NullCard, Pattern, Trigger,
};
use support::{Kind, Way, open, program, until, whole};

/// The number of the process among its like.
const NUMBER: &str = "SPYRE_TEST_PROCESS_NUMBER";

/// Runs one of the helper tests below in a process of its own.
fn run(helper: &str, number: u64, patience: Duration) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", helper, "--ignored", "--nocapture", "--test-threads=1"])
        .env(NUMBER, number.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let deadline = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().expect("it is ours");
            child.wait().expect("it is ours");
            panic!("{helper} {number} is still there after {patience:?}");
        }
        thread::yield_now();
    }
}

fn number() -> Option<u64> {
    std::env::var(NUMBER).ok()?.parse().ok()
}

/// Everything that a program can hold of a card.
struct Holdings {
    context: Context,
    stream: FlexStream,
    event: Event,
    ticket: Ticket,
    program: DeviceHandle,
    host: HostBuffer,
    blocks: ControlBlockStream,
    staged: ControlBlock,
}

impl Holdings {
    fn new(context: &Context) -> Result<Self, Error> {
        let stream = context.stream(Priority::Low)?;
        let program = stream.allocate(128)?;
        let event = Event::new();
        let mut blocks = ControlBlockStream::new();
        blocks.append(ControlBlock::launch(program, Label::default()))?;
        blocks.append(stream.stage(&[1; 16], whole(program, 16)))?;
        blocks.finalize()?;
        let ticket = stream.ticket(stream.record(&event)?);
        let staged = stream.stage(&[1; 16], whole(program, 16));
        let context = context.clone();
        let host = HostBuffer::zeroed(128);
        Ok(Self { context, stream, event, ticket, program, host, blocks, staged })
    }

    /// The first call that does not say that the process was forked.
    fn first_that_is_not_refused(self) -> Option<usize> {
        let Self { context, stream, event, ticket, program, host, blocks, staged } = self;
        let scheduler = context.scheduler();
        let allocator = context.allocator();
        let range = whole(program, 128);
        let half = |offset| DeviceRange { handle: program, offset, bytes: 64 };
        let launch = ControlBlock::launch(program, Label::default());
        let results = [
            stream.launch(program).map(drop),
            stream.synchronize(),
            stream.query().map(drop),
            stream.allocate(64).map(drop),
            stream.fill(range, 1).map(drop),
            stream.copy_to_device(&host, range).map(drop),
            stream.copy_from_device(range, &host).map(drop),
            stream.copy_on_device(half(0), half(64), None).map(drop),
            stream.copy_staged(&[0; 128], range).map(drop),
            stream.copy_to_peer(range, &context, range).map(drop),
            stream.host_callback(|| Ok(())).map(drop),
            stream.record(&event).map(drop),
            stream.wait(&event),
            stream.reset(),
            stream.submit([stream.stage(&[1; 16], whole(program, 16)), staged]).map(drop),
            blocks.replay(&stream).map(drop),
            event.query().map(drop),
            event.synchronize(),
            event.elapsed(&event).map(drop),
            ticket.wait(),
            ticket.query().map(drop),
            context.stream(Priority::High).map(drop),
            context.synchronize(),
            context.free(program),
            context.reset(),
            scheduler.queue_operation(stream.index(), launch).map(drop),
            allocator.allocate(64, stream.index()).map(drop),
            allocator.free(program),
            allocator.check(program, 0, 1),
            allocator.record_use(program, LastUse { stream: stream.index(), sequence: 1 }),
        ];
        // These have nothing to say, but must return.
        drop((scheduler.flight_record(), scheduler.awake_workers(), scheduler.worker_wakes()));
        drop((allocator.statistics(), allocator.snapshot()));
        scheduler.set_policy(Policy::Priority);
        scheduler.set_tracing(true);
        scheduler.look_for_hung_blocks();
        allocator.empty_cache();
        allocator.reset();
        results.iter().position(|result| *result != Err(Error::Forked))
    }
}

/// Forks, has the child use and drop what it was given, and returns its exit code.
fn fork_with(holdings: Vec<Holdings>) -> i32 {
    // SAFETY: the child calls only what is under test, and ends with `_exit`.
    match unsafe { libc::fork() } {
        -1 => panic!("no fork"),
        0 => {
            let use_all = AssertUnwindSafe(|| {
                let refused = holdings.into_iter().map(Holdings::first_that_is_not_refused);
                refused.collect::<Vec<_>>().into_iter().flatten().next()
            });
            let code = match catch_unwind(use_all) {
                Ok(None) => 0,
                Ok(Some(at)) => at as i32 + 1,
                Err(_) => 255,
            };
            // SAFETY: it ends this process at once; there is nothing of ours to run first.
            unsafe { libc::_exit(code) }
        }
        child => {
            let code = wait_for(child);
            drop(holdings);
            code
        }
    }
}

fn wait_for(child: libc::pid_t) -> i32 {
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut status = 0;
    loop {
        // SAFETY: `child` is a child of this process, and `status` is writable.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if Instant::now() > deadline => {
                // SAFETY: as above.
                unsafe { libc::kill(child, libc::SIGKILL) };
                panic!("a forked child hangs");
            }
            0 => thread::yield_now(),
            _ if libc::WIFEXITED(status) => return libc::WEXITSTATUS(status),
            _ => panic!("a forked child ended with signal {}", libc::WTERMSIG(status)),
        }
    }
}

/// Ends the busy threads, also when a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Keeps every lock of a context in use.
fn be_busy(context: &Context, is_over: &AtomicBool) -> Result<(), Error> {
    let stream = context.stream(Priority::Low)?;
    let event = Event::new();
    let program = stream.allocate(128)?;
    while !is_over.load(Ordering::Relaxed) {
        stream.copy_staged(&[1; 16], whole(program, 16))?;
        stream.launch(program)?;
        stream.record(&event)?;
        stream.wait(&event)?;
        let handle = stream.allocate(64)?;
        stream.fill(whole(handle, 64), 1)?;
        context.free(handle)?;
        drop(context.scheduler().flight_record());
    }
    stream.synchronize()
}

#[test]
#[ignore = "a process of its own, which forks"]
fn forks_with_busy_threads() {
    if number().is_none() {
        return;
    }
    let settings = |drive| SchedulerSettings { drive: Some(drive), ..SchedulerSettings::default() };
    let workers = open(Arc::new(NullCard::with_engines(2)), settings(Drive::Workers));
    let inline = open(Arc::new(NullCard::new()), settings(Drive::Inline));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for context in [&workers, &inline] {
            scope.spawn(|| be_busy(context, &is_over).expect("it works"));
        }
        let _over = Over(&is_over);
        for round in 0..50 {
            // Only this thread uses these two contexts.
            let late = Arc::new(LateCard::new(NullCard::new(), round));
            let own = [
                open(late, SchedulerSettings::default()),
                open(Arc::new(NullCard::new()), settings(Drive::Workers)),
            ];
            let all = own.iter().chain([&workers, &inline]);
            let holdings: Vec<Holdings> =
                all.map(|context| Holdings::new(context).expect("it works")).collect();
            for held in &holdings[..2] {
                for _ in 0..200 {
                    held.stream.launch(held.program).expect("it is queued");
                }
            }
            drop(own);
            let code = fork_with(holdings);
            assert_eq!(code, 0, "round {round}: call {code} was not refused");
        }
    });
}

#[test]
fn a_forked_child_is_refused_at_every_call_and_drops_quietly() {
    let status = run("forks_with_busy_threads", 0, Duration::from_secs(30));
    assert!(status.success(), "{status}");
}

#[test]
fn an_error_says_what_to_do_after_a_fork() {
    assert_eq!(
        Error::Forked.to_string(),
        "this process was forked from one that had opened the card, which does not survive a \
         fork: open it in the child only, or start processes with spawn"
    );
}

#[test]
#[ignore = "a process of its own, which ends in the midst of its work"]
fn ends_with_work_queued() {
    let Some(number) = number() else { return };
    let kind = Kind::ALL[number as usize % Kind::ALL.len()];
    let watchdog_nanoseconds = number.is_multiple_of(2).then_some(2_000_000);
    let settings = SchedulerSettings { watchdog_nanoseconds, ..SchedulerSettings::default() };
    let card = kind.open_with(settings);
    let behaviour =
        [Behaviour::Hang, Behaviour::HangForever, Behaviour::Lose][number as usize % 3].clone();
    card.scripted().script(Trigger::Nth(number * number % 71 + 2), behaviour);
    let streams: Vec<_> = (0..4).map(|_| Arc::new(card.stream())).collect();
    let program = program(&streams[0]).expect("it works");
    let work = |stream: &FlexStream| {
        let event = Event::new();
        for _ in 0..number * 7919 % 300 {
            // A lost device refuses, which is all the same here.
            let _ = stream.launch(program);
            let _ = stream.record(&event);
            let _ = stream.host_callback(|| Ok(()));
        }
    };
    let threads: Vec<_> = streams[1..].iter().map(Arc::clone).collect();
    thread::scope(|scope| {
        if number.is_multiple_of(3) {
            // It is still at work when the process ends.
            for stream in threads {
                thread::spawn(move || while stream.launch(program).is_ok() {});
            }
        } else {
            scope.spawn(|| work(&streams[1]));
        }
        work(&streams[0]);
    });
    match number % 4 {
        0 => std::process::exit(0),
        1 => drop(streams),
        2 => drop(card),
        _ => std::mem::forget((card, streams)),
    }
}

#[test]
fn a_process_may_end_with_work_queued() {
    for number in 0..30 {
        let status = run("ends_with_work_queued", number, Duration::from_secs(5));
        assert!(status.success(), "process {number}: {status}");
    }
}

#[test]
fn a_context_may_be_dropped_with_work_that_hangs() {
    support::on_each_card(|card| {
        let start = Instant::now();
        let kind = card.kind;
        for behaviour in [Behaviour::Hang, Behaviour::HangForever] {
            let card = kind.open();
            let streams = [card.stream(), card.stream()];
            let program = program(&streams[0])?;
            streams[0].synchronize()?;
            card.scripted().script(Trigger::Next(BlockKind::Launch), behaviour);
            let launch = || ControlBlock::launch(program, Label::default());
            for stream in &streams {
                for _ in 0..100 {
                    stream.submit([launch(), launch()])?;
                }
            }
            drop((streams, card));
        }
        assert!(start.elapsed() < Duration::from_secs(5));
        Ok(())
    });
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("a Linux machine").count()
}

#[test]
#[ignore = "a process of its own, which counts its threads"]
fn uses_and_drops_contexts() {
    if number().is_none() {
        return;
    }
    let before = threads();
    for kind in Kind::ALL {
        for behaviour in [None, Some(Behaviour::Hang), Some(Behaviour::HangForever)] {
            let settings = SchedulerSettings {
                watchdog_nanoseconds: Some(100_000_000),
                ..SchedulerSettings::default()
            };
            let card = kind.open_with(settings);
            let stream = card.stream();
            let program = program(&stream).expect("it works");
            stream.host_callback(|| Ok(())).expect("it is queued");
            stream.synchronize().expect("it works");
            assert!(kind.way == Way::Inline || threads() > before);
            if let Some(behaviour) = behaviour.clone() {
                card.scripted().script(Trigger::Next(BlockKind::Launch), behaviour);
            }
            let fill = ControlBlock::Fill { pattern: Pattern::from(1), target: whole(program, 64) };
            stream.submit([fill]).expect("it is queued");
            for _ in 0..50 {
                let _ = stream.launch(program);
                let _ = stream.host_callback(|| Ok(()));
            }
            let event = Event::new();
            let _ = stream.record(&event);
            drop((stream, event));
            drop(card);
            until(&format!("{kind:?}, {behaviour:?}: all threads end"), || threads() == before);
        }
    }
}

#[test]
fn threads_end_when_the_last_handle_to_the_card_is_dropped() {
    let status = run("uses_and_drops_contexts", 0, Duration::from_secs(60));
    assert!(status.success(), "{status}");
}
