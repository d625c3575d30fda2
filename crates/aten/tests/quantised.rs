//! Products of eight-bit numbers are one kernel each, of operands as they lie.

mod support;

use spyre_artifact::{Constant, Instruction, Program};
use spyre_aten::{Argument, Number, TensorRef};
use spyre_compiler::{CompileOptions, Kernel};
use spyre_numerics::DType::{
    self, BFloat16, Float8E4M3Fn, Float8E5M2, Float16, Float32, Int8, Int32, UInt8,
};

use support::{recipe, tensor, text};

const NONE: Argument<'_> = Argument::None;

fn scale() -> Argument<'static> {
    tensor(Float32, &[], &[])
}

/// Two eight-bit matrices of 3 x 70 and 70 x 5, the second of which lies along what is summed over.
fn sides(dtype: DType) -> [Argument<'static>; 2] {
    [tensor(dtype, &[3, 70], &[70, 1]), tensor(dtype, &[70, 5], &[1, 70])]
}

fn scaled(rest: &[Argument<'static>]) -> Vec<Argument<'static>> {
    [&sides(Float8E4M3Fn)[..], rest].concat()
}

fn program(text: &str) -> Program {
    let kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    let plan = kernel.compile(&CompileOptions::default()).expect("it compiles");
    plan.program(plan.steps[0].compute).expect("a compute program").clone()
}

/// Returns true if a kernel multiplies its tensors as they lie, and keeps nothing in memory meanwhile.
fn is_direct(text: &str) -> bool {
    let program = program(text);
    let operands = text.lines().filter(|line| line.contains('[')).count();
    let mut instructions = program.instructions().iter();
    program.operands().len() == operands
        && instructions.any(|one| matches!(one, Instruction::Dot { .. }))
}

#[test]
fn a_scaled_product_has_its_scales_and_its_bias_in_one_kernel() {
    let bias = tensor(BFloat16, &[5], &[1]);
    let arguments = scaled(&[scale(), scale(), bias, NONE, 15.into(), false.into()]);
    let text = text("_scaled_mm", &arguments, &[]);
    assert_eq!(
        text,
        "\
kernel aten_eight_bits(m, n, k) {
    in a: float8_e4m3fn[m, k]
    in b: float8_e4m3fn[k, n]
    in scale_a: float32[m]
    in scale_b: float32[n]
    in bias: bfloat16[n]
    out y: bfloat16[m, n]
    y = sum<k>(a * b) * scale_a * scale_b + bias
}
"
    );
    assert!(is_direct(&text), "{}", program(&text));
}

#[test]
fn one_kernel_serves_scales_of_tensors_and_of_rows() {
    let rows = [tensor(Float32, &[3, 1], &[1, 1]), tensor(Float32, &[1, 5], &[5, 1])];
    let launches = [[scale(); 2], rows].map(|[a, b]| {
        let arguments = scaled(&[a, b, NONE, NONE, 6.into(), false.into()]);
        let mut launches = recipe("_scaled_mm", &arguments, &[]).expect("it is known").launches;
        launches.pop().expect("one launch")
    });
    assert_eq!(launches[0].kernel, launches[1].kernel);
    let strides = |at: usize| launches[at].operands[2..4].iter().map(|view| view.stride[0]);
    assert_eq!(strides(0).collect::<Vec<_>>(), [0, 0], "one scale is repeated");
    assert_eq!(strides(1).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_scale_of_the_host_is_a_number_of_the_launch() {
    let number = |dtype| {
        Argument::Number(Number { value: Constant::Float(0.5), imaginary: 0.0, dtype: Some(dtype) })
    };
    let arguments = scaled(&[number(Float32), scale(), NONE, NONE, 6.into(), false.into()]);
    let recipe = recipe("_scaled_mm", &arguments, &[]).expect("it is known");
    assert_eq!(recipe.launches[0].scalars.to_vec(), [Constant::Float(0.5).word()]);
    assert!(text("_scaled_mm", &arguments, &[]).contains("scalar scale_a: f32"));
    let half = scaled(&[number(Float16), scale(), NONE, NONE, 6.into(), false.into()]);
    assert!(support::recipe("_scaled_mm", &half, &[]).is_err(), "scales are float32");
}

#[test]
fn eight_bit_results_are_divided_by_their_scale() {
    let to = |dtype: i64| {
        let arguments = scaled(&[scale(), scale(), NONE, scale(), dtype.into(), false.into()]);
        text("_scaled_mm", &arguments, &[])
    };
    assert!(to(24).contains("* scale_b) * (1 / scale_result)"), "{}", to(24));
    assert!(!to(6).contains("scale_result"), "wider results have none");
    let own = scaled(&[scale(), scale(), NONE, NONE, NONE, false.into()]);
    assert!(text("_scaled_mm", &own, &[]).contains("out y: float8_e4m3fn"));
}

#[test]
fn scales_that_do_not_go_together_are_declined() {
    let rows = tensor(Float32, &[3, 1], &[1, 1]);
    let flat = tensor(Float32, &[3], &[1]);
    let wide = tensor(Float32, &[1, 6], &[6, 1]);
    for [a, b] in [[rows, scale()], [flat, scale()], [rows, wide]] {
        let arguments = scaled(&[a, b, NONE, NONE, 6.into(), false.into()]);
        assert!(recipe("_scaled_mm", &arguments, &[]).is_err(), "{a:?}, {b:?}");
    }
    let arguments = scaled(&[scale(), scale(), wide, NONE, 6.into(), false.into()]);
    assert!(recipe("_scaled_mm", &arguments, &[]).is_err(), "a bias of six for five columns");
    let arguments = scaled(&[scale(), scale(), NONE, NONE, 7.into(), false.into()]);
    assert!(recipe("_scaled_mm", &arguments, &[]).is_err(), "float64 is no result of these");
}

#[test]
fn a_result_is_of_the_dtype_that_was_asked_for() {
    let y = tensor(Float16, &[3, 5], &[5, 1]);
    let to = |dtype: Argument<'static>| {
        let rest = [scale(), scale(), NONE, NONE, dtype, false.into(), y];
        recipe("_scaled_mm.out", &scaled(&rest), &[8])
    };
    assert!(to(NONE).is_ok() && to(5.into()).is_ok());
    assert!(to(6.into()).is_err(), "the result is float16");
}

#[test]
fn recipes_say_what_scales_are_of() {
    let Argument::Tensor(one) = tensor(Float32, &[1], &[1]) else { return };
    let whole = [Some(one)];
    let none = Argument::Ints(&[]);
    let by = |recipe: &'static [i64], swizzle: &'static [i64]| {
        let scales = Argument::Tensors(&whole);
        let recipe = Argument::Ints(recipe);
        let swizzle = Argument::Ints(swizzle);
        let [a, b] = sides(Float8E4M3Fn);
        let rest = [scales, recipe, swizzle, scales, recipe, swizzle, NONE, NONE, none];
        let arguments = [&[a, b][..], &rest, &[false.into()]].concat();
        support::recipe("_scaled_mm_v2", &arguments, &[])
    };
    let recipe = by(&[0], &[0]).expect("scales of tensors");
    assert_eq!(recipe.results[0].dtype, BFloat16, "if the call asks for no other");
    assert_eq!(recipe.launches[0].operands[2].place, TensorRef::Item(2, 0));
    assert!(by(&[1], &[0]).is_err(), "one scale for three rows");
    assert!(by(&[2], &[0]).is_err(), "scales of blocks");
    assert!(by(&[0], &[1]).is_err(), "scales in another order");
}

#[test]
fn a_weight_is_multiplied_as_it_lies() {
    let weight = tensor(Int8, &[5, 70], &[70, 1]);
    for dtype in [Float32, BFloat16, Float16] {
        let x = tensor(dtype, &[3, 70], &[70, 1]);
        let scales = tensor(dtype, &[5], &[1]);
        let text = text("_weight_int8pack_mm", &[x, weight, scales], &[]);
        assert!(text.contains("y = sum<k>(a * f32(b)) * scale_b\n"), "{text}");
        assert!(is_direct(&text), "{}", program(&text));
    }
    let x = tensor(Float32, &[3, 70], &[70, 1]);
    let scales = tensor(Float32, &[5], &[1]);
    let recipe = recipe("_weight_int8pack_mm", &[x, weight, scales], &[]).expect("it is known");
    let view = &recipe.launches[0].operands[1];
    assert_eq!(
        (view.place, &view.size[..], &view.stride[..]),
        (TensorRef::Argument(1), &[70, 5][..], &[1, 70][..])
    );
}

#[test]
fn whole_products_are_exact_however_long_they_are() {
    let of = |k: usize| {
        let a = [3, k];
        let b = [k, 5];
        text("_int_mm", &[tensor(UInt8, &a, &[k, 1]), tensor(Int8, &b, &[5, 1])], &[])
    };
    assert!(of(514).contains("y = i64(sum<k>(f32(a) * f32(b)))"), "{}", of(514));
    assert!(of(515).contains("y = i64(sum<k>(f64(a) * f64(b)))"), "{}", of(515));
    assert!(is_direct(&of(514)) && is_direct(&of(515)));
}

#[test]
fn what_the_cpu_refuses_is_declined() {
    let [a, b] = sides(Int8);
    assert!(recipe("_int_mm", &[a, tensor(UInt8, &[70, 5], &[5, 1])], &[]).is_err());
    assert!(recipe("_int_mm.out", &[a, b, tensor(Float32, &[3, 5], &[5, 1])], &[2]).is_err());
    assert!(recipe("_int_mm.out", &[a, b, tensor(Int32, &[3, 5], &[5, 1])], &[2]).is_ok());
    assert!(recipe("_int_mm", &[b, b], &[]).is_err(), "70 x 5 and 70 x 5");
    let arguments = [a, b, scale(), scale(), NONE, NONE, 6.into(), false.into()];
    assert!(recipe("_scaled_mm", &arguments, &[]).is_err(), "int8 has no scaled product");
    let x = tensor(Float32, &[3, 70], &[70, 1]);
    let weight = tensor(Float8E5M2, &[5, 70], &[70, 1]);
    assert!(recipe("_weight_int8pack_mm", &[x, weight, tensor(Float32, &[5], &[1])], &[]).is_err());
}

#[test]
fn nothing_is_launched_for_a_result_without_elements() {
    let weight = tensor(Int8, &[0, 70], &[70, 1]);
    let x = tensor(Float32, &[3, 70], &[70, 1]);
    let scales = tensor(Float32, &[0], &[1]);
    let none = recipe("_weight_int8pack_mm", &[x, weight, scales], &[]).expect("it is known");
    assert!(none.launches.is_empty());
    let [a, b] = [tensor(Int8, &[3, 0], &[1, 1]), tensor(Int8, &[0, 5], &[5, 1])];
    let sums = recipe("_int_mm", &[a, b], &[]).expect("it is known");
    assert_eq!(sums.launches.len(), 1, "sums over nothing are zero, and stored");
}
