use parking_lot::Mutex;

use super::{Instruction, LocationInSegment};
use crate::cpu_tensor::element_bytes;
use crate::launch::{Arguments, Mode, launch};
use crate::{Error, ExecutionPlan, Operation, SpyreStream, SpyreTensor};

/// An ordered collection of instructions that is launched as a whole, and waited for.
///
/// A [`DMAEngine`](super::DMAEngine) copies it to a device, once it holds all of its instructions.
#[derive(Debug, Default)]
pub struct Program {
    instructions: Vec<Instruction>,
    stream: Mutex<Option<SpyreStream>>,
}

impl Program {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// The instructions of a plan.
    pub fn from_plan(plan: &ExecutionPlan) -> Self {
        let computes = plan.operations().iter().filter(|operation| operation.compute().is_some());
        Self { instructions: computes.map(Instruction::of).collect(), stream: Mutex::default() }
    }

    /// Its instructions, in order.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Adds an instruction at the end. A program that was on a device has to be copied again.
    pub fn add_instruction(&mut self, instruction: Instruction) {
        *self.stream.get_mut() = None;
        self.instructions.push(instruction);
    }

    /// Takes an instruction out.
    pub fn remove_instruction(&mut self, instruction: &Instruction) -> Result<(), Error> {
        let instructions = self.instructions.len();
        let at = self.instructions.iter().position(|known| known.is(instruction));
        self.instructions.remove(at.ok_or(Error::NoSuchInstruction { instructions })?);
        Ok(())
    }

    /// Bytes of each binary that has to be copied to the device.
    pub fn binary_bytes(&self) -> Vec<u64> {
        self.plan().code_bytes()
    }

    /// Launches all instructions and waits for them. Tensors must be what was compiled for, in shape
    /// and in stride.
    pub fn launch(&self, tensors: &[SpyreTensor]) -> Result<(), Error> {
        self.check_strides(tensors)?;
        self.run(tensors, Mode::Strict)
    }

    /// Launches all instructions over tensors that are larger than what was compiled for, tile by
    /// tile, and waits for them.
    pub fn launch_tiled(&self, tensors: &[SpyreTensor]) -> Result<(), Error> {
        self.run(tensors, Mode::Tiled)
    }

    /// Launches it in whichever way the tensors ask for.
    pub fn launch_kernel(&self, tensors: &[SpyreTensor]) -> Result<(), Error> {
        match self.launch(tensors) {
            Err(Error::Shape { .. } | Error::Stride { .. }) => self.launch_tiled(tensors),
            other => other,
        }
    }

    pub(super) fn load_at(
        &self,
        stream: &SpyreStream,
        locations: Vec<LocationInSegment>,
    ) -> Result<(), Error> {
        self.plan().load_at(stream, locations)?;
        *self.stream.lock() = Some(stream.clone());
        Ok(())
    }

    fn run(&self, tensors: &[SpyreTensor], mode: Mode) -> Result<(), Error> {
        let stream = self.stream.lock().clone();
        let name = self.instructions.first().map_or("", |first| first.operation().name());
        let stream = stream.ok_or_else(|| Error::NotLoaded { operation: name.to_owned() })?;
        launch(&stream, &self.operations(), Arguments { tensors, scalars: &[] }, mode)?;
        stream.synchronize()
    }

    fn operations(&self) -> Vec<Operation> {
        self.instructions.iter().map(|instruction| instruction.operation().clone()).collect()
    }

    fn plan(&self) -> ExecutionPlan {
        let mut plan = ExecutionPlan::new();
        self.operations().into_iter().for_each(|operation| plan.add_operation(operation));
        plan
    }

    /// Refuses tensors that are not row-major.
    fn check_strides(&self, tensors: &[SpyreTensor]) -> Result<(), Error> {
        let plan = self.plan();
        for (tensor, expected) in tensors.iter().zip(plan.tensor_input_metadata()) {
            let bytes = element_bytes(tensor.data_type());
            let mut row_major = 1;
            for dim in (0..tensor.shape().len()).rev() {
                let size = tensor.shape()[dim];
                let stride = tensor.view().stride()[dim];
                if size > 1 && stride != row_major {
                    let given = (stride * bytes) as u64;
                    let expected_bytes = (row_major * bytes) as u64;
                    let tensor = expected.name.clone();
                    return Err(Error::Stride { tensor, dim, given, expected: expected_bytes });
                }
                row_major *= size;
            }
        }
        Ok(())
    }
}
