//! A program is assembled, loaded, corrected and launched: `cargo run --example 04-launch`.
#![allow(clippy::print_stdout, reason = "a program that talks to a person")]

use std::error::Error;

use spyre::artifact::{
    Access, CompilerOutput, ExpectedSize, Operand, ProgramBuilder, Role, TensorMetadata, UnaryOp,
};
use spyre::numerics::{DType, DataFormat::IeeeFp32};
use spyre::runtime::{CPUTensor, ExecutionPlan, SpyreTensor, launch_kernel};

fn main() -> Result<(), Box<dyn Error>> {
    // y = sqrt(x), for any length: what a compiler would write.
    let mut code = ProgramBuilder::new();
    let n = code.dim();
    let x = code.operand(IeeeFp32, Access::Read, [n]);
    let y = code.operand(IeeeFp32, Access::Write, [n]);
    code.each_parallel(n, 4096, |code| {
        let tile = code.load(x);
        let root = code.unary(UnaryOp::Sqrt, tile);
        code.store(y, root);
    });
    let program = code.build()?;
    print!("The program:\n{program}");
    let tensor = |name: &str, role| {
        TensorMetadata::new(name, DType::Float32, IeeeFp32, &[("n", ExpectedSize::Any)], role)
    };
    let tensors = vec![tensor("x", Role::Input), tensor("y", Role::Output)];
    let output = CompilerOutput::single("sqrt", program, &["n"], tensors, Vec::new())?;

    let device = spyre::device(0)?;
    let stream = device.default_stream()?;
    let plan = ExecutionPlan::from_compiler_output(output)?;
    plan.load(&stream)?;
    println!("\nIts binaries, each by a copy of its own (correction, entry, code):");
    for handle in plan.operations()[0].device_handles() {
        println!("  {handle}");
    }

    let host = CPUTensor::from_values(&[5], &[1.0_f32, 4.0, 9.0, 16.0, 25.0])?;
    let x = SpyreTensor::from_host(&stream, &host)?;
    let y = SpyreTensor::empty(&stream, &[5], DType::Float32)?;
    launch_kernel(&stream, &plan, &[x, y.clone()])?; // three blocks, and back at once
    let roots = y.to_host(&stream)?;
    stream.synchronize()?;
    println!("\nThe roots: {:?}\n", roots.values::<f32>()?);

    let compute = plan.operations()[0].compute().ok_or("it computes")?;
    let words = compute.read_entry(&stream)?.operand(Operand(1)).ok_or("there are two")??;
    println!("What correction wrote for y, read back from device memory:");
    println!("  {} bytes at {:x?}", words.limit_bytes, words.handle.0);
    println!("  y itself is at {}\n", y.device_handle());

    println!("The last blocks of the stream:");
    for record in device.context().scheduler().flight_record().iter().rev().take(6).rev() {
        println!("  {record}");
    }
    Ok(())
}
