//! Complex numbers are two operands of real ones in the same memory.

mod support;

use spyre_artifact::Constant;
use spyre_aten::{Argument, Number, Recipe};
use spyre_numerics::DType::{
    self, Bool, Complex32, Complex64, Complex128, Float32, Float64, Int64,
};

use support::{compiles, recipe, tensor, text};

fn z(dtype: DType) -> Argument<'static> {
    tensor(dtype, &[6, 70], &[70, 1])
}

fn number(real: f64, imaginary: f64) -> Argument<'static> {
    Argument::Number(Number { value: Constant::Float(real), imaginary, dtype: None })
}

/// Strides and offset of each operand.
fn views(recipe: &Recipe, launch: usize) -> Vec<(Vec<usize>, usize)> {
    let operands = recipe.launches[launch].operands.iter();
    operands.map(|view| (view.stride.to_vec(), view.offset)).collect()
}

#[test]
fn a_product_has_the_parts_of_both_factors() {
    let arguments = [z(Complex64), z(Complex64), z(Complex64)];
    assert_eq!(
        text("mul.out", &arguments, &[2]),
        "\
kernel aten_mul(i0, i1) {
    in a_re: float32[i0, i1]
    in a_im: float32[i0, i1]
    in b_re: float32[i0, i1]
    in b_im: float32[i0, i1]
    out y0: float32[i0, i1]
    out y1: float32[i0, i1]
    y0 = f32(a_re * b_re - a_im * b_im)
    y1 = f32(a_re * b_im + a_im * b_re)
}
"
    );
    let recipe = compiles("mul.out", &arguments, &[2]);
    let part = |offset| (vec![140, 2], offset);
    assert_eq!(views(&recipe, 0), [0, 1, 0, 1, 0, 1].map(part));
}

#[test]
fn the_imaginary_part_of_a_real_tensor_is_zero() {
    let text = text("mul.out", &[z(Complex64), z(Int64), z(Complex64)], &[2]);
    assert!(text.contains("in b_re_: int64[i0, i1]"), "{text}");
    assert!(text.contains("b_re = f32(b_re_)"), "{text}");
    assert!(text.contains("b_im = 0f32"), "{text}");
}

#[test]
fn a_number_has_two_words() {
    let arguments = [z(Complex128), number(2.0, -1.0), z(Complex128)];
    let recipe = compiles("mul.out", &arguments, &[2]);
    let words = [2.0, -1.0].map(|part| Constant::Float(part).word());
    assert_eq!(recipe.launches[0].scalars[..], words);
}

#[test]
fn a_result_says_that_a_number_is_complex() {
    let arguments = [z(Float32), number(2.0, 0.0), z(Complex64)];
    let text = text("mul.out", &arguments, &[2]);
    assert!(text.contains("a_im = 0f32"), "{text}");
}

#[test]
fn narrow_numbers_are_computed_in_float32_and_functions_in_float64() {
    let narrow = text("mul.out", &[z(Complex32), z(Complex32), z(Complex32)], &[2]);
    assert!(
        narrow.contains("a_re = f32(a_re_)") || narrow.contains("in a_re: float16"),
        "{narrow}"
    );
    let tangent = text("tan.out", &[z(Complex64), z(Complex64)], &[1]);
    assert!(tangent.contains("a_re = f64(a_re_)"), "{tangent}");
    assert!(recipe("tan.out", &[z(Complex32), z(Complex32)], &[1]).is_err());
}

#[test]
fn magnitudes_and_comparisons_are_real() {
    let made = compiles("angle", &[z(Complex64)], &[]);
    assert_eq!(made.results[0].dtype, Float32);
    let text = text("eq.Tensor_out", &[z(Complex64), z(Complex64), z(Bool)], &[2]);
    assert!(text.contains("y0 = bool((a_re == b_re) & (a_im == b_im))"), "{text}");
    assert!(recipe("abs.out", &[z(Complex64), z(Float64)], &[1]).is_err(), "another dtype");
}

#[test]
fn numbers_with_a_part_are_true() {
    let text = text("logical_not.out", &[z(Complex64), z(Bool)], &[1]);
    assert!(text.contains("a = a_re | a_im"), "{text}");
}

#[test]
fn parts_become_numbers_of_their_own_width_alone() {
    compiles("complex.out", &[z(Float32), z(Float32), z(Complex64)], &[2]);
    assert!(recipe("complex.out", &[z(Float32), z(Float32), z(Complex128)], &[2]).is_err());
}

#[test]
fn elements_are_moved_part_by_part() {
    let list = [(); 2].map(|()| match z(Complex64) {
        Argument::Tensor(tensor) => Some(tensor),
        _ => None,
    });
    let whole = tensor(Complex64, &[12, 70], &[70, 1]);
    let recipe = compiles("cat.out", &[Argument::Tensors(&list), 0.into(), whole], &[2]);
    assert_eq!(recipe.launches.len(), 4, "two parts of two tensors");
    assert_eq!(views(&recipe, 1)[1], (vec![140, 2], 2 * 6 * 70), "the second real part");
    assert_eq!(views(&recipe, 3)[1], (vec![140, 2], 2 * 6 * 70 + 1));
    let flipped = compiles("flip", &[z(Complex64), Argument::Ints(&[0])], &[]);
    assert_eq!(flipped.results[0].dtype, Complex64);
    assert_eq!(views(&flipped, 1), [(vec![140, 2], 1), (vec![140, 2], 1)]);
}

#[test]
fn each_part_is_filled_with_its_own() {
    let recipe = compiles("fill_.Scalar", &[z(Complex64), number(2.0, -1.0)], &[0]);
    let words = recipe.launches.iter().map(|launch| launch.scalars[0]);
    assert!(words.eq([2.0, -1.0].map(|part| Constant::Float(part).word())));
}

#[test]
fn what_mixes_parts_is_declined() {
    let rows = tensor(Float32, &[6], &[1]);
    let dims = Argument::Ints(&[1]);
    assert!(
        recipe("sum.IntList_out", &[z(Complex64), dims, false.into(), Argument::None, rows], &[4])
            .is_err()
    );
    assert!(recipe("prod", &[z(Complex64), Argument::None], &[]).is_err());
}

#[test]
fn a_mean_is_divided_as_a_complex_number() {
    let rows = tensor(Complex64, &[6], &[1]);
    let arguments = [z(Complex64), Argument::Ints(&[1]), false.into(), Argument::None, rows];
    let recipe = compiles("mean.out", &arguments, &[4]);
    assert_eq!(views(&recipe, 0)[..2], [(vec![140, 2], 0), (vec![140, 2], 1)]);
    assert_eq!(views(&recipe, 0)[2..], [(vec![2], 0), (vec![2], 1)]);
}

#[test]
fn a_variance_is_real_and_its_mean_is_not() {
    let arguments = [z(Complex64), Argument::Ints(&[1]), 1.into(), false.into()];
    for name in ["var.correction", "std.correction"] {
        assert_eq!(compiles(name, &arguments, &[]).results[0].dtype, Float32);
    }
    for name in ["var_mean.correction", "std_mean.correction"] {
        let recipe = compiles(name, &arguments, &[]);
        let dtypes: Vec<_> = recipe.results.iter().map(|result| result.dtype).collect();
        assert_eq!(dtypes, [Float32, Complex64]);
    }
}
