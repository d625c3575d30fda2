use std::sync::Arc;
use std::time::Instant;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread::{JoinHandle, spawn, yield_now};
use shuttle::{Config, MaxSteps, Runner};
use spyre_flex::{
    Context, Drive, FlexStream, Policy, Priority, SchedulerSettings, Settings, StreamIndex,
};
use spyre_hal::{ControlBlock, DeferredCard, DeviceRange, Hardware, NullCard};

use crate::order_card::OrderCard;
use crate::threads::Threads;

/// Preemptions that a schedule of the second kind is made with.
const DEPTH: usize = 3;

/// Settings of how blocks are carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) drive: Drive,
    pub(crate) spins: u32,
    pub(crate) policy: Policy,
}

pub(crate) const INLINE: Way = Way { drive: Drive::Inline, spins: 1, policy: Policy::RoundRobin };
pub(crate) const WORKERS: Way = Way { drive: Drive::Workers, spins: 1, ..INLINE };
pub(crate) const PATIENT: Way = Way { drive: Drive::Workers, spins: 2, ..INLINE };

pub(crate) const WAYS: [Way; 3] = [INLINE, WORKERS, PATIENT];

/// Runs a scenario each way, under so many random schedules and as many with few preemptions; so
/// many times over if `SPYRE_SCHEDULES` says so.
#[expect(clippy::print_stdout, reason = "how much was explored is the result")]
pub(crate) fn check(name: &str, ways: &[Way], schedules: usize, scenario: fn(Way)) {
    let times = std::env::var("SPYRE_SCHEDULES").ok().and_then(|times| times.parse().ok());
    let schedules: usize = schedules * times.unwrap_or(1);
    let start = Instant::now();
    let mut ran = 0;
    for &way in ways {
        let mut config = Config::new();
        config.stack_size = 1 << 17;
        config.max_steps = MaxSteps::FailAfter(100_000);
        config.silence_warnings = true;
        let random = RandomScheduler::new(schedules);
        ran += Runner::new(random, config.clone()).run(move || scenario(way));
        let few = PctScheduler::new(DEPTH, schedules);
        ran += Runner::new(few, config).run(move || scenario(way));
    }
    let took = start.elapsed().as_secs_f64();
    println!("shuttle: {name}: {ran} schedules in {took:.1} s");
}

/// An opened card, with queues so small that they grow and fill up.
pub(crate) struct Bench<H> {
    pub(crate) context: Context,
    pub(crate) card: Arc<H>,
    pub(crate) threads: Arc<Threads>,
}

impl<H: Hardware + 'static> Bench<H> {
    pub(crate) fn open(way: Way, hardware: H) -> Self {
        Self::open_watched(way, hardware, None)
    }

    /// Like [`open`](Self::open), with a limit for each block in readings of the clock. The
    /// scenario itself looks for blocks that hang.
    pub(crate) fn open_watched(way: Way, hardware: H, limit: Option<u64>) -> Self {
        let settings = SchedulerSettings {
            policy: way.policy,
            drive: Some(way.drive),
            queue_blocks: 2,
            queue_bound: 4,
            spins: way.spins,
            watchdog_nanoseconds: limit,
        };
        let card = Arc::new(hardware);
        let threads = Arc::new(Threads::default());
        let context = Context::open_with(
            Arc::clone(&card) as Arc<dyn Hardware>,
            Settings::default(),
            settings,
            Arc::clone(&threads) as _,
        );
        Self { context: context.expect("a card opens"), card, threads }
    }

    pub(crate) fn stream(&self) -> Arc<FlexStream> {
        Arc::new(self.context.stream(Priority::Low).expect("there are streams"))
    }

    pub(crate) fn memory(&self) -> DeviceRange {
        let memory = self.context.allocator().allocate(128, StreamIndex(0));
        DeviceRange::start_of(memory.expect("there is memory"), 128)
    }

    /// Closes the card and waits until all threads of the runtime have ended.
    pub(crate) fn close(self) -> Arc<H> {
        let Self { context, card, threads } = self;
        drop(context);
        threads.join();
        card
    }
}

/// Done at once.
pub(crate) fn prompt() -> OrderCard<NullCard> {
    OrderCard::new(NullCard::new())
}

/// Done when [`finish`] gets to it.
pub(crate) fn deferred(engines: u16) -> DeferredCard<OrderCard<NullCard>> {
    DeferredCard::new(OrderCard::new(NullCard::with_engines(engines)))
}

/// A thread of the device, which ends blocks until a test says that there are no more.
pub(crate) struct Finisher {
    wanted: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Finisher {
    pub(crate) fn start<H: Hardware + 'static>(card: &Arc<DeferredCard<H>>) -> Self {
        let card = Arc::clone(card);
        let wanted = Arc::new(AtomicUsize::new(usize::MAX));
        let limit = Arc::clone(&wanted);
        let thread = spawn(move || {
            let mut nth = 0;
            while nth < limit.load(Ordering::SeqCst) {
                nth += usize::from(card.finish(nth));
                yield_now();
            }
        });
        Self { wanted, thread }
    }

    /// Ends it when it has ended so many blocks in all.
    pub(crate) fn end_after(self, blocks: usize) {
        self.wanted.store(blocks, Ordering::SeqCst);
        self.thread.join().expect("the device's thread ends well");
    }

    pub(crate) fn end(self) {
        self.end_after(0);
    }
}

pub(crate) fn fill(byte: u8, target: DeviceRange) -> ControlBlock {
    ControlBlock::Fill { pattern: byte.into(), target }
}
