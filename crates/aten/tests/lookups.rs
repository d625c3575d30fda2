//! Calls that look elements up, count them and move them become kernels that compile and are right.

mod support;

use spyre_aten::{Argument, Decline};
use spyre_numerics::DType::{Bool, Float32, Int32, Int64};

use support::{recipe, tensor, texts};

#[test]
fn elements_are_looked_for_in_what_both_promote_to() {
    let x = tensor(Int64, &[4, 3], &[3, 1]);
    let among = tensor(Float32, &[], &[]);
    let y = tensor(Bool, &[4, 3], &[3, 1]);
    assert_eq!(
        texts("isin.Tensor_Tensor_out", &[x, among, false.into(), true.into(), y], &[4]),
        ["\
kernel aten_isin(i0, i1, n0) {
    in x: int64[i0, i1]
    in among: float32[n0]
    out y: bool[i0, i1]
    y = !(any<n0>(f32(x) == f32(among)))
}
"]
    );
}

#[test]
fn nothing_is_in_an_empty_list() {
    let x = tensor(Bool, &[4], &[1]);
    let among = tensor(Bool, &[0], &[1]);
    let y = tensor(Bool, &[4], &[1]);
    let text = texts("isin.Tensor_Tensor_out", &[x, among, false.into(), false.into(), y], &[4]);
    assert!(text[0].ends_with("    y = false\n}\n"), "{}", text[0]);
}

#[test]
fn whole_numbers_are_counted_without_rounding() {
    let x = tensor(Int32, &[9], &[1]);
    let text = texts("histc", &[x, 4.into(), 0.into(), 3.into()], &[]);
    assert_eq!(
        text[1],
        "\
kernel aten_histc(i0, n0) {
    in x: int32[i0]
    inout y: int32[n0]
    scalar low: i64
    scalar high: i64
    at = min((x - low) * size(n0) // (high - low), size(n0) - 1)
    y[at] += i64(1) if (x >= low) & (x <= high)
}
"
    );
}

#[test]
fn a_range_that_was_not_given_is_declined() {
    let x = tensor(Float32, &[9], &[1]);
    let outcome = recipe("histc", &[x, 4.into(), 0.into(), 0.into()], &[]);
    assert!(matches!(outcome, Err(Decline::Argument { argument: 2, .. })), "{outcome:?}");
}

#[test]
fn shifts_of_one_dim_add_up_and_wrap() -> Result<(), Decline> {
    let x = tensor(Float32, &[5, 4], &[4, 1]);
    let call = [x, Argument::Ints(&[-1, 6, 8]), Argument::Ints(&[0, 0, 1])];
    let roll = recipe("roll", &call, &[])?;
    assert_eq!(roll.launches[0].scalars.as_slice(), [0_u64; 0]);
    let call = [x, Argument::Ints(&[-1, 4]), Argument::Ints(&[0, -1])];
    assert_eq!(recipe("roll", &call, &[])?.launches[0].scalars.as_slice(), [4]);
    assert_eq!(
        texts("roll", &call, &[]),
        ["\
kernel aten_roll(i0, i1) {
    in x: float32[i0, i1]
    out y: float32[i0, i1]
    scalar by0: i64
    at0 = where(i0 < by0, i0 - by0 + size(i0), i0 - by0)
    y = x[at0, i1]
}
"]
    );
    Ok(())
}

#[test]
fn without_dims_all_elements_are_one_row() -> Result<(), Decline> {
    let x = tensor(Float32, &[5, 4], &[4, 1]);
    let roll = recipe("roll", &[x, Argument::Ints(&[-3]), Argument::Ints(&[])], &[])?;
    assert_eq!(roll.launches[0].operands[0].size.as_slice(), [20]);
    assert_eq!(roll.launches[0].scalars.as_slice(), [17]);
    Ok(())
}

#[test]
fn slices_are_put_where_indices_say() {
    let x = tensor(Float32, &[2, 9], &[9, 1]);
    let index = tensor(Int64, &[3], &[1]);
    let values = tensor(Float32, &[2, 3], &[3, 1]);
    let text = texts("index_copy.out", &[x, 1.into(), index, values, x], &[4]);
    assert!(text[1].ends_with("    y[i0, index] = values\n}\n"), "{}", text[1]);
}
