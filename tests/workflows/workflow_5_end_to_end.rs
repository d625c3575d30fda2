//! The documents' example, from Rust: [4096, 1024] x [1024, 1024] with a program for [1024, 1024].

use half::f16;
use spyre::artifact::samples::{self, Elements};
use spyre::numerics::DType;
use spyre::runtime::{CPUTensor, Device, Error, ExecutionPlan, SpyreTensor, launch_kernel};

use crate::bed::{each_card, trace};

#[test]
fn a_matmul_four_times_its_tile() -> Result<(), Error> {
    each_card(matmul)
}

fn matmul(device: &Device) -> Result<(), Error> {
    let stream = device.default_stream()?;
    let digit = |at: usize, by: usize| f16::from_f32((at * by % 7) as f32 - 3.0);
    let a: Vec<f16> = (0..4096 * 1024).map(|at| digit(at, 31)).collect();
    let b: Vec<f16> = (0..1024 * 1024).map(|at| digit(at, 17)).collect();

    let spyre_a = SpyreTensor::from_host(&stream, &CPUTensor::from_values(&[4096, 1024], &a)?)?;
    let spyre_b = SpyreTensor::from_host(&stream, &CPUTensor::from_values(&[1024, 1024], &b)?)?;
    let tile = Some([1024, 1024, 1024]);
    let output = samples::matmul(Elements::exact(DType::Float16), tile)?;
    let plan = ExecutionPlan::from_compiler_output(output)?;
    plan.load(&stream)?;
    let result = SpyreTensor::empty(&stream, &[4096, 1024], DType::Float16)?;
    let last = launch_kernel(&stream, &plan, &[spyre_a, spyre_b, result.clone()])?.sequence;
    let result_cpu = result.to_host(&stream)?;
    stream.synchronize()?;

    let labels: Vec<String> =
        trace(&stream, last - 12).into_iter().map(|(_, label)| label).collect();
    assert_eq!(labels[..12], ["", "matmul.correction", "matmul"].repeat(4));
    let result: Vec<f16> = result_cpu.values()?;
    for row in (0..4096).step_by(97) {
        for column in (0..1024).step_by(61) {
            let exact: f32 =
                (0..1024).map(|k| a[row * 1024 + k].to_f32() * b[k * 1024 + column].to_f32()).sum();
            assert_eq!(result[row * 1024 + column], f16::from_f32(exact), "{row} {column}");
        }
    }
    Ok(())
}
