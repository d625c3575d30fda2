//! Whole numbers of 64 bits without a sign: who takes them, and as what.

mod support;

use spyre_aten::{Argument, Decline};
use spyre_numerics::DType::{Bool, Float32, Int64, UInt64};

use support::{compiles, recipe, tensor, text};

#[test]
fn a_large_number_is_halved_to_become_a_float() {
    let x = tensor(UInt64, &[5], &[1]);
    let y = tensor(Float32, &[5], &[1]);
    assert_eq!(
        text("sqrt.out", &[x, y], &[1]),
        "\
kernel aten_sqrt(i0) {
    in a_: uint64[i0]
    out y0: float32[i0]
    a = where(a_ < 0, f32(((a_ >> 1) & 9223372036854775807) | (a_ & 1)) * 2, f32(a_))
    y0 = f32(sqrt(a))
}
"
    );
    compiles("sqrt.out", &[x, y], &[1]);
}

#[test]
fn sums_and_products_wrap_alike() {
    let x = tensor(UInt64, &[5], &[1]);
    compiles("mul.out", &[x, x, x], &[2]);
    compiles("add.out", &[x, x, 1.into(), x], &[3]);
    compiles("eq.Tensor_out", &[x, x, tensor(Bool, &[5], &[1])], &[2]);
}

#[test]
fn an_order_is_that_of_numbers_without_a_sign() {
    let x = tensor(UInt64, &[5], &[1]);
    let places = tensor(Int64, &[5], &[1]);
    let call = [x, true.into(), 0.into(), false.into(), x, places];
    let text = text("sort.values_stable", &call, &[4, 5]);
    assert!(text.contains("order<i0>((x ^ (-9223372036854775807 - 1)))"), "{text}");
    compiles("sort.values_stable", &call, &[4, 5]);
}

#[test]
fn what_depends_on_the_sign_is_declined() {
    let x = tensor(UInt64, &[5], &[1]);
    let y = tensor(Bool, &[5], &[1]);
    let single = tensor(UInt64, &[], &[]);
    let declined = Err(Decline::DType { dtype: UInt64 });
    assert_eq!(recipe("lt.Tensor_out", &[x, x, y], &[2]).map(drop), declined);
    assert_eq!(recipe("maximum.out", &[x, x, x], &[2]).map(drop), declined);
    let all = [x, Argument::Ints(&[0]), false.into(), single];
    assert_eq!(recipe("amax.out", &all, &[3]).map(drop), declined);
}
