//! Plans that turn tensors which lie otherwise than the card needs them.

use std::sync::Arc;

use spyre::artifact::{Binding, CompilerOutput, IntermediateDim};
use spyre::card::SoftwareCard;
use spyre::compiler::{CompileOptions, DimId, Kernel, OperandId, Stick};
use spyre::hal::MemoryMode;
use spyre::numerics::{DType, Profile};
use spyre::runtime::{
    CPUTensor, Device, DeviceSettings, ExecutionPlan, SpyreTensor, launch_kernel,
};

type Failure = Box<dyn std::error::Error>;

const CARD: CompileOptions = CompileOptions::for_profile(Profile::Card);

fn names(plan: &CompilerOutput) -> Vec<&str> {
    plan.steps.iter().map(|step| step.name.as_str()).collect()
}

/// Values that a plan leaves in the last of its tensors, for tensors of small whole numbers.
fn run(plan: CompilerOutput, sizes: &[Vec<usize>]) -> Result<Vec<f32>, Failure> {
    let settings = DeviceSettings { profile: Profile::Card, ..DeviceSettings::default() };
    let device = Device::open_with(Arc::new(SoftwareCard::new(MemoryMode::Vf)), settings)?;
    let stream = device.default_stream()?;
    let plan = ExecutionPlan::from_compiler_output(plan)?;
    plan.load(&stream)?;
    let mut tensors = Vec::new();
    for (seed, shape) in sizes.iter().enumerate() {
        let count: usize = shape.iter().product();
        let values: Vec<f32> =
            (0..count).map(|at| ((at * 7 + seed * 3) % 11) as f32 - 5.0).collect();
        tensors.push(SpyreTensor::from_host(&stream, &CPUTensor::from_values(shape, &values)?)?);
    }
    launch_kernel(&stream, &plan, &tensors)?;
    let last = tensors.last().ok_or("a tensor")?.to_host(&stream)?;
    stream.synchronize()?;
    Ok(last.values()?)
}

/// Compiles a kernel for tensors that lie as given, and compares it with one that turns nothing.
fn check(
    text: &str,
    given: &[(usize, &str)],
    extents: &[usize],
) -> Result<CompilerOutput, Failure> {
    let kernel: Kernel = text.parse()?;
    assert!(kernel.operands().iter().all(|operand| operand.dtype == DType::Float32));
    let stick = |name: &str| {
        let at = kernel.dims().iter().position(|dim| dim == name);
        at.map_or(Stick::Sparse, |at| Stick::Along(DimId(at as u8)))
    };
    let given: Vec<_> =
        given.iter().map(|(at, name)| (OperandId(*at as u32), stick(name))).collect();
    let plan = kernel.compile_laid_out(&CARD, &given)?;
    let size = |dim: &DimId| extents[usize::from(dim.0)];
    let sizes: Vec<Vec<usize>> =
        kernel.operands().iter().map(|operand| operand.dims.iter().map(size).collect()).collect();
    let turned = run(plan.clone(), &sizes)?;
    let plain = run(kernel.compile(&CARD)?, &sizes)?;
    assert_eq!(turned, plain, "{text}");
    assert_ne!(turned.iter().filter(|value| **value != 0.0).count(), 0);
    Ok(plan)
}

const MATMUL: &str = "kernel matmul(m, k, n) {
    in a: float32[m, k]
    in b: float32[n, k]
    out c: float32[m, n]
    c = sum<k>(a * b)
}";

#[test]
fn a_side_of_a_product_is_turned_before_it() -> Result<(), Failure> {
    let plan = check(MATMUL, &[], &[65, 40, 33])?;
    assert_eq!(names(&plan), ["restickify b", "matmul"]);
    let [partial, memory] = &plan.intermediates[..] else { panic!("{:?}", plan.intermediates) };
    let named = |name: &str| IntermediateDim::Named(name.to_owned());
    assert_eq!(partial.dims, [named("m"), named("n")]);
    assert_eq!(memory.dims, [named("k"), named("n")]);
    assert_eq!(plan.steps[1].bindings[1], Binding::Intermediate(1));
    Ok(())
}

#[test]
fn both_sides_and_the_result_are_turned() -> Result<(), Failure> {
    let text = MATMUL.replace("b: float32[n, k]", "b: float32[k, n]");
    let plan = check(&text, &[(2, "m")], &[33, 34, 35])?;
    assert_eq!(names(&plan), ["matmul", "restickify c"]);
    let plan = check(&text, &[(1, "k"), (2, "m")], &[33, 34, 35])?;
    assert_eq!(names(&plan), ["restickify b", "matmul", "restickify c"]);
    Ok(())
}

#[test]
fn a_column_is_spread_over_sticks() -> Result<(), Failure> {
    let text = "kernel bias(m, n) {
    in x: float32[m, n]
    in column: float32[m]
    out y: float32[m, n]
    y = x + column
}";
    let plan = check(text, &[], &[37, 41])?;
    assert_eq!(names(&plan), ["restickify column", "bias"]);
    assert_eq!(plan.intermediates[0].dims[1], IntermediateDim::Fixed(1));
    Ok(())
}

#[test]
fn what_is_needed_as_it_lies_is_not_replaced() -> Result<(), Failure> {
    let text = "kernel both(m, n) {
    in x: float32[m, n]
    in b: float32[n]
    in w: float32[n]
    out y: float32[m, n]
    y = x + b * sum<n>(x * w)
}";
    let plan = check(text, &[], &[9, 40])?;
    assert_eq!(names(&plan), ["both"]);
    Ok(())
}

#[test]
fn nothing_is_turned_where_any_layout_will_do() -> Result<(), Failure> {
    let kernel: Kernel = MATMUL.parse()?;
    let open = kernel.compile_laid_out(&CompileOptions::default(), &[])?;
    assert_eq!(open, kernel.compile(&CompileOptions::default())?);
    Ok(())
}
