//! Launches by plan: scalars, diagonals, threads that share a stream, what is dropped early.

use std::sync::Arc;
use std::thread;

use spyre::artifact::samples::{self, Elements};
use spyre::artifact::{
    Access, BinaryOp, CompilerOutput, ExpectedSize, Lane, Program, ProgramBuilder, Role,
    TensorMetadata,
};
use spyre::card::SoftwareCard;
use spyre::hal::{Hardware, LateCard, MemoryMode};
use spyre::numerics::{DType, DataFormat::IeeeFp32};
use spyre::runtime::{
    CPUTensor, Device, DeviceSettings, Error, ExecutionPlan, Operation, SpyreStream, SpyreTensor,
    launch_kernel, launch_kernel_with,
};

const F32: Elements = Elements { dtype: DType::Float32, format: IeeeFp32 };

fn open(hardware: Arc<dyn Hardware>) -> Result<SpyreStream, Error> {
    Device::open(hardware)?.default_stream()
}

fn software() -> Arc<dyn Hardware> {
    Arc::new(SoftwareCard::new(MemoryMode::Vf))
}

fn load(stream: &SpyreStream, output: CompilerOutput) -> Result<ExecutionPlan, Error> {
    let plan = ExecutionPlan::from_compiler_output(output)?;
    plan.load(stream)?;
    Ok(plan)
}

fn put(stream: &SpyreStream, shape: &[usize], first: usize) -> Result<SpyreTensor, Error> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|at| ((first + at) % 11) as f32 - 5.0).collect();
    SpyreTensor::from_host(stream, &CPUTensor::from_values(shape, &values)?)
}

fn read(stream: &SpyreStream, tensor: &SpyreTensor) -> Result<Vec<f32>, Error> {
    let host = tensor.to_host(stream)?;
    stream.synchronize()?;
    host.values()
}

fn tensor(name: &str, dims: &[&str], role: Role) -> TensorMetadata {
    let dims: Vec<_> = dims.iter().map(|&name| (name, ExpectedSize::Any)).collect();
    TensorMetadata::new(name, DType::Float32, IeeeFp32, &dims, role)
}

/// y = x * s0 + s1.
fn scaled() -> Result<Program, spyre::artifact::Error> {
    let mut code = ProgramBuilder::new();
    let n = code.dim();
    let factor = code.scalar_word();
    let more = code.scalar_word();
    let x = code.operand(IeeeFp32, Access::Read, [n]);
    let y = code.operand(IeeeFp32, Access::Write, [n]);
    code.each_parallel(n, 100, |code| {
        let tile = code.load(x);
        let factor = code.scalar(Lane::F32, factor);
        let more = code.scalar(Lane::F32, more);
        let product = code.binary(BinaryOp::Mul, tile, factor);
        let sum = code.add(product, more);
        code.store(y, sum);
    });
    code.build()
}

#[test]
fn scalars_are_words_of_the_launch() -> Result<(), Error> {
    let stream = open(software())?;
    let tensors = vec![tensor("x", &["n"], Role::Input), tensor("y", &["n"], Role::Output)];
    let output = CompilerOutput::single("scale", scaled()?, &["n"], tensors, Vec::new())?;
    let plan = load(&stream, output)?;
    assert_eq!(plan.scalars(), 2);
    let x = put(&stream, &[300], 0)?;
    let y = put(&stream, &[300], 0)?;
    for (factor, more) in [(2.0, 0.5), (-1.0, 100.0)] {
        let scalars = [factor, more].map(f64::to_bits);
        launch_kernel_with(&stream, &plan, &[x.clone(), y.clone()], &scalars)?;
        let expected: Vec<f32> =
            read(&stream, &x)?.iter().map(|x| x * factor as f32 + more as f32).collect();
        assert_eq!(read(&stream, &y)?, expected);
    }
    Ok(())
}

#[test]
fn a_dim_that_a_tensor_has_twice_is_its_diagonal() -> Result<(), Error> {
    let stream = open(software())?;
    let mut code = ProgramBuilder::new();
    let n = code.dim();
    let x = code.operand(IeeeFp32, Access::Read, [n]);
    let y = code.operand(IeeeFp32, Access::Write, [n]);
    code.each_parallel(n, 10, |code| {
        let tile = code.load(x);
        code.store(y, tile);
    });
    let tensors = vec![tensor("x", &["n", "n"], Role::Input), tensor("y", &["n"], Role::Output)];
    let output = CompilerOutput::single("diagonal", code.build()?, &["n"], tensors, Vec::new())?;
    let plan = load(&stream, output)?;
    let x = put(&stream, &[70, 70], 3)?;
    let y = put(&stream, &[70], 0)?;
    launch_kernel(&stream, &plan, &[x.clone(), y.clone()])?;
    let numbers = read(&stream, &x)?;
    let diagonal: Vec<f32> = (0..70).map(|at| numbers[at * 71]).collect();
    assert_eq!(read(&stream, &y)?, diagonal);
    let tall = put(&stream, &[70, 71], 0)?;
    let error = launch_kernel(&stream, &plan, &[tall, y]).expect_err("70 is not 71");
    assert!(matches!(error, Error::UnequalDims { first: 70, second: 71, .. }), "{error}");
    Ok(())
}

#[test]
fn a_plan_and_its_tensors_may_be_dropped_once_they_are_queued() -> Result<(), Error> {
    for hardware in [software(), Arc::new(LateCard::new(SoftwareCard::new(MemoryMode::Vf), 3))] {
        let stream = open(hardware)?;
        let result = put(&stream, &[96, 64], 0)?;
        for round in 0..20 {
            let plan = load(&stream, samples::matmul(F32, Some([32, 32, 32]))?)?;
            let a = put(&stream, &[96, 64], round)?;
            let b = put(&stream, &[64, 64], 2 * round)?;
            launch_kernel(&stream, &plan, &[a, b, result.clone()])?;
            drop(plan);
            // What comes next may get the memory, but only behind the launch.
            drop(put(&stream, &[96, 64], 7)?);
        }
        let a = put(&stream, &[96, 64], 19)?;
        let b = put(&stream, &[64, 64], 38)?;
        let a = read(&stream, &a)?;
        let b = read(&stream, &b)?;
        let exact = |row: usize, column: usize| -> f32 {
            (0..64).map(|k| a[row * 64 + k] * b[k * 64 + column]).sum()
        };
        let numbers = read(&stream, &result)?;
        assert!((0..96 * 64).all(|at| numbers[at] == exact(at / 64, at % 64)));
    }
    Ok(())
}

#[test]
fn threads_that_share_a_stream_do_not_mix_up_partial_results() -> Result<(), Error> {
    for hardware in [software(), Arc::new(SoftwareCard::new(MemoryMode::Pf).with_engines(3))] {
        let stream = open(hardware)?;
        let matmul = load(&stream, samples::matmul(F32, Some([16, 16, 16]))?)?;
        let sums = load(&stream, samples::two_additions(F32, None)?)?;
        thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|at| {
                    let stream = &stream;
                    let matmul = &matmul;
                    let sums = &sums;
                    scope.spawn(move || rounds(stream, matmul, sums, at))
                })
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
    }
    Ok(())
}

/// Products whose sums over k take four tiles, and two sums with memory between them.
fn rounds(
    stream: &SpyreStream,
    matmul: &ExecutionPlan,
    sums: &ExecutionPlan,
    thread: usize,
) -> Result<(), Error> {
    let rows = 20 + thread;
    let a = put(stream, &[rows, 64], thread)?;
    let b = put(stream, &[64, 30], 3 + thread)?;
    let c = put(stream, &[rows, 30], 0)?;
    let d = put(stream, &[rows, 30], 0)?;
    let a_values = read(stream, &a)?;
    let b_values = read(stream, &b)?;
    let product: Vec<f32> = (0..rows * 30)
        .map(|at| (0..64).map(|k| a_values[at / 30 * 64 + k] * b_values[k * 30 + at % 30]).sum())
        .collect();
    for _ in 0..50 {
        launch_kernel(stream, matmul, &[a.clone(), b.clone(), c.clone()])?;
        launch_kernel(stream, sums, &[c.clone(), c.clone(), c.clone(), d.clone()])?;
        let tripled: Vec<f32> = product.iter().map(|value| 3.0 * value).collect();
        assert_eq!(read(stream, &d)?, tripled, "thread {thread}");
    }
    Ok(())
}

#[test]
fn a_stream_goes_on_after_a_fault_was_reported() -> Result<(), Error> {
    let stream = open(software())?;
    let plan = load(&stream, samples::addition(F32, None)?)?;
    let tensors = [put(&stream, &[8, 8], 0)?, put(&stream, &[8, 8], 1)?, put(&stream, &[8, 8], 2)?];
    let compute = plan.operations()[0].compute().expect("it adds").clone();
    stream.launch(&Operation::new(compute), &tensors)?; // no correction has filled its table
    let error = stream.synchronize().expect_err("it faults");
    assert!(error.to_string().contains("\"add\""), "{error}");

    stream.reset()?;
    launch_kernel(&stream, &plan, &tensors)?;
    let [a, b, c] = tensors.each_ref().map(|tensor| read(&stream, tensor));
    let expected: Vec<f32> = a?.iter().zip(b?).map(|(a, b)| a + b).collect();
    assert_eq!(c?, expected);
    Ok(())
}

#[test]
fn where_launches_wait_a_fault_is_reported_by_its_own_call() -> Result<(), Error> {
    let settings = DeviceSettings { launches_wait: true, ..DeviceSettings::default() };
    let stream = Device::open_with(software(), settings)?.default_stream()?;
    let plan = load(&stream, samples::addition(F32, None)?)?;
    let tensors = [put(&stream, &[8, 8], 0)?, put(&stream, &[8, 8], 1)?, put(&stream, &[8, 8], 2)?];
    launch_kernel(&stream, &plan, &tensors)?;
    assert!(stream.query()?);

    let compute = load(&stream, samples::addition(F32, None)?)?;
    let compute = compute.operations()[0].compute().expect("it adds").clone();
    let error = stream.launch(&Operation::new(compute), &tensors).expect_err("an empty table");
    assert!(error.to_string().contains("\"add\""), "{error}");
    Ok(())
}
