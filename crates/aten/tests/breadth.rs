//! Calls of ops that scatter, scan and turn become kernels that compile.

mod support;

use spyre_aten::Argument;
use spyre_numerics::DType::{Float32, Float64, Int64};

use support::{recipe, tensor, texts};

fn x() -> Argument<'static> {
    tensor(Float32, &[6, 70], &[70, 1])
}

#[test]
fn what_is_forgotten_is_replaced_before_it_is_added_to() {
    let index = tensor(Int64, &[6, 70], &[70, 1]);
    let mode = |mode, keeps: bool| {
        let arguments = [x(), 1.into(), index, x(), Argument::String(mode), keeps.into(), x()];
        texts("scatter_reduce.two_out", &arguments, &[6])
    };
    assert_eq!(mode("sum", true).len(), 2, "a copy and the sum");
    let product = mode("prod", false);
    assert!(product[1].contains("] = value"), "{}", product[1]);
    assert!(product[2].contains("] *= values"), "{}", product[2]);
    let largest = mode("amax", false);
    assert!(largest[1].contains("] = values"), "any element will do: {}", largest[1]);
    assert!(largest[2].contains("] max= values"), "{}", largest[2]);
}

#[test]
fn a_mean_is_made_of_parts() {
    let index = tensor(Int64, &[6, 70], &[70, 1]);
    let arguments = [x(), 1.into(), index, x(), Argument::String("mean"), true.into(), x()];
    assert!(recipe("scatter_reduce.two_out", &arguments, &[6]).is_err());
}

#[test]
fn rows_are_put_where_their_index_says() {
    let index = tensor(Int64, &[3], &[1]);
    let values = tensor(Float32, &[3, 70], &[70, 1]);
    texts("index_copy.out", &[x(), 0.into(), index, values, x()], &[4]);
    let filled = texts("index_fill_.int_Scalar", &[x(), 0.into(), index, 2.5.into()], &[0]);
    assert_eq!(filled.len(), 1, "in place nothing is copied");
    let reduce = [x(), 0.into(), index, values, Argument::String("amin"), true.into(), x()];
    texts("index_reduce.out", &reduce, &[6]);
    let index = tensor(Int64, &[2, 5], &[5, 1]);
    texts("scatter.value_out", &[x(), 1.into(), index, 2.into(), x()], &[4]);
}

#[test]
fn the_furthest_so_far_is_known_with_its_place() {
    let places = tensor(Int64, &[6, 70], &[70, 1]);
    for name in ["_cummax_helper", "_cummin_helper"] {
        texts(name, &[x(), x(), places, 1.into()], &[1, 2]);
        let whole = tensor(Int64, &[6, 70], &[70, 1]);
        texts(name, &[whole, whole, places, 0.into()], &[1, 2]);
    }
}

#[test]
fn logarithms_of_sums_are_computed_wider_than_they_are_stored() {
    let text = &texts("_logcumsumexp", &[x(), 0.into()], &[])[0];
    assert!(text.contains("scan_logsumexp<i0>(f64(x))"), "{text}");
    let wide = tensor(Float64, &[6, 70], &[70, 1]);
    assert!(recipe("_logcumsumexp", &[wide, 0.into()], &[]).is_err(), "nothing is wider");
}

#[test]
fn tensors_are_turned() {
    let text = &texts("flip", &[x(), Argument::Ints(&[-1])], &[])[0];
    assert!(text.contains("y = x[i0, size(i1) - 1 - i1]"), "{text}");
    let turns = [x(), Argument::Ints(&[3, -80]), Argument::Ints(&[0, 1])];
    let recipe = recipe("roll", &turns, &[]).expect("it is known");
    assert_eq!(recipe.launches[0].scalars.to_vec(), [3, 60]);
    texts("roll", &turns, &[]);
}
