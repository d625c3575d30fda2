//! Calls of ops that reduce, normalise and multiply become kernels that compile.

mod support;

use spyre_aten::{Argument, Decline, TensorView};
use spyre_numerics::DType::{Bool, Float16, Float32, Int32, Int64};

use support::{compiles, recipe, tensor, text};

#[test]
fn a_sum_keeps_the_order_of_memory() {
    let x = tensor(Float16, &[5, 6, 7], &[42, 7, 1]);
    let y = tensor(Float16, &[6], &[1]);
    let over = [x, Argument::Ints(&[0, -1]), false.into(), Argument::None, y];
    assert_eq!(
        text("sum.IntList_out", &over, &[4]),
        "\
kernel aten_sum(r0, k0, r1) {
    in x: float16[r0, k0, r1]
    out y: float16[k0]
    y = f32(sum<r0, r1>(x))
}
"
    );
}

#[test]
fn a_dim_of_one_element_is_not_reduced() {
    let x = tensor(Bool, &[4, 1], &[1, 1]);
    let y = tensor(Int64, &[4, 1], &[1, 1]);
    let over = [x, Argument::Ints(&[1]), true.into(), Argument::None, y];
    assert_eq!(
        text("sum.IntList_out", &over, &[4]),
        "\
kernel aten_sum(k0) {
    in x_: bool[k0]
    out y: int64[k0]
    x = i64(x_)
    y = i64((x))
}
"
    );
}

#[test]
fn every_reduction_compiles() {
    let x = tensor(Float32, &[6, 70], &[70, 1]);
    let whole = tensor(Int32, &[6, 70], &[70, 1]);
    let y = tensor(Float32, &[6], &[1]);
    let place = tensor(Int64, &[6], &[1]);
    let truth = tensor(Bool, &[6], &[1]);
    let one = [Argument::from(1), false.into()];
    let none = Argument::None;
    for name in ["sum.IntList_out", "nansum.out", "mean.out", "prod.int_out"] {
        text(name, &[x, one[0], one[1], none, y], &[4]);
    }
    for name in ["amax.out", "amin.out", "argmax.out", "argmin.out"] {
        let result = if name.starts_with("arg") { place } else { y };
        text(name, &[x, one[0], one[1], result], &[3]);
    }
    for name in ["any.out", "all.out"] {
        text(name, &[whole, one[0], one[1], truth], &[3]);
    }
    for name in ["max.dim_max", "min.dim_min"] {
        text(name, &[x, one[0], one[1], y, place], &[3, 4]);
    }
    for name in ["var.correction", "std.correction", "var_mean.correction", "std_mean.correction"] {
        text(name, &[x, Argument::Ints(&[1]), Argument::None, false.into()], &[]);
    }
    for order in [0.0, 1.0, 2.0, 3.5, f64::INFINITY, f64::NEG_INFINITY] {
        let over = Argument::Ints(&[1]);
        text("linalg_vector_norm.out", &[x, order.into(), over, false.into(), none, y], &[5]);
    }
    for name in ["max", "min", "prod"] {
        text(name, &[x], &[]);
    }
}

#[test]
fn the_place_in_a_dim_of_one_element_is_its_only_one() {
    let x = tensor(Float32, &[6, 1], &[1, 1]);
    let y = tensor(Int64, &[6], &[1]);
    let text = text("argmax.out", &[x, Argument::from(1), false.into(), y], &[3]);
    assert!(text.contains("y = i64(0i64)"), "{text}");
}

#[test]
fn rows_are_normalised() {
    let x = tensor(Float16, &[4, 33], &[33, 1]);
    let y = tensor(Float16, &[4, 33], &[33, 1]);
    for name in ["_softmax.out", "_log_softmax.out"] {
        text(name, &[x, Argument::from(-1), false.into(), y], &[3]);
    }
    for name in ["_softmax_backward_data.out", "_log_softmax_backward_data.out"] {
        text(name, &[x, x, Argument::from(1), Argument::None, y], &[4]);
    }
    let weight = tensor(Float16, &[33], &[1]);
    for weights in [[weight, weight], [weight, Argument::None], [Argument::None; 2]] {
        let norm = [x, Argument::Ints(&[33]), weights[0], weights[1], 1e-5.into()];
        text("native_layer_norm", &norm, &[]);
        let norm = [x, Argument::Ints(&[33]), weights[0], Argument::None];
        text("_fused_rms_norm", &norm, &[]);
    }
}

#[test]
fn products_compile() {
    let a = tensor(Float32, &[4, 5], &[5, 1]);
    let b = tensor(Float32, &[5, 6], &[1, 5]);
    let y = tensor(Float32, &[4, 6], &[6, 1]);
    text("mm.out", &[a, b, y], &[2]);
    let bias = tensor(Float32, &[6], &[1]);
    let sum = text("addmm.out", &[bias, a, b, 1.into(), 1.into(), y], &[5]);
    assert!(sum.contains("y = f32(beta * c + alpha * sum<k>(a * b))"), "{sum}");
    let sum = text("addmm.out", &[bias, a, b, 0.into(), 1.into(), y], &[5]);
    assert!(!sum.contains("beta"), "{sum}");
    let a = tensor(Float32, &[3, 4, 5], &[20, 5, 1]);
    let b = tensor(Float32, &[3, 5, 6], &[30, 6, 1]);
    text("bmm.out", &[a, b, tensor(Float32, &[3, 4, 6], &[24, 6, 1])], &[2]);
    text("dot", &[bias, bias], &[]);
}

#[test]
fn a_result_of_another_shape_is_named() {
    let x = tensor(Float32, &[6, 7], &[7, 1]);
    let y = tensor(Float32, &[0], &[1]);
    let over = [x, Argument::from(1), false.into(), y];
    let declined = recipe("amax.out", &over, &[3]).expect_err("another shape");
    assert_eq!(declined, Decline::ResultShape { size: vec![6], stride: vec![1] });
}

#[test]
fn norms_have_backward_forms() {
    let x = tensor(Float32, &[4, 33], &[33, 1]);
    let mean = tensor(Float32, &[4, 1], &[1, 1]);
    let weight = tensor(Float32, &[33], &[1]);
    let shape = Argument::Ints(&[33]);
    let mask = Argument::Bools(&[true; 3]);
    let layer = [x, x, shape, mean, mean, weight, weight, mask];
    compiles("native_layer_norm_backward", &layer, &[]);
    compiles("_fused_rms_norm_backward", &[x, x, shape, mean, weight, mask], &[]);
}

#[test]
fn indices_lead_to_elements() {
    let x = tensor(Float32, &[4, 5, 6], &[30, 6, 1]);
    let at = tensor(Int64, &[4, 2, 6], &[12, 6, 1]);
    let index = tensor(Int64, &[3], &[1]);
    let y = tensor(Float32, &[4, 2, 6], &[12, 6, 1]);
    compiles("gather.out", &[x, 1.into(), at, false.into(), y], &[4]);
    compiles("scatter.src_out", &[x, 1.into(), at, y, x], &[4]);
    compiles("scatter_add.out", &[x, 1.into(), at, y, x], &[4]);
    compiles("index_select", &[x, 2.into(), index], &[]);
    let values = tensor(Float32, &[4, 3, 6], &[18, 6, 1]);
    compiles("index_add.out", &[x, 1.into(), index, values, 1.into(), x], &[5]);
    let one = TensorView { dtype: Int64, size: &[3, 1], stride: &[1, 1], offset: 0 };
    let two = TensorView { dtype: Int64, size: &[2], stride: &[1], offset: 0 };
    for list in [[None, Some(one), Some(two)], [Some(one), None, Some(two)]] {
        let result = match list[0] {
            None => tensor(Float32, &[4, 3, 2], &[6, 2, 1]),
            Some(_) => tensor(Float32, &[3, 2, 5], &[10, 5, 1]),
        };
        compiles("index.Tensor_out", &[x, Argument::Tensors(&list), result], &[2]);
        let put = [x, Argument::Tensors(&list), result, true.into(), false.into()];
        compiles("_index_put_impl_", &put, &[0]);
    }
    let grad = tensor(Float32, &[3, 8], &[8, 1]);
    let embedding = [grad, index, 10.into(), Argument::from(-1), false.into()];
    compiles("embedding_dense_backward", &embedding, &[]);
}

#[test]
fn tensors_are_made_and_put_together() {
    let x = tensor(Float16, &[4, 70], &[70, 1]);
    compiles("fill_.Scalar", &[x, 2.5.into()], &[0]);
    compiles("zero_", &[x], &[0]);
    for dtype in [Int64, Float32, Float16] {
        let row = tensor(dtype, &[10], &[1]);
        compiles("arange.start_out", &[0.into(), 10.into(), 1.into(), row], &[3]);
    }
    let parts = [
        Some(TensorView { dtype: Float32, size: &[2, 3], stride: &[3, 1], offset: 0 }),
        Some(TensorView { dtype: Int32, size: &[2, 4], stride: &[1, 2], offset: 0 }),
        Some(TensorView { dtype: Float32, size: &[0], stride: &[1], offset: 0 }),
    ];
    let y = tensor(Float32, &[2, 7], &[7, 1]);
    let recipe = compiles("cat.out", &[Argument::Tensors(&parts), 1.into(), y], &[2]);
    assert_eq!(recipe.launches[1].operands[1].offset, 3);
    compiles("tril.out", &[x, 0.into(), x], &[2]);
    compiles("triu.out", &[x, 1.into(), x], &[2]);
    compiles("cumsum.out", &[x, 1.into(), Argument::None, x], &[3]);
    compiles("cumprod.out", &[x, 0.into(), Argument::None, x], &[3]);
}

#[test]
fn elements_are_put_in_order() {
    let x = tensor(Float32, &[4, 33], &[33, 1]);
    let places = tensor(Int64, &[4, 33], &[33, 1]);
    let sorted = [x, Argument::None, Argument::from(-1), true.into(), x, places];
    compiles("sort.values_stable", &sorted, &[4, 5]);
    let y = tensor(Float32, &[4, 3], &[3, 1]);
    let z = tensor(Int64, &[4, 3], &[3, 1]);
    let top = [x, 3.into(), Argument::from(1), true.into(), true.into(), y, z];
    compiles("topk.values", &top, &[5, 6]);
}

#[test]
fn losses_compile() {
    let x = tensor(Float32, &[8, 10], &[10, 1]);
    let target = tensor(Int64, &[8], &[1]);
    let one = tensor(Float32, &[], &[]);
    let rows = tensor(Float32, &[8], &[1]);
    for (reduction, y) in [(0, rows), (1, one), (2, one)] {
        let reduction = Argument::from(reduction);
        for weight in [Argument::None, tensor(Float32, &[10], &[1])] {
            let ignored = Argument::from(-100);
            let forward = [x, target, weight, reduction, ignored, y, one];
            compiles("nll_loss_forward.output", &forward, &[5, 6]);
            let backward = [y, x, target, weight, reduction, ignored, one, x];
            compiles("nll_loss_backward.grad_input", &backward, &[7]);
        }
        let result = if reduction_is_none(reduction) { x } else { one };
        compiles("mse_loss.out", &[x, x, reduction, result], &[3]);
    }
}

fn reduction_is_none(reduction: Argument<'_>) -> bool {
    matches!(reduction, Argument::Number(number) if number.value == spyre_artifact::Constant::Int(0))
}
