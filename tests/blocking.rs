//! The earlier, blocking face: Program, Instruction, DMAEngine.

use std::sync::Arc;

use spyre::artifact::samples::{self, Elements};
use spyre::card::SoftwareCard;
use spyre::hal::MemoryMode;
use spyre::numerics::DType;
use spyre::runtime::blocking::{DMAEngine, Instruction, LocationInSegment, Program};
use spyre::runtime::{CPUTensor, Device, Error, ExecutionPlan, SpyreStream, SpyreTensor};

struct Bed {
    stream: SpyreStream,
    engine: DMAEngine,
}

impl Bed {
    fn new(mode: MemoryMode) -> Result<Self, Error> {
        let device = Device::open(Arc::new(SoftwareCard::new(mode)))?;
        let stream = device.default_stream()?;
        Ok(Self { engine: DMAEngine::new(&stream), stream })
    }

    fn put(&self, shape: [usize; 2], first: f32) -> Result<SpyreTensor, Error> {
        let values: Vec<f32> = (0..shape[0] * shape[1]).map(|at| first + (at % 5) as f32).collect();
        let host = CPUTensor::from_values(&shape, &values)?;
        self.engine.copy_to_device(&host, self.engine.allocate_tensor(&host)?)
    }

    fn read(&self, tensor: &SpyreTensor) -> Result<Vec<f32>, Error> {
        let host = CPUTensor::zeroed(tensor.shape(), DType::Float32)?;
        self.engine.copy_to_host(tensor, &host)?;
        host.values()
    }

    fn load(&self, program: &Program) -> Result<(), Error> {
        self.engine.copy_program(program, self.engine.allocate_program(program)?)
    }
}

fn addition() -> Result<ExecutionPlan, Error> {
    let output = samples::addition(Elements::exact(DType::Float32), Some([8, 40]))?;
    ExecutionPlan::from_compiler_output(output)
}

#[test]
fn a_program_is_copied_and_launched() -> Result<(), Error> {
    for mode in [MemoryMode::Vf, MemoryMode::Pf] {
        let bed = Bed::new(mode)?;
        let program = Program::from_plan(&addition()?);
        assert_eq!((program.instructions().len(), program.binary_bytes().len()), (1, 1));
        let tensors = [bed.put([8, 40], 1.0)?, bed.put([8, 40], 10.0)?, bed.put([8, 40], 0.0)?];
        assert!(matches!(program.launch(&tensors), Err(Error::NotLoaded { .. })));

        bed.load(&program)?;
        program.launch(&tensors)?; // and it is done when the call returns
        let expected: Vec<f32> = (0..320).map(|at| 11.0 + 2.0 * (at % 5) as f32).collect();
        assert_eq!(bed.read(&tensors[2])?, expected);
        match mode {
            MemoryMode::Vf => assert_ne!(tensors[1].vf_offset(), tensors[2].vf_offset()),
            MemoryMode::Pf => assert_eq!((tensors[1].segment_id(), tensors[1].vf_offset()), (0, 0)),
        }
    }
    Ok(())
}

#[test]
fn launch_takes_the_tile_alone_and_launch_tiled_more() -> Result<(), Error> {
    let bed = Bed::new(MemoryMode::Vf)?;
    let program = Program::from_plan(&addition()?);
    bed.load(&program)?;
    let tensors = [bed.put([32, 80], 1.0)?, bed.put([32, 80], 10.0)?, bed.put([32, 80], 0.0)?];

    assert!(matches!(program.launch(&tensors), Err(Error::Shape { given: 32, expected: 8, .. })));
    program.launch_tiled(&tensors)?;
    let expected: Vec<f32> = (0..32 * 80).map(|at| 11.0 + 2.0 * (at % 5) as f32).collect();
    assert_eq!(bed.read(&tensors[2])?, expected);

    program.launch_kernel(&tensors)?;
    let turned = bed.put([40, 8], 1.0)?.transpose(0, 1)?;
    let whole = [turned, bed.put([8, 40], 1.0)?, bed.put([8, 40], 1.0)?];
    let error = program.launch(&whole).expect_err("columns are not rows");
    assert_eq!(
        error.to_string(),
        "tensor \"a\": dimension 1 has a stride of 32 bytes, not the 4 that the program was \
         compiled for: make it contiguous"
    );
    program.launch_kernel(&whole)
}

#[test]
fn instructions_are_added_and_removed() -> Result<(), Error> {
    let bed = Bed::new(MemoryMode::Vf)?;
    let plan = addition()?;
    let compute = plan.operations()[0].compute().expect("it adds").clone();
    let correction = compute.correction().expect("it is corrected").to_vec();
    let once = Instruction::with_preprocessing(compute.clone(), correction);
    let again = Instruction::new(compute);
    let mut program = Program::new();
    program.add_instruction(once.clone());
    program.add_instruction(again.clone());
    bed.load(&program)?;
    let tensors = [bed.put([8, 40], 1.0)?, bed.put([8, 40], 2.0)?, bed.put([8, 40], 0.0)?];
    program.launch(&tensors)?;

    program.remove_instruction(&again)?;
    assert_eq!(program.instructions().len(), 1);
    let error = program.remove_instruction(&again).expect_err("it is gone");
    assert_eq!(error, Error::NoSuchInstruction { instructions: 1 });
    program.launch(&tensors)
}

#[test]
fn locations_must_be_enough_and_are_freed_when_they_are_not_used() -> Result<(), Error> {
    let bed = Bed::new(MemoryMode::Vf)?;
    let allocated = || bed.stream.device().allocator().statistics().allocated_bytes;
    let before = allocated();
    let host = CPUTensor::zeroed(&[64, 64], DType::Float32)?;
    let small = LocationInSegment::allocate(&bed.stream, 128)?;
    let error = bed.engine.copy_to_device(&host, small).expect_err("128 bytes");
    assert_eq!(error, Error::LocationBytes { needed: 64 * 64 * 4, given: 128 });

    let program = Program::from_plan(&addition()?);
    let error = bed.engine.copy_program(&program, Vec::new()).expect_err("nowhere");
    assert_eq!(error, Error::LocationCount { expected: 1, given: 0 });
    drop(bed.engine.allocate_program(&program)?);
    assert_eq!(allocated(), before);
    Ok(())
}
