//! A warm launch takes nothing from the heap, and asks nothing of the kernel.
#![allow(unsafe_code, reason = "an allocator that counts, and system calls that mark places")]
#![allow(clippy::print_stderr, reason = "it says what could not be measured")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use spyre_flex::{
    Context, ControlBlockStream, Drive, Env, Error, Event, FlexStream, Machine, Priority,
    SchedulerSettings, Settings,
};
use spyre_hal::{ControlBlock, DeviceHandle, Label, NullCard};
use support::{open, until, whole};

/// Counts what it is asked for by the threads of a test: the one that submits, and the runtime's.
struct Counting;

thread_local! {
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// The machine, with threads that count.
#[derive(Debug, Default)]
struct Counted(Machine);

impl Env for Counted {
    fn now(&self) -> u64 {
        self.0.now()
    }

    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> bool {
        let counted = move || {
            IS_COUNTED.set(true);
            body();
        };
        self.0.spawn(name, Box::new(counted))
    }

    fn park(&self) {
        self.0.park();
    }
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

fn count() {
    if IS_COUNTED.get() {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to the contract.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

/// One test at a time counts.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

const ROUNDS: u64 = 10_000;

/// The first time that a thread has to wait for a lock, because its owner lost its core just then,
/// the lock's table of waiting threads is made. It is made once for each thread.
const TRIES: u32 = 4;

/// Rings as large as they get, so that they do not grow while we count.
fn settings(drive: Drive) -> SchedulerSettings {
    let queue_blocks = 1 << 16;
    SchedulerSettings { drive: Some(drive), queue_blocks, ..SchedulerSettings::default() }
}

/// Number of times that warm rounds, `ROUNDS` of them, allocate from the heap until all of them
/// have ended.
fn allocations(
    (context, stream): (&Context, &FlexStream),
    mut round: impl FnMut(u64) -> Result<(), Error>,
) -> Result<u64, Error> {
    for nth in 0..ROUNDS {
        round(nth)?;
    }
    context.synchronize()?;
    // A worker's first sleep is not a warm one.
    until("the worker sleeps", || context.scheduler().awake_workers() == 0);
    for nth in 0..ROUNDS {
        round(nth)?;
    }
    context.synchronize()?;
    let mut least = u64::MAX;
    for _ in 0..TRIES {
        let before = ALLOCATIONS.load(Ordering::SeqCst);
        for nth in 0..ROUNDS {
            round(nth)?;
        }
        // To sleep takes a little; to ask takes nothing.
        while !stream.query()? {
            std::hint::spin_loop();
        }
        least = least.min(ALLOCATIONS.load(Ordering::SeqCst) - before);
        if least == 0 {
            break;
        }
    }
    Ok(least)
}

fn on_each_drive(
    test: impl Fn(&Context, &FlexStream, DeviceHandle) -> Result<u64, Error>,
) -> Result<(), Error> {
    let _alone = alone();
    for drive in [Drive::Inline, Drive::Workers] {
        let card = Arc::new(NullCard::new());
        let env = Arc::new(Counted::default());
        let context = Context::open_with(card, Settings::default(), settings(drive), env)?;
        let stream = context.stream(Priority::Low)?;
        let program = stream.allocate(128)?;
        IS_COUNTED.set(true);
        assert_eq!(test(&context, &stream, program)?, 0, "allocations with {drive:?}");
    }
    Ok(())
}

#[test]
fn a_warm_launch_takes_nothing_from_the_heap() -> Result<(), Error> {
    on_each_drive(|context, stream, program| {
        let label = Label::named("warm");
        allocations((context, stream), |_| stream.launch_labelled(program, label).map(drop))
    })
}

#[test]
fn a_warm_event_takes_nothing_from_the_heap() -> Result<(), Error> {
    on_each_drive(|context, stream, program| {
        let other = context.stream(Priority::Low)?;
        let events = [Event::new(), Event::new()];
        let counted = allocations((context, stream), |_| {
            other.wait(&events[1])?;
            other.launch(program)?;
            other.record(&events[0])?;
            stream.wait(&events[0])?;
            stream.launch(program)?;
            stream.record(&events[1]).map(drop)
        })?;
        other.synchronize()?;
        Ok(counted)
    })
}

#[test]
fn a_warm_batch_with_a_staged_copy_takes_nothing_from_the_heap() -> Result<(), Error> {
    on_each_drive(|context, stream, program| {
        let launch = || ControlBlock::launch(program, Label::default());
        warm_buffers(stream, program);
        allocations((context, stream), |nth| {
            let staged = stream.stage(&[1; 64], whole(program, 64));
            let point = stream.submit([staged, launch(), launch()])?;
            // So many buffers are kept as can be under way in a launch or two.
            while nth % 16 == 0 && !stream.ticket(point).query()? {
                std::hint::spin_loop();
            }
            Ok(())
        })
    })
}

#[test]
fn a_warm_replay_takes_nothing_from_the_heap() -> Result<(), Error> {
    on_each_drive(|context, stream, program| {
        warm_buffers(stream, program);
        let mut blocks = ControlBlockStream::new();
        for nth in 0..100 {
            blocks.append(match nth % 10 {
                0 => stream.stage(&[1; 64], whole(program, 64)),
                _ => ControlBlock::launch(program, Label::default()),
            })?;
        }
        blocks.finalize()?;
        allocations((context, stream), |nth| {
            let point = blocks.replay(stream)?;
            while nth % 4 == 0 && !stream.ticket(point).query()? {
                std::hint::spin_loop();
            }
            Ok(())
        })
    })
}

/// Has a stream keep as many buffers for staged copies as it ever does.
fn warm_buffers(stream: &FlexStream, program: DeviceHandle) {
    let staged: Vec<_> = (0..64).map(|_| stream.stage(&[1; 64], whole(program, 64))).collect();
    drop(staged);
}

/// The worker sleeps, and nothing is under way. It says so a little before it does.
fn wait_until_asleep(context: &Context) {
    until("the worker sleeps", || {
        context.scheduler().awake_workers() == 0 && is_worker_in_the_kernel()
    });
}

#[test]
fn a_sleeping_worker_is_woken_once() -> Result<(), Error> {
    let _alone = alone();
    let context = open(Arc::new(NullCard::new()), settings(Drive::Workers));
    let stream = context.stream(Priority::Low)?;
    let program = stream.allocate(128)?;
    for _ in 0..100 {
        wait_until_asleep(&context);
        let before = context.scheduler().worker_wakes();
        let ticket = stream.ticket(stream.launch(program)?);
        while !ticket.query()? {
            std::hint::spin_loop();
        }
        wait_until_asleep(&context);
        assert_eq!(context.scheduler().worker_wakes(), before + 1);
    }
    Ok(())
}

#[test]
fn an_awake_worker_is_not_woken() -> Result<(), Error> {
    let _alone = alone();
    // A second or so: a worker that looked for longer would be seen to do so after its test.
    let settings = SchedulerSettings { spins: 20_000_000, ..settings(Drive::Workers) };
    let context = open(Arc::new(NullCard::new()), settings);
    let stream = context.stream(Priority::Low)?;
    let program = stream.allocate(128)?;
    for _ in 0..ROUNDS {
        stream.launch(program)?;
    }
    while !stream.query()? {
        std::hint::spin_loop();
    }
    assert_eq!(context.scheduler().worker_wakes(), 0);
    Ok(())
}

/// A system call that nothing else makes, to find the place in a trace.
fn mark() {
    // SAFETY: it takes nothing and always succeeds.
    unsafe { libc::getppid() };
}

fn is_worker_in_the_kernel() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").expect("a Linux machine");
    let stats =
        threads.flatten().filter_map(|t| std::fs::read_to_string(t.path().join("stat")).ok());
    stats.into_iter().any(|stat| stat.contains("(spyre engine 0) S"))
}

/// Variable that names the helper to run: set only for the process that is traced.
const TRACED: &str = "SPYRE_TEST_TRACED";

#[test]
#[ignore = "a process of its own, which is traced"]
fn launches_between_marks() -> Result<(), Error> {
    let Ok(traced) = std::env::var(TRACED) else { return Ok(()) };
    let (drive, spins, rounds) = match traced.as_str() {
        "inline" => (Drive::Inline, 400, ROUNDS),
        "awake" => (Drive::Workers, u32::MAX, ROUNDS),
        _ => (Drive::Workers, 1, 1),
    };
    let settings = SchedulerSettings { spins, ..settings(drive) };
    let context = open(Arc::new(NullCard::new()), settings);
    let stream = context.stream(Priority::Low)?;
    let program = stream.allocate(128)?;
    for _ in 0..ROUNDS {
        stream.launch(program)?;
    }
    while !stream.query()? {
        std::hint::spin_loop();
    }
    if traced == "asleep" {
        wait_until_asleep(&context);
    }
    mark();
    for _ in 0..rounds {
        stream.launch(program)?;
    }
    mark();
    while !stream.query()? {
        std::hint::spin_loop();
    }
    // Workers that never sleep end with the process.
    std::process::exit(0);
}

/// The system calls of the submitting thread between the marks, or why there are none to see.
fn traced(what: &str) -> Result<Vec<String>, String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("strace-{what}"));
    let status = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&output)
        .arg(exe)
        .args(["--exact", "launches_between_marks", "--ignored", "--test-threads=1"])
        .env(TRACED, what)
        .output()
        .map_err(|error| format!("strace: {error}"))?;
    if !status.status.success() {
        let why = String::from_utf8_lossy(&status.stderr).into_owned();
        return Err(format!("strace ended with {}: {why}", status.status));
    }
    let text = std::fs::read_to_string(&output).map_err(|error| error.to_string())?;
    let lines: Vec<&str> = text.lines().collect();
    let marks: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].contains("getppid(")).collect();
    let &[begin, end] = &marks[..] else { return Err(format!("{} marks", marks.len())) };
    let thread = lines[begin].split_whitespace().next().unwrap_or_default();
    let of_thread = |line: &&&str| {
        line.split_whitespace().next() == Some(thread) && !line.contains(" resumed>")
    };
    let calls = lines[begin + 1..end].iter().filter(of_thread);
    Ok(calls.map(|line| (*line).to_owned()).collect())
}

fn calls_of(what: &str) -> Option<Vec<String>> {
    let _alone = alone();
    traced(what).map_err(|why| eprintln!("not measured: {why}")).ok()
}

#[test]
fn warm_launches_ask_nothing_of_the_kernel() {
    for what in ["inline", "awake"] {
        let Some(calls) = calls_of(what) else { return };
        assert_eq!(calls, Vec::<String>::new(), "{what}");
    }
}

#[test]
fn a_launch_for_a_sleeping_worker_is_one_wake() {
    let Some(calls) = calls_of("asleep") else { return };
    assert!(
        calls.len() == 1 && calls[0].contains("futex(") && calls[0].contains("WAKE"),
        "{calls:?}"
    );
}
