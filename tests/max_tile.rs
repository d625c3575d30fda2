//! Kernels that are compiled for a tile: larger tensors run tile by tile, and give the same bytes.

use std::num::NonZeroU32;
use std::sync::Arc;

use spyre::artifact::{CompilerOutput, ExpectedSize};
use spyre::card::SoftwareCard;
use spyre::compiler::{CompileOptions, DimId, Kernel};
use spyre::hal::{BlockKind, MemoryMode};
use spyre::numerics::{DType, Profile};
use spyre::runtime::{CPUTensor, Device, ExecutionPlan, SpyreTensor, launch_kernel};

type Failure = Box<dyn std::error::Error>;

fn compiled(kernel: &Kernel, tile: u32) -> Result<CompilerOutput, Failure> {
    let options = CompileOptions { max_tile: NonZeroU32::new(tile), ..CompileOptions::default() };
    Ok(kernel.compile(&options)?)
}

/// The dims of a plan that have a tile, by name.
fn cut(plan: &CompilerOutput) -> Vec<&str> {
    let dims = plan.tensor_input_metadata.iter().flat_map(|tensor| &tensor.dims);
    let cut = dims.filter(|dim| dim.size != ExpectedSize::Any);
    let mut names: Vec<&str> = cut.map(|dim| dim.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// All tensors after a launch, and how many programs ran.
fn run(plan: CompilerOutput, sizes: &[Vec<usize>]) -> Result<(Vec<Vec<f32>>, usize), Failure> {
    let device = Device::open(Arc::new(SoftwareCard::new(MemoryMode::Vf)))?;
    let stream = device.default_stream()?;
    let plan = ExecutionPlan::from_compiler_output(plan)?;
    plan.load(&stream)?;
    let mut tensors = Vec::new();
    for (seed, shape) in sizes.iter().enumerate() {
        let count: usize = shape.iter().product();
        let values: Vec<f32> =
            (0..count).map(|at| ((at * 37 + seed * 11) % 101) as f32 / 16.0 - 3.0).collect();
        tensors.push(SpyreTensor::from_host(&stream, &CPUTensor::from_values(shape, &values)?)?);
    }
    stream.synchronize()?;
    let before = device.context().scheduler().flight_record().len();
    device.context().scheduler().set_tracing(true);
    launch_kernel(&stream, &plan, &tensors)?;
    stream.synchronize()?;
    let records = device.context().scheduler().flight_record();
    let launches = records[before.min(records.len())..].iter();
    let launches = launches.filter(|record| record.kind == BlockKind::Launch).count();
    let mut results = Vec::new();
    for tensor in &tensors {
        let host = tensor.to_host(&stream)?;
        stream.synchronize()?;
        results.push(host.values::<f32>()?);
    }
    Ok((results, launches))
}

/// Compares a launch in tiles with one that is not, and says how many launches the first took.
fn check(text: &str, tile: u32, extents: &[(&str, usize)]) -> Result<usize, Failure> {
    let kernel: Kernel = text.parse()?;
    assert!(kernel.operands().iter().all(|operand| operand.dtype == DType::Float32));
    let extent = |dim: &DimId| {
        let found = extents.iter().find(|(name, _)| *name == kernel.dim_name(*dim));
        found.map_or(1, |(_, extent)| *extent)
    };
    let sizes: Vec<Vec<usize>> =
        kernel.operands().iter().map(|operand| operand.dims.iter().map(extent).collect()).collect();
    let (whole, _) = run(kernel.compile(&CompileOptions::default())?, &sizes)?;
    let (tiled, launches) = run(compiled(&kernel, tile)?, &sizes)?;
    assert_eq!(tiled, whole, "{text} in tiles of {tile}");
    Ok(launches)
}

const SOFTMAX: &str = "kernel softmax(rows, columns) {
    in x: float32[rows, columns]
    out y: float32[rows, columns]
    e = exp(x - max<columns>(x))
    y = e / sum<columns>(e)
}";

const MLP: &str = "kernel layer(m, k, n) {
    in x: float32[m, k]
    in w: float32[k, n]
    in bias: float32[n]
    out y: float32[m, n]
    y = relu(sum<k>(x * w) + bias)
}";

#[test]
fn dims_that_nothing_goes_along_are_cut() -> Result<(), Failure> {
    let softmax = compiled(&SOFTMAX.parse()?, 64)?;
    assert_eq!((cut(&softmax), softmax.options.max_tile), (vec!["rows"], NonZeroU32::new(64)));
    assert_eq!(cut(&compiled(&MLP.parse()?, 64)?), ["k", "m", "n"]);
    let body = |body: &str| {
        format!("kernel one(i, j) {{\n in x: float32[i, j]\n out y: float32[i, j]\n {body}\n}}")
    };
    for (text, expected) in [
        ("y = x * 2", vec!["i", "j"]),
        ("y = x * f32(j)", vec!["i"]),
        ("y = x / f32(size(i))", vec!["j"]),
        ("y = scan_sum<i>(x)", vec!["j"]),
        ("y = x[i, j - 1] else 0", vec![]),
        ("y[i, j] = x", vec!["i", "j"]),
    ] {
        assert_eq!(cut(&compiled(&body(text).parse()?, 8)?), expected, "{text}");
    }
    let sums = "kernel sums(i, j) {\n in x: float32[i, j]\n out y: float32[i]\n y = sum<j>(x)\n}";
    assert_eq!(cut(&compiled(&sums.parse()?, 8)?), ["i", "j"]);
    Ok(())
}

#[test]
fn dims_that_are_reduced_over_are_cut_if_one_pass_is_enough() -> Result<(), Failure> {
    let body = |body: &str| {
        format!("kernel one(i, j) {{\n in x: float32[i, j]\n out y: float32[i]\n {body}\n}}")
    };
    for (text, expected) in [
        ("y = sum<j>(x) + max<j>(x)", vec!["i", "j"]),
        ("y = sqrt(sum<j>(x * x))", vec!["i", "j"]),
        ("y = sum<j>(x - max<j>(x))", vec!["i"]), // a second pass
        ("y = sum<j>(x * f32(j))", vec!["i"]),    // where it is
        ("y = sum<j>(x) / f32(size(j))", vec!["i"]), // how long it is
        ("y = sum<j>(scan_sum<j>(x))", vec!["i"]),
    ] {
        assert_eq!(cut(&compiled(&body(text).parse()?, 8)?), expected, "{text}");
    }
    let two = "kernel two(i, j, k) {\n in x: float32[i, j]\n in w: float32[j, k]\n out y: float32[i]\n \
               y = sum<k>(relu(sum<j>(x * w)))\n}";
    assert_eq!(cut(&compiled(&two.parse()?, 8)?), ["i", "j"], "k's sum needs j's whole");
    Ok(())
}

#[test]
fn a_cut_reduction_goes_on_from_tile_to_tile_and_is_rounded_once() -> Result<(), Failure> {
    let square = [("m", 64), ("k", 256), ("n", 64)];
    assert_eq!(check(MLP, 64, &square)?, 2 * 4, "four tiles along k");
    assert_eq!(check(MLP, 64, &[("m", 65), ("k", 250), ("n", 3)])?, 2 * 2 * 4);
    let extremes = "kernel extremes(i, j, k) {\n in x: float32[i, j, k]\n out y: float32[i]\n \
                    inout z: float32[i]\n y = max<j, k>(x) - min<j, k>(x)\n z += max<k, j>(x)\n}";
    assert_eq!(check(extremes, 16, &[("i", 20), ("j", 33), ("k", 40)])?, 2 * 2 * 3 * 3);
    let all =
        "kernel largest(i, j) {\n in x: float32[i, j]\n out y: float32[]\n y = max<i, j>(x)\n}";
    assert_eq!(check(all, 32, &[("i", 70), ("j", 65)])?, 2 * 3 * 3);
    Ok(())
}

#[test]
fn halves_are_summed_in_32_bits_over_all_tiles() -> Result<(), Failure> {
    // 2048 + 1 is 2048 in float16: partial sums that were rounded would stay there.
    let kernel: Kernel =
        "kernel sums(i, j) {\n in x: float16[i, j]\n out y: float16[i]\n y = sum<j>(x)\n}"
            .parse()?;
    let device = Device::open(Arc::new(SoftwareCard::new(MemoryMode::Vf)))?;
    let stream = device.default_stream()?;
    let plan = ExecutionPlan::from_compiler_output(compiled(&kernel, 64)?)?;
    plan.load(&stream)?;
    let one = 0x3c00_u16.to_le_bytes().repeat(3 * 4096);
    let x = CPUTensor::from_bytes(&[3, 4096], DType::Float16, one)?;
    let x = SpyreTensor::from_host(&stream, &x)?;
    let y = SpyreTensor::empty(&stream, &[3], DType::Float16)?;
    launch_kernel(&stream, &plan, &[x, y.clone()])?;
    let sums = y.to_host(&stream)?;
    stream.synchronize()?;
    let bytes = sums.buffer().read()?.to_vec();
    assert_eq!(bytes, 0x6c00_u16.to_le_bytes().repeat(3), "4096 in each row");
    Ok(())
}

#[test]
fn tensors_larger_than_the_tile_run_tile_by_tile() -> Result<(), Failure> {
    // Two launches for each tile: a correction, and the program itself.
    assert_eq!(check(SOFTMAX, 16, &[("rows", 64), ("columns", 100)])?, 2 * 4);
    assert_eq!(check(MLP, 32, &[("m", 64), ("k", 96), ("n", 96)])?, 2 * 2 * 3 * 3);
    Ok(())
}

#[test]
fn what_is_left_over_and_what_is_smaller_than_a_tile_is_masked() -> Result<(), Failure> {
    assert_eq!(check(SOFTMAX, 16, &[("rows", 61), ("columns", 65)])?, 2 * 4);
    assert_eq!(check(SOFTMAX, 64, &[("rows", 5), ("columns", 129)])?, 2);
    assert_eq!(check(MLP, 64, &[("m", 65), ("k", 63), ("n", 129)])?, 2 * 2 * 3);
    assert_eq!(check(MLP, 64, &[("m", 65), ("k", 65), ("n", 129)])?, 2 * 2 * 3 * 2);
    Ok(())
}

#[test]
fn the_card_takes_tiles_too() -> Result<(), Failure> {
    let kernel: Kernel = MLP.replace("float32", "float16").parse()?;
    let options = CompileOptions { profile: Profile::Card, max_tile: NonZeroU32::new(1024) };
    let plan = kernel.compile(&options)?;
    assert_eq!(cut(&plan), ["k", "m", "n"]);
    plan.check()?;
    Ok(())
}
