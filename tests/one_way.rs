//! Short ways of frameworks do what Operations do: the same control blocks, with the same effect on device
//! memory.

use std::sync::Arc;

use spyre::artifact::samples::{self, Elements};
use spyre::card::SoftwareCard;
use spyre::hal::{BlockKind, DeviceRange, HostBuffer, HostSource, HostTarget, MemoryMode};
use spyre::layout::{TensorView, View};
use spyre::numerics::{DType, Profile};
use spyre::runtime::{
    CPUTensor, CachedLaunch, Device, Error, ExecutionPlan, HostAddress, MemoryView, Operation,
    PreProcessCompute, Return, SharedLayout, SpyreStream, SpyreTensor, StorageLayout, TensorMemory,
    copy_from_device, copy_to_device, launch_kernel,
};

const SIZE: [usize; 2] = [3, 70];
const STRIDE: [usize; 2] = [70, 1];
const COUNT: usize = SIZE[0] * SIZE[1];

/// Kind and name of a block.
type Block = (BlockKind, Option<String>);

struct Bed {
    stream: SpyreStream,
    layout: SharedLayout,
}

impl Bed {
    fn open() -> Result<Self, Error> {
        let stream = Device::open(Arc::new(SoftwareCard::new(MemoryMode::Vf)))?.default_stream()?;
        let layout = StorageLayout::of_shape(Profile::Open, &SIZE, &STRIDE, DType::Float32)?;
        Ok(Self { stream, layout: Arc::new(layout) })
    }

    fn memory(&self) -> Result<Arc<TensorMemory>, Error> {
        let layout = Arc::clone(&self.layout);
        Ok(Arc::new(TensorMemory::allocate(&self.stream, layout, 4 * COUNT as u64)?))
    }

    /// The blocks that `act` has the device carry out.
    fn blocks(&self, act: impl FnOnce() -> Result<(), Error>) -> Result<Vec<Block>, Error> {
        let scheduler = self.stream.device().context().scheduler();
        self.stream.synchronize()?;
        scheduler.start_recording(64);
        act()?;
        self.stream.synchronize()?;
        let records = scheduler.stop_recording().records.into_iter();
        Ok(records
            .map(|record| (record.kind, record.label.name().map(|n| n.to_string())))
            .collect())
    }

    /// All bytes of some memory, padding included, as an Operation of raw bytes brings them.
    fn raw(&self, memory: &TensorMemory) -> Result<Vec<u8>, Error> {
        let DeviceRange { bytes, .. } = memory.range();
        let host = HostBuffer::zeroed(bytes as usize);
        let address = HostAddress::Buffer(host.clone());
        let copy = PreProcessCompute::copy_from_device(address, memory.range());
        self.stream.launch(&Operation::preprocessing(vec![copy]), &[])?;
        self.stream.synchronize()?;
        Ok(host.read()?.to_vec())
    }
}

fn tensor(memory: &Arc<TensorMemory>) -> Result<SpyreTensor, Error> {
    memory.tensor(View::contiguous(&SIZE)?, DType::Float32)
}

fn elements() -> TensorView<'static> {
    TensorView { dtype: DType::Float32, size: &SIZE, stride: &STRIDE, offset: 0 }
}

fn view(memory: &Arc<TensorMemory>) -> MemoryView<'_> {
    MemoryView { memory, layout: None, elements: elements() }
}

fn numbers() -> Vec<f32> {
    (0..COUNT).map(|at| at as f32 - 50.0).collect()
}

#[test]
fn a_copy_to_the_device_is_an_operation_with_one_step() -> Result<(), Error> {
    let bed = Bed::open()?;
    let host = CPUTensor::from_values(&SIZE, &numbers())?;
    let by_operation = bed.memory()?;
    let by_copy = bed.memory()?;
    let step = tensor(&by_operation)?.copy_to_device(&host)?;
    let operation = Operation::preprocessing(vec![step]);
    let expected = bed.blocks(|| bed.stream.launch(&operation, &[]).map(drop))?;
    for returns in [Return::WhenQueued, Return::WhenDone] {
        let bytes: Vec<u8> = numbers().iter().flat_map(|number| number.to_le_bytes()).collect();
        let copy = || {
            let source = HostSource::from(bytes);
            copy_to_device(&bed.stream, source, &elements(), &view(&by_copy), returns)
        };
        assert_eq!(bed.blocks(copy)?, expected, "{returns:?}");
        assert_eq!(bed.raw(&by_copy)?, bed.raw(&by_operation)?);
    }
    assert_eq!(expected, [(BlockKind::CopyToDevice, None)]);
    Ok(())
}

#[test]
fn a_copy_from_the_device_is_an_operation_with_one_step() -> Result<(), Error> {
    let bed = Bed::open()?;
    let memory = bed.memory()?;
    tensor(&memory)?.copy_from(&bed.stream, &CPUTensor::from_values(&SIZE, &numbers())?)?;
    let host = CPUTensor::zeroed(&SIZE, DType::Float32)?;
    let operation = Operation::preprocessing(vec![tensor(&memory)?.copy_from_device(&host)?]);
    let expected = bed.blocks(|| bed.stream.launch(&operation, &[]).map(drop))?;
    let other = HostBuffer::zeroed(4 * COUNT);
    let copy = || {
        let target: HostTarget = other.lend_to_write()?;
        copy_from_device(&bed.stream, &view(&memory), target, &elements(), Return::WhenQueued)
    };
    assert_eq!(bed.blocks(copy)?, expected);
    assert_eq!(*other.read()?, *host.buffer().read()?);
    assert_eq!(expected, [(BlockKind::CopyFromDevice, None)]);
    Ok(())
}

#[test]
fn a_launch_that_is_made_again_is_the_operation_less_what_is_in_place() -> Result<(), Error> {
    let bed = Bed::open()?;
    let output = samples::addition(Elements::exact(DType::Float32), None)?;
    let plan = ExecutionPlan::from_compiler_output(output)?;
    plan.load(&bed.stream)?;
    let operation = &plan.operations()[0];
    let compute = operation.compute().expect("it computes");
    let memories = [bed.memory()?, bed.memory()?, bed.memory()?];
    let others = [bed.memory()?, bed.memory()?, bed.memory()?];
    let tensors = |of: &[Arc<TensorMemory>]| of.iter().map(tensor).collect::<Vec<_>>();
    let tensors = |of| tensors(of).into_iter().collect::<Result<Vec<_>, Error>>();
    let given = tensors(&memories)?;
    launch_kernel(&bed.stream, &plan, &given)?;
    let layouts = [(); 3].map(|()| Arc::clone(&bed.layout));
    let again =
        CachedLaunch::of(&bed.stream, &plan, &given, &layouts, &[]).expect("one step, one tile");

    let expected = bed.blocks(|| bed.stream.launch(operation, &given).map(drop))?;
    let corrected = bed.blocks(|| again.launch(&bed.stream, &memories).map(drop))?;
    assert_eq!(corrected, expected, "the first time: inputs, correction, compute");
    let table = compute.read_entry(&bed.stream)?;
    bed.stream.launch(operation, &given)?;
    assert_eq!(compute.read_entry(&bed.stream)?, table, "the same words");

    again.launch(&bed.stream, &memories)?;
    let in_place = bed.blocks(|| again.launch(&bed.stream, &memories).map(drop))?;
    assert_eq!(in_place, expected[2..], "the words are in place: the compute alone");
    let moved = bed.blocks(|| again.launch(&bed.stream, &others).map(drop))?;
    assert_eq!(moved, expected, "other memory: inputs that changed, correction, compute");
    let table = compute.read_entry(&bed.stream)?;
    bed.stream.launch(operation, &tensors(&others)?)?;
    assert_eq!(compute.read_entry(&bed.stream)?, table, "the same words");
    let kinds: Vec<BlockKind> = expected.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [BlockKind::CopyToDevice, BlockKind::Launch, BlockKind::Launch]);
    Ok(())
}
