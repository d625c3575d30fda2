//! Allocations that a table names when its program runs: they are live, or were when it was queued.

use std::sync::{Arc, Barrier};

use spyre::artifact::{
    Access, Code, CodeImage, EntryImage, Operand, OperandWords, Program, ProgramBuilder,
};
use spyre::card::{SoftwareCard, handle_words};
use spyre::flex::{Context, Error, FlexStream, LastUse, Priority};
use spyre::hal::{
    DeviceHandle, DeviceRange, Fault, HandleTag, HostBuffer, Location, MemoryMode, PFDeviceHandle,
};
use spyre::layout::SpyreTensorLayout;
use spyre::numerics::DataFormat::IeeeFp32;

const BYTES: u64 = 256;

/// y = x + x over 64 numbers.
fn twice() -> Program {
    let mut code = ProgramBuilder::new();
    let i = code.dim();
    let x = code.operand(IeeeFp32, Access::Read, [i]);
    let y = code.operand(IeeeFp32, Access::Write, [i]);
    code.each_parallel(i, 0, |code| {
        let tile = code.load(x);
        let sum = code.add(tile, tile);
        code.store(y, sum);
    });
    code.build().expect("it follows the rules")
}

struct Bench {
    context: Context,
    stream: FlexStream,
    instance: DeviceHandle,
    code: DeviceHandle,
}

impl Bench {
    fn open(mode: MemoryMode) -> Result<Self, Error> {
        let context = Context::open(Arc::new(SoftwareCard::new(mode)))?;
        let stream = context.stream(Priority::Low)?;
        let image = CodeImage::new(Code::Compute(twice()), Vec::new()).expect("small").encode();
        let code = stream.allocate_program(image.len() as u64)?;
        let length = image.len() as u64;
        stream.copy_to_device(image, DeviceRange::start_of(code, length))?;
        let instance = stream.allocate_program(4096)?;
        Ok(Self { context, stream, instance, code })
    }

    /// Loads an instance for two tensors of so many bytes.
    fn load(&self, tensors: [DeviceHandle; 2], limit_bytes: u64) -> Result<(), Error> {
        let shape = twice().table_shape();
        let mut entry = EntryImage::new(handle_words(self.code), shape, 0).expect("small");
        let layout = SpyreTensorLayout::contiguous(&[64], IeeeFp32).expect("a layout");
        for (at, tensor) in tensors.into_iter().enumerate() {
            let words = OperandWords::of_layout(handle_words(tensor), limit_bytes, &layout);
            let mut words = words.expect("small");
            words.strides[0] = 1;
            let place = shape.operand_words(Operand(at as u8));
            entry.table_mut()[place].copy_from_slice(&words.encode());
        }
        entry.table_mut()[shape.extent_word(spyre::artifact::Dim(0))] = 64;
        let bytes = entry.encode();
        let target = DeviceRange::start_of(self.instance, bytes.len() as u64);
        self.stream.copy_to_device(bytes, target)?;
        Ok(())
    }

    fn launch(&self, tensors: [DeviceHandle; 2], limit_bytes: u64) -> Result<(), Error> {
        self.load(tensors, limit_bytes)?;
        self.stream.launch(self.instance)?;
        self.stream.synchronize()
    }

    /// Fault that the launch reports about operand 0. Checks that the stream can go on after it.
    fn refusal(&self, tensors: [DeviceHandle; 2], limit_bytes: u64) -> String {
        let Err(Error::Stream(failed)) = self.launch(tensors, limit_bytes) else {
            panic!("it was not refused")
        };
        assert!(matches!(failed.fault, Fault::BadOperand { operand: 0, .. }), "{failed:?}");
        self.stream.reset().expect("it goes on");
        failed.fault.to_string()
    }
}

#[test]
fn live_allocations_are_used_and_freed_ones_are_refused() -> Result<(), Error> {
    for mode in [MemoryMode::Pf, MemoryMode::Vf] {
        let bench = Bench::open(mode)?;
        let [x, y] = [bench.stream.allocate(BYTES)?, bench.stream.allocate(BYTES)?];
        bench.stream.copy_to_device(
            [1.5_f32; 64].iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>(),
            DeviceRange::start_of(x, BYTES),
        )?;
        bench.launch([x, y], BYTES)?;
        let host = HostBuffer::zeroed(BYTES as usize);
        let target = host.lend_to_write().expect("no copy uses it");
        bench.stream.copy_from_device(DeviceRange::start_of(y, BYTES), target)?;
        bench.stream.synchronize()?;
        assert!(host.read().expect("it is back").chunks(4).all(|x| x == 3_f32.to_le_bytes()));

        bench.context.free(x)?;
        assert!(bench.refusal([x, y], BYTES).contains("freed"));
    }
    Ok(())
}

#[test]
fn what_is_freed_behind_a_launch_is_still_its_own() -> Result<(), Error> {
    let bench = Bench::open(MemoryMode::Vf)?;
    let y = bench.stream.allocate(BYTES)?;
    for _ in 0..200 {
        let x = bench.stream.allocate(BYTES)?;
        bench.load([x, y], BYTES)?;
        let gate = Arc::new(Barrier::new(2));
        let held = Arc::clone(&gate);
        bench.stream.host_callback(move || {
            held.wait();
            Ok(())
        })?;
        let point = bench.stream.launch(bench.instance)?;
        let last_use = LastUse { stream: point.stream, sequence: point.sequence };
        bench.context.allocator().record_use(x, last_use)?;
        bench.context.free(x)?;
        let again = bench.stream.allocate(BYTES)?;
        gate.wait();
        bench.stream.synchronize()?;
        bench.context.free(again)?;
    }
    Ok(())
}

#[test]
fn limits_past_an_allocation_are_refused() -> Result<(), Error> {
    let bench = Bench::open(MemoryMode::Vf)?;
    let [x, y] = [bench.stream.allocate(BYTES)?, bench.stream.allocate(BYTES)?];
    assert!(bench.refusal([x, y], BYTES + 1).contains("reach past its 256 bytes"));
    assert!(bench.refusal([x, y], u64::MAX).contains("reach past its 256 bytes"));
    bench.launch([x, y], BYTES)
}

#[test]
fn handles_of_another_life_or_card_and_made_up_ones_are_refused() -> Result<(), Error> {
    let bench = Bench::open(MemoryMode::Pf)?;
    let [x, y] = [bench.stream.allocate(BYTES)?, bench.stream.allocate(BYTES)?];
    let HandleTag { epoch, generation, slot } = x.tag();
    let Location::Pf(place) = x.location() else { panic!("a PF card") };
    let made_up = [
        HandleTag { epoch: epoch.wrapping_add(1), generation, slot },
        HandleTag { epoch, generation: generation.wrapping_add(1), slot },
        HandleTag { epoch, generation, slot: 12_345 },
        HandleTag { epoch, generation, slot: y.tag().slot },
    ];
    for tag in made_up {
        bench.refusal([DeviceHandle::pf(place, tag), y], BYTES);
    }
    let inside = PFDeviceHandle { physical_address: place.physical_address + 128 };
    let text = bench.refusal([DeviceHandle::pf(inside, x.tag()), y], BYTES);
    assert!(text.contains("never given out"), "{text}");

    bench.context.reset()?;
    let fresh = Bench::open(MemoryMode::Pf)?;
    let text = fresh.refusal([x, y], BYTES);
    assert!(text.contains("before a reset, or from another card"), "{text}");
    Ok(())
}

#[test]
fn programs_are_not_launched_from_other_memory_nor_filled() -> Result<(), Error> {
    let bench = Bench::open(MemoryMode::Vf)?;
    let plain = bench.stream.allocate(4096)?;
    bench.stream.launch(plain)?;
    let text = bench.stream.synchronize().expect_err("plain memory").to_string();
    assert!(text.contains("not in an allocation for programs"), "{text}");
    bench.stream.reset()?;

    bench.stream.fill(DeviceRange::start_of(bench.code, 128), 0)?;
    let text = bench.stream.synchronize().expect_err("a program").to_string();
    assert!(text.contains("holds programs"), "{text}");
    bench.stream.reset()?;

    bench.context.free(bench.code)?;
    let reused = bench.stream.allocate(4096)?;
    bench.stream.fill(DeviceRange::start_of(reused, 4096), 0)?;
    bench.stream.synchronize()
}
