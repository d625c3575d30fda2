//! A launch that was made once is made again with other memory that lies alike, and with no other.

use std::sync::Arc;

use spyre::artifact::CompilerOutput;
use spyre::artifact::samples::{self, Elements};
use spyre::card::SoftwareCard;
use spyre::hal::MemoryMode;
use spyre::layout::View;
use spyre::numerics::{DType, Profile};
use spyre::runtime::{
    CPUTensor, CachedLaunch, Device, Error, ExecutionPlan, SharedLayout, SpyreStream, SpyreTensor,
    StorageLayout, TensorMemory, launch_kernel,
};

const SIZE: [usize; 2] = [3, 70];
const COUNT: usize = SIZE[0] * SIZE[1];

struct Bed {
    stream: SpyreStream,
    plan: ExecutionPlan,
    layout: SharedLayout,
}

impl Bed {
    fn open(tile: Option<[u64; 2]>) -> Result<Self, Error> {
        Self::of(samples::addition(Elements::exact(DType::Float32), tile)?)
    }

    fn of(output: CompilerOutput) -> Result<Self, Error> {
        let card = Arc::new(SoftwareCard::new(MemoryMode::Vf));
        let stream = Device::open(card)?.default_stream()?;
        let plan = ExecutionPlan::from_compiler_output(output)?;
        plan.load(&stream)?;
        stream.device().synchronize()?;
        let layout = StorageLayout::of_shape(Profile::Open, &SIZE, &[SIZE[1], 1], DType::Float32)?;
        Ok(Self { stream, plan, layout: Arc::new(layout) })
    }

    fn memory(&self, value: f32) -> Result<Arc<TensorMemory>, Error> {
        let memory =
            TensorMemory::allocate(&self.stream, Arc::clone(&self.layout), 4 * COUNT as u64)?;
        let host = CPUTensor::from_values(&SIZE, &[value; COUNT])?;
        let memory = Arc::new(memory);
        tensor(&memory)?.copy_from(&self.stream, &host)?;
        Ok(memory)
    }

    fn values(&self, memory: &Arc<TensorMemory>) -> Result<Vec<f32>, Error> {
        let host = tensor(memory)?.to_host(&self.stream)?;
        self.stream.synchronize()?;
        host.values::<f32>()
    }

    fn cache_launch(&self, memories: &[Arc<TensorMemory>]) -> Result<Option<CachedLaunch>, Error> {
        let tensors: Result<Vec<_>, Error> = memories.iter().map(tensor).collect();
        let tensors = tensors?;
        launch_kernel(&self.stream, &self.plan, &tensors)?;
        let layouts: Vec<SharedLayout> =
            memories.iter().map(|memory| Arc::clone(memory.layout())).collect();
        Ok(CachedLaunch::of(&self.stream, &self.plan, &tensors, &layouts, &[]))
    }
}

fn tensor(memory: &Arc<TensorMemory>) -> Result<SpyreTensor, Error> {
    memory.tensor(View::contiguous(&SIZE)?, DType::Float32)
}

#[test]
fn other_memory_that_lies_alike_is_added() -> Result<(), Error> {
    let bed = Bed::open(None)?;
    let first = [bed.memory(1.0)?, bed.memory(2.0)?, bed.memory(0.0)?];
    let cached = bed.cache_launch(&first)?.expect("one step, one tile");
    assert_eq!(bed.values(&first[2])?, [3.0; COUNT]);
    for value in 0..20 {
        let again = [bed.memory(value as f32)?, bed.memory(10.0)?, bed.memory(0.0)?];
        assert!(cached.launch(&bed.stream, &again)?.is_some());
        assert_eq!(bed.values(&again[2])?, [value as f32 + 10.0; COUNT]);
    }
    assert_eq!(bed.values(&first[2])?, [3.0; COUNT]);
    Ok(())
}

#[test]
fn a_plan_of_several_steps_is_launched_again_with_its_intermediates() -> Result<(), Error> {
    let bed = Bed::of(samples::two_additions(Elements::exact(DType::Float32), None)?)?;
    let memories = |a: f32| -> Result<_, Error> {
        Ok([bed.memory(a)?, bed.memory(10.0)?, bed.memory(100.0)?, bed.memory(0.0)?])
    };
    let first = memories(1.0)?;
    let cached = bed.cache_launch(&first)?.expect("two steps, one tile each");
    assert_eq!(bed.values(&first[3])?, [111.0; COUNT]);
    let second = memories(2.0)?;
    // The first corrects all of both programs, the second only launches them, the third corrects handles.
    for (given, blocks) in [(&first, 6), (&first, 2), (&second, 6)] {
        let before = bed.stream.flex().last_point().sequence;
        let point = cached.launch(&bed.stream, given)?.expect("it is alike");
        assert_eq!(point.sequence - before, blocks);
    }
    assert_eq!(bed.values(&second[3])?, [112.0; COUNT]);
    // Another launch of the plan, and another size of the intermediate, come between.
    launch_kernel(&bed.stream, &bed.plan, &small_tensors(&bed)?)?;
    assert!(cached.launch(&bed.stream, &second)?.is_some());
    assert_eq!(bed.values(&second[3])?, [112.0; COUNT]);
    Ok(())
}

fn small_tensors(bed: &Bed) -> Result<Vec<SpyreTensor>, Error> {
    (0..4).map(|_| SpyreTensor::empty(&bed.stream, &[2, 5], DType::Float32)).collect()
}

#[test]
fn a_launch_in_place_is_made_again_in_place() -> Result<(), Error> {
    let bed = Bed::open(None)?;
    let x = bed.memory(1.0)?;
    let y = bed.memory(2.0)?;
    let z = bed.memory(5.0)?;
    let in_place = |x: &Arc<TensorMemory>| [Arc::clone(x), Arc::clone(&y), Arc::clone(x)];
    let cached = bed.cache_launch(&in_place(&x))?.expect("one step, one tile");
    assert!(cached.launch(&bed.stream, &in_place(&x))?.is_some());
    assert!(cached.launch(&bed.stream, &in_place(&z))?.is_some());
    assert_eq!((bed.values(&x)?, bed.values(&z)?), (vec![5.0; COUNT], vec![7.0; COUNT]));
    Ok(())
}

#[test]
fn memory_that_lies_or_is_shared_otherwise_is_left_alone() -> Result<(), Error> {
    let bed = Bed::open(None)?;
    let [x, y, z] = [bed.memory(1.0)?, bed.memory(2.0)?, bed.memory(0.0)?];
    let cached = bed.cache_launch(&[&x, &y, &z].map(Arc::clone))?.expect("one step, one tile");
    let flat = StorageLayout::flat(Profile::Open, COUNT, DType::Float32)?;
    let flat = TensorMemory::allocate(&bed.stream, Arc::new(flat), 4 * COUNT as u64)?;
    let others = [
        vec![Arc::clone(&x), Arc::clone(&y), Arc::new(flat)],
        vec![Arc::clone(&x), Arc::clone(&y), Arc::clone(&x)],
        vec![Arc::clone(&x), Arc::clone(&y)],
    ];
    for other in &others {
        assert!(!cached.is_alike(&bed.stream, other));
        assert_eq!(cached.launch(&bed.stream, other)?, None);
    }
    let elsewhere = Bed::open(None)?;
    assert_eq!(cached.launch(&elsewhere.stream, &[x.clone(), y, z])?, None);
    assert_eq!(bed.values(&x)?, [1.0; COUNT]);
    Ok(())
}

#[test]
fn a_launch_of_several_tiles_is_not_kept() -> Result<(), Error> {
    let bed = Bed::open(Some([1, 70]))?;
    let memories = [bed.memory(1.0)?, bed.memory(2.0)?, bed.memory(0.0)?];
    assert!(bed.cache_launch(&memories)?.is_none());
    assert_eq!(bed.values(&memories[2])?, [3.0; COUNT]);
    Ok(())
}

#[test]
fn after_a_reset_the_plan_is_to_be_loaded_anew() -> Result<(), Error> {
    let bed = Bed::open(None)?;
    let memories =
        || -> Result<_, Error> { Ok([bed.memory(1.0)?, bed.memory(2.0)?, bed.memory(0.0)?]) };
    let cached = bed.cache_launch(&memories()?)?.expect("one step, one tile");
    bed.stream.device().reset()?;
    let after = memories()?;
    assert_eq!(cached.launch(&bed.stream, &after)?, None);
    bed.plan.load(&bed.stream)?;
    assert!(cached.launch(&bed.stream, &after)?.is_some());
    assert_eq!(bed.values(&after[2])?, [3.0; COUNT]);
    Ok(())
}

#[test]
fn a_program_that_is_corrected_for_the_memory_is_only_launched() -> Result<(), Error> {
    let bed = Bed::open(None)?;
    let [x, y, z] = [bed.memory(1.0)?, bed.memory(2.0)?, bed.memory(0.0)?];
    let in_place = |x: &Arc<TensorMemory>| [Arc::clone(x), Arc::clone(&y), Arc::clone(x)];
    let cached = bed.cache_launch(&in_place(&x))?.expect("one step, one tile");
    let blocks = |memory| -> Result<u64, Error> {
        let before = bed.stream.flex().last_point().sequence;
        let point = cached.launch(&bed.stream, &in_place(memory))?.expect("it lies alike");
        Ok(point.sequence - before)
    };
    let made = [blocks(&x)?, blocks(&x)?, blocks(&x)?, blocks(&z)?, blocks(&z)?, blocks(&x)?];
    assert_eq!(made, [3, 1, 1, 3, 1, 3]);
    assert_eq!((bed.values(&x)?, bed.values(&z)?), (vec![11.0; COUNT], vec![4.0; COUNT]));

    launch_kernel(&bed.stream, &bed.plan, &[tensor(&z)?, tensor(&z)?, tensor(&z)?])?;
    assert_eq!([blocks(&x)?, blocks(&x)?], [3, 1], "the plan's own launch has corrected it");
    assert_eq!((bed.values(&x)?, bed.values(&z)?), (vec![15.0; COUNT], vec![8.0; COUNT]));
    Ok(())
}

#[test]
fn a_correction_that_was_cancelled_is_made_anew() -> Result<(), Error> {
    let bed = Bed::open(None)?;
    let [x, y, z] = [bed.memory(1.0)?, bed.memory(2.0)?, bed.memory(0.0)?];
    let in_place = |x: &Arc<TensorMemory>| [Arc::clone(x), Arc::clone(&y), Arc::clone(x)];
    let cached = bed.cache_launch(&in_place(&x))?.expect("one step, one tile");
    let launch = |memory| cached.launch(&bed.stream, &in_place(memory));
    launch(&x)?;
    bed.stream.flex().host_callback(|| Err("no".into()))?;
    for _ in 0..3 {
        launch(&z)?;
    }
    assert!(bed.stream.synchronize().is_err());
    assert!(launch(&z).is_err(), "a result that never came was read");
    tensor(&z)?.copy_from(&bed.stream, &CPUTensor::from_values(&SIZE, &[0.0_f32; COUNT])?)?;
    for _ in 0..3 {
        launch(&z)?;
    }
    assert_eq!((bed.values(&x)?, bed.values(&z)?), (vec![5.0; COUNT], vec![6.0; COUNT]));
    Ok(())
}

#[test]
fn launches_with_any_memory_in_any_order_use_that_memory() -> Result<(), Error> {
    let bed = Bed::open(None)?;
    let all: Result<Vec<_>, Error> = (0..6).map(|value| bed.memory(value as f32)).collect();
    let all = all?;
    let mut values: Vec<f32> = (0..6).map(|value| value as f32).collect();
    let picked = |places: [usize; 3]| places.map(|at| Arc::clone(&all[at]));
    let cached = [[0, 1, 2], [3, 4, 5]].map(|places| bed.cache_launch(&picked(places)));
    (values[2], values[5]) = (values[0] + values[1], values[3] + values[4]);
    let [first, second] = cached;
    let cached = [first?.expect("one tile"), second?.expect("one tile")];
    let mut random = 1_usize;
    for _ in 0..500 {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [x, y, z] = [33, 40, 47].map(|bits| (random >> bits) % 6);
        if x == y || y == z || x == z {
            continue;
        }
        let launched = cached[(random >> 60) % 2].launch(&bed.stream, &picked([x, y, z]))?;
        assert!(launched.is_some(), "it lies alike");
        values[z] = values[x] + values[y];
    }
    for (memory, value) in all.iter().zip(values) {
        assert_eq!(bed.values(memory)?, [value; COUNT]);
    }
    Ok(())
}
