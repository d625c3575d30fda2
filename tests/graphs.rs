//! Launches that a stream notes during a capture, and that a graph of them queues again.

use std::sync::Arc;

use spyre::artifact::CompilerOutput;
use spyre::artifact::samples::{self, Elements};
use spyre::card::SoftwareCard;
use spyre::hal::MemoryMode;
use spyre::numerics::DType;
use spyre::runtime::{
    CPUTensor, Composition, Device, Error, ExecutionPlan, GraphMemory, LaunchGraph, Priority,
    SpyreStream, SpyreTensor, launch_kernel,
};

const SIZE: [usize; 2] = [3, 70];
const COUNT: usize = SIZE[0] * SIZE[1];

struct Bed {
    stream: SpyreStream,
    plan: ExecutionPlan,
}

impl Bed {
    fn open() -> Result<Self, Error> {
        Self::of(samples::addition(Elements::exact(DType::Float32), None)?)
    }

    fn of(output: CompilerOutput) -> Result<Self, Error> {
        let card = Arc::new(SoftwareCard::new(MemoryMode::Vf));
        let stream = Device::open(card)?.default_stream()?;
        let plan = ExecutionPlan::from_compiler_output(output)?;
        plan.load(&stream)?;
        Ok(Self { stream, plan })
    }

    fn tensor(&self, value: f32) -> Result<SpyreTensor, Error> {
        SpyreTensor::from_host(&self.stream, &CPUTensor::from_values(&SIZE, &[value; COUNT])?)
    }

    fn empty(&self) -> Result<SpyreTensor, Error> {
        SpyreTensor::empty(&self.stream, &SIZE, DType::Float32)
    }

    fn values(&self, tensor: &SpyreTensor) -> Result<Vec<f32>, Error> {
        let host = tensor.to_host(&self.stream)?;
        self.stream.synchronize()?;
        host.values::<f32>()
    }

    fn capture(&self, act: impl FnOnce() -> Result<(), Error>) -> Result<LaunchGraph, Error> {
        self.stream.begin_capture(&GraphMemory::new(self.stream.device().context()))?;
        act()?;
        self.stream.end_capture()
    }

    fn launch(&self, tensors: [&SpyreTensor; 3]) -> Result<(), Error> {
        launch_kernel(&self.stream, &self.plan, &tensors.map(Clone::clone)).map(drop)
    }
}

#[test]
fn launches_are_noted_and_replayed() -> Result<(), Error> {
    let bed = Bed::open()?;
    let [x, y, sum] = [bed.tensor(1.0)?, bed.tensor(2.0)?, bed.tensor(0.0)?];
    let graph = bed.capture(|| {
        bed.launch([&x, &y, &sum])?;
        bed.launch([&sum, &y, &x])
    })?;
    assert_eq!(graph.blocks(), 6);
    assert_eq!(bed.values(&sum)?, [0.0; COUNT]);
    for round in 1..4_u8 {
        graph.replay(&bed.stream)?;
        assert_eq!(bed.values(&x)?, [f32::from(4 * round + 1); COUNT]);
        bed.launch([&y, &y, &sum])?; // by the stream's own instance
        assert_eq!(bed.values(&sum)?, [4.0; COUNT]);
    }
    Ok(())
}

#[test]
fn memory_of_a_capture_is_used_again_within_it() -> Result<(), Error> {
    let bed = Bed::open()?;
    let x = bed.tensor(1.0)?;
    let result = std::cell::OnceCell::new();
    let handles = std::cell::RefCell::new(Vec::new());
    let graph = bed.capture(|| {
        let mut last = x.clone();
        for _ in 0..5 {
            let next = bed.empty()?;
            handles.borrow_mut().push(next.device_handle());
            bed.launch([&last, &x, &next])?;
            last = next;
        }
        result.set(last).map_err(|_| Error::EmptyOperation)
    })?;
    let handles = handles.into_inner();
    assert_eq!(handles[0], handles[2]);
    assert_ne!(handles[0], handles[1]);
    let others = [bed.tensor(7.0)?, bed.tensor(7.0)?];
    drop(x);
    graph.replay(&bed.stream)?;
    let result = result.into_inner().ok_or(Error::EmptyOperation)?;
    assert_eq!(bed.values(&result)?, [6.0; COUNT]);
    drop(graph);
    assert_eq!(bed.values(&result)?, [6.0; COUNT]);
    assert_eq!(bed.values(&others[0])?, [7.0; COUNT]);
    Ok(())
}

#[test]
fn a_replay_on_another_stream_waits_for_the_last() -> Result<(), Error> {
    let bed = Bed::open()?;
    let [one, x, sum] = [bed.tensor(1.0)?, bed.tensor(0.0)?, bed.tensor(0.0)?];
    let graph = bed.capture(|| {
        bed.launch([&x, &one, &sum])?;
        bed.launch([&sum, &one, &x])
    })?;
    let device = bed.stream.device();
    for _ in 0..10 {
        graph.replay(&device.stream(Priority::Low)?)?;
    }
    device.synchronize()?;
    assert_eq!(bed.values(&x)?, [20.0; COUNT]);
    Ok(())
}

#[test]
fn what_cannot_be_repeated_is_refused() -> Result<(), Error> {
    let bed = Bed::open()?;
    let x = bed.tensor(1.0)?;
    assert_eq!(bed.stream.end_capture().err(), Some(Error::CapturesNothing { stream: 0 }));
    let memory = GraphMemory::new(bed.stream.device().context());
    bed.stream.begin_capture(&memory)?;
    assert_eq!(bed.stream.begin_capture(&memory), Err(Error::Captures { stream: 0 }));
    assert!(matches!(bed.stream.synchronize(), Err(Error::InCapture { .. })));
    assert!(matches!(bed.stream.query(), Err(Error::InCapture { .. })));
    assert!(matches!(bed.tensor(1.0), Err(Error::InCapture { .. } | Error::Flex(_))));
    assert!(matches!(x.to_host(&bed.stream), Err(Error::InCapture { .. } | Error::Flex(_))));
    let other = Device::open(Arc::new(SoftwareCard::new(MemoryMode::Vf)))?;
    let other = GraphMemory::new(other.context());
    assert!(bed.stream.begin_capture(&other).is_err());
    let graph = bed.stream.end_capture()?;
    assert_eq!(graph.blocks(), 0);
    let elsewhere = Device::open(Arc::new(SoftwareCard::new(MemoryMode::Vf)))?.default_stream()?;
    let refused = Error::GraphDevice { given: elsewhere.device().index() };
    assert_eq!(graph.replay(&elsewhere), Err(refused));
    graph.replay(&bed.stream)?;
    assert_eq!(bed.values(&x)?, [1.0; COUNT]);
    Ok(())
}

#[test]
fn steps_of_a_plan_share_its_intermediates() -> Result<(), Error> {
    let bed = Bed::of(samples::two_additions(Elements::exact(DType::Float32), None)?)?;
    let tensors = [bed.tensor(1.0)?, bed.tensor(10.0)?, bed.tensor(100.0)?, bed.tensor(0.0)?];
    let mut composition = Composition::new(&bed.stream);
    for _ in 0..2 {
        for operation in bed.plan.operations() {
            composition.append(operation, &tensors, &[])?;
        }
    }
    composition.finalize()?;
    bed.stream.device().synchronize()?; // the programs are loaded
    for blocks in [12, 4] {
        let before = bed.stream.flex().last_point().sequence;
        assert_eq!(composition.replay()?.sequence - before, blocks);
        assert_eq!(bed.values(&tensors[3])?, [111.0; COUNT]);
    }
    Ok(())
}
