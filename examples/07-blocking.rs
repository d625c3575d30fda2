//! The earlier, blocking face: Program and DMAEngine: `cargo run --example 07-blocking`.
#![allow(clippy::print_stdout, reason = "a program that talks to a person")]

use std::error::Error;

use spyre::artifact::samples::{self, Elements};
use spyre::numerics::DType;
use spyre::runtime::blocking::{DMAEngine, Program};
use spyre::runtime::{CPUTensor, ExecutionPlan};

fn main() -> Result<(), Box<dyn Error>> {
    let engine = DMAEngine::new(&spyre::device(0)?.default_stream()?);

    let host = CPUTensor::from_values(&[32, 64], &[1.5_f32; 32 * 64])?;
    let location = engine.allocate_tensor(&host)?;
    println!("room in segment {}, at {}", location.segment_id(), location.vf_offset());
    let a = engine.copy_to_device(&host, location)?;
    let b = engine.copy_to_device(&host, engine.allocate_tensor(&host)?)?;
    let c = engine.copy_to_device(&host, engine.allocate_tensor(&host)?)?;

    let output = samples::addition(Elements::exact(DType::Float32), Some([8, 64]))?;
    let program = Program::from_plan(&ExecutionPlan::from_compiler_output(output)?);
    engine.copy_program(&program, engine.allocate_program(&program)?)?;
    let tensors = [a, b, c];
    println!("launch:       {}", program.launch(&tensors).expect_err("32 rows are not 8"));
    program.launch_tiled(&tensors)?; // four tiles, and done when it returns

    let result = CPUTensor::zeroed(&[32, 64], DType::Float32)?;
    engine.copy_to_host(&tensors[2], &result)?;
    println!("launch_tiled: 1.5 + 1.5 = {}", result.values::<f32>()?[2047]);
    Ok(())
}
