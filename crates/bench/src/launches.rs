//! The launch path on a null card, against a bare ring.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use spyre_flex::{
    Context, ControlBlockStream, DeviceHandle, Drive, Event, FlexStream, Machine, Priority,
    SchedulerSettings, Settings,
};
use spyre_hal::{ControlBlock, Label, NullCard};

use crate::bare_ring::BareRing;
use crate::{Bar, Benchmark};

const PEER: &str = "bare ring";

/// Every benchmark of the launch path.
pub fn all<'a>() -> Vec<Benchmark<'a>> {
    vec![
        enqueue(),
        ten_thousand(),
        round_trip(),
        record(),
        record_and_wait(),
        replay(),
        combining(),
    ]
}

/// A card, a stream and a program.
struct Subject {
    context: Context,
    stream: FlexStream,
    program: DeviceHandle,
}

impl Subject {
    fn open(drive: Drive) -> Self {
        let settings = SchedulerSettings { drive: Some(drive), ..SchedulerSettings::default() };
        let machine = Arc::new(Machine::default());
        let card = Arc::new(NullCard::new());
        let context =
            Context::open_with(card, Settings::default(), settings, machine).expect("a card");
        let stream = context.stream(Priority::Low).expect("a stream");
        let program = stream.allocate(4096).expect("memory");
        Self { context, stream, program }
    }

    fn launch(&self) {
        self.stream.launch(self.program).expect("a live program");
    }

    fn synchronize(&self) {
        self.stream.synchronize().expect("no fault");
    }

    /// Runs with a worker that is awake.
    fn live<R>(&self, run: impl FnOnce() -> R) -> R {
        self.launch();
        while self.context.scheduler().awake_workers() == 0 {
            self.launch();
        }
        self.synchronize();
        run()
    }
}

fn block(at: u64) -> [u64; 8] {
    [at; 8]
}

fn timed(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

/// Pushes only: what the submitting thread pays.
fn pushes<'a>(
    name: &str,
    bar: f64,
    count: u64,
    subject: Subject,
    mut each: impl FnMut(&Subject) + 'a,
) -> Benchmark<'a> {
    let ours = move || {
        subject.live(|| {
            let time = timed(|| (0..count).for_each(|_| each(&subject)));
            subject.synchronize();
            time
        })
    };
    let mut ring = BareRing::new();
    let peer = move || ring.live(|ring| timed(|| (0..count).for_each(|at| ring.push(block(at)))));
    Benchmark::timed(format!("{name}, x{count}"), Bar::AtMost(bar), ours, PEER, peer)
}

fn enqueue<'a>() -> Benchmark<'a> {
    pushes("enqueue a launch", 2.5, 10_000, Subject::open(Drive::Workers), Subject::launch)
}

fn record<'a>() -> Benchmark<'a> {
    let event = Event::new();
    pushes("record an event", 2.0, 10_000, Subject::open(Drive::Workers), move |subject| {
        subject.stream.record(&event).expect("room");
    })
}

fn record_and_wait<'a>() -> Benchmark<'a> {
    // Timed, so that there is a block to wait for.
    let event = Event::timed();
    let subject = Subject::open(Drive::Workers);
    let other = subject.context.stream(Priority::Low).expect("a stream");
    pushes("record, wait on another stream", 5.0, 10_000, subject, move |subject| {
        subject.stream.record(&event).expect("room");
        other.wait(&event).expect("room");
    })
}

fn ten_thousand<'a>() -> Benchmark<'a> {
    const COUNT: u64 = 10_000;
    let subject = Subject::open(Drive::Workers);
    let ours = move || {
        subject.live(|| {
            timed(|| {
                (0..COUNT).for_each(|_| subject.launch());
                subject.synchronize();
            })
        })
    };
    let mut ring = BareRing::new();
    let peer = move || {
        ring.live(|ring| {
            timed(|| {
                (0..COUNT).for_each(|at| ring.push(block(at)));
                ring.finish();
            })
        })
    };
    Benchmark::timed("10,000 launches, synchronize", Bar::AtMost(3.0), ours, PEER, peer)
}

fn replay<'a>() -> Benchmark<'a> {
    const BLOCKS: u64 = 100;
    const REPLAYS: u64 = 100;
    let subject = Subject::open(Drive::Workers);
    let mut composed = ControlBlockStream::new();
    for _ in 0..BLOCKS {
        let launch = ControlBlock::launch(subject.program, Label::default());
        composed.append(launch).expect("open");
    }
    composed.finalize().expect("blocks");
    let ours = move || {
        subject.live(|| {
            timed(|| {
                (0..REPLAYS).for_each(|_| _ = composed.replay(&subject.stream).expect("room"));
                subject.synchronize();
            })
        })
    };
    let mut ring = BareRing::new();
    let peer = move || {
        ring.live(|ring| {
            timed(|| {
                (0..BLOCKS * REPLAYS).for_each(|at| ring.push(block(at)));
                ring.finish();
            })
        })
    };
    Benchmark::timed("replay of 100 blocks, x100", Bar::AtMost(1.5), ours, PEER, peer)
}

fn round_trip<'a>() -> Benchmark<'a> {
    const COUNT: u64 = 1_000;
    let subject = Subject::open(Drive::Workers);
    let ours = move || {
        subject.live(|| {
            timed(|| {
                (0..COUNT).for_each(|_| {
                    subject.launch();
                    subject.synchronize();
                });
            })
        })
    };
    let mut ring = BareRing::new();
    let peer = move || {
        ring.live(|ring| {
            timed(|| {
                (0..COUNT).for_each(|at| {
                    ring.push(block(at));
                    ring.finish();
                });
            })
        })
    };
    Benchmark::timed("launch + synchronize, spinning, x1000", Bar::AtMost(2.0), ours, PEER, peer)
}

/// Two producers on a device that is prompt: the first to come carries out the other's blocks.
fn combining<'a>() -> Benchmark<'a> {
    const COUNT: u64 = 10_000;
    let subject = Subject::open(Drive::Inline);
    let other = subject.context.stream(Priority::Low).expect("a stream");
    let program = subject.program;
    let ours = move || {
        let is_going = AtomicBool::new(true);
        let started = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                started.wait();
                while is_going.load(Ordering::Relaxed) {
                    other.launch(program).expect("a live program");
                }
            });
            started.wait();
            let time = timed(|| (0..COUNT).for_each(|_| subject.launch()));
            is_going.store(false, Ordering::Relaxed);
            time
        })
    };
    let mut ring = BareRing::new();
    let peer = move || ring.live(|ring| timed(|| (0..COUNT).for_each(|at| ring.push(block(at)))));
    Benchmark::timed("enqueue, 2 producers, 1 combines, x10000", Bar::AtMost(6.0), ours, PEER, peer)
}
