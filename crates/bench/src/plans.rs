//! Launches of plans, against what lies below them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spyre_artifact::samples::{self, Elements};
use spyre_card::SoftwareCard;
use spyre_flex::{Drive, SchedulerSettings};
use spyre_hal::{DeviceHandle, Hardware, MemoryMode, NullCard};
use spyre_numerics::DType;
use spyre_runtime::{
    Device, DeviceSettings, ExecutionPlan, SpyreStream, SpyreTensor, launch_kernel,
};

use crate::bare_ring::BareRing;
use crate::{Bar, Benchmark};

/// Every benchmark of launches by plan.
pub fn all<'a>() -> Vec<Benchmark<'a>> {
    vec![corrected(), corrected_host(), warm(), tiled()]
}

/// A stream, a matmul with a tile of 64 x 64, and two sets of tensors.
struct Subject {
    stream: SpyreStream,
    plan: ExecutionPlan,
    tensors: [Vec<SpyreTensor>; 2],
    program: DeviceHandle,
}

impl Subject {
    fn open(hardware: Arc<dyn Hardware>, drive: Option<Drive>, rows: usize) -> Self {
        let scheduler = SchedulerSettings { drive, ..SchedulerSettings::default() };
        let settings = DeviceSettings { scheduler, ..DeviceSettings::default() };
        let device = Device::open_with(hardware, settings).expect("a card");
        let stream = device.default_stream().expect("a stream");
        let elements = Elements::exact(DType::Float32);
        let output = samples::addition(elements, Some([1, 64])).expect("a plan");
        let plan = ExecutionPlan::from_compiler_output(output).expect("a plan");
        plan.load(&stream).expect("memory");
        let tensor = || SpyreTensor::empty(&stream, &[rows, 64], DType::Float32).expect("memory");
        let tensors = [(); 2].map(|()| vec![tensor(), tensor(), tensor()]);
        let program = plan.operations()[0].device_handles()[1];
        stream.synchronize().expect("no fault");
        Self { stream, plan, tensors, program }
    }

    fn launch(&self, at: u64) {
        let tensors = &self.tensors[at as usize % 2];
        launch_kernel(&self.stream, &self.plan, tensors).expect("a legal launch");
    }

    fn one_block(&self) {
        self.stream.flex().launch(self.program).expect("a live program");
    }

    /// The time that `count` submissions and the work take.
    fn whole_time(&self, count: u64, submit: impl Fn(u64)) -> Duration {
        let start = Instant::now();
        (0..count).for_each(submit);
        self.stream.synchronize().expect("no fault");
        start.elapsed()
    }

    /// The time that `count` submissions take, with a worker that is awake; not that of the work.
    fn host_time(&self, count: u64, submit: impl Fn(u64)) -> Duration {
        self.launch(0);
        while self.stream.device().context().scheduler().awake_workers() == 0 {
            self.launch(0);
        }
        self.stream.synchronize().expect("no fault");
        let start = Instant::now();
        (0..count).for_each(submit);
        let elapsed = start.elapsed();
        self.stream.synchronize().expect("no fault");
        elapsed
    }
}

/// A launch and its work, as the card is driven by default: who submits carries out.
fn corrected<'a>() -> Benchmark<'a> {
    const COUNT: u64 = 1_000;
    let open = || Subject::open(Arc::new(NullCard::new()), None, 1);
    let subject = open();
    let peer = open();
    Benchmark::timed(
        "launch_kernel: 3 blocks, addresses alternate, x1000",
        Bar::AtMost(4.0),
        move || subject.whole_time(COUNT, |at| subject.launch(at)),
        "one block",
        move || peer.whole_time(COUNT, |_| peer.one_block()),
    )
}

/// Time of the host alone, while a worker carries out: 700 bytes of words and three slots go to
/// another core, where one block is one slot.
fn corrected_host<'a>() -> Benchmark<'a> {
    const COUNT: u64 = 1_000;
    let open = || Subject::open(Arc::new(NullCard::new()), Some(Drive::Workers), 1);
    let subject = open();
    let peer = open();
    Benchmark::timed(
        "launch_kernel: the host's part, x1000",
        Bar::AtMost(14.0),
        move || subject.host_time(COUNT, |at| subject.launch(at)),
        "one block's",
        move || peer.host_time(COUNT, |_| peer.one_block()),
    )
}

fn warm<'a>() -> Benchmark<'a> {
    const COUNT: u64 = 1_000;
    let subject =
        Subject::open(Arc::new(SoftwareCard::new(MemoryMode::Vf)), Some(Drive::Workers), 1);
    let mut ring = BareRing::new();
    Benchmark::timed(
        "host time of a warm 64-element kernel, x1000",
        Bar::AtMost(30.0),
        move || subject.host_time(COUNT, |at| subject.launch(at)),
        "bare ring",
        move || {
            ring.live(|ring| {
                let start = Instant::now();
                (0..COUNT).for_each(|at| ring.push([at; 8]));
                start.elapsed()
            })
        },
    )
}

fn tiled<'a>() -> Benchmark<'a> {
    const COUNT: u64 = 2_500;
    let open = |rows| Subject::open(Arc::new(NullCard::new()), Some(Drive::Workers), rows);
    let subject = open(4);
    let peer = open(1);
    Benchmark::timed(
        "a tiled launch of 12 blocks, x2500",
        Bar::AtMost(4.5),
        move || subject.host_time(COUNT, |at| subject.launch(at)),
        "3 blocks",
        move || peer.host_time(COUNT, |at| peer.launch(at)),
    )
}
