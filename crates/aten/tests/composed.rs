//! Ops that were put together from others once, and are recipes now.

mod support;

use spyre_aten::{Argument, TensorView, takes_attention};
use spyre_compiler::{Array, Kernel};
use spyre_numerics::DType::{self, Bool, Float16, Float32, Float64, Int64};

use support::{compiles, recipe, tensor, text, texts};

const RANDOM: Argument<'static> = Argument::Random { seed: 1, offset: 4 };

fn interpret(text: &str, extents: &[usize], arrays: &mut [Array]) {
    let kernel: Kernel = text.parse().expect("a kernel");
    kernel.interpret(extents, &[], arrays).expect("arrays that fit");
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn single(value: f64) -> Array {
    Array::from_floats(Float64, &[1, 1], &[value])
}

#[test]
fn an_lstm_cell_computes_its_gates() {
    let gates = tensor(Float64, &[1, 4], &[4, 1]);
    let bias = tensor(Float64, &[4], &[1]);
    let cell = tensor(Float64, &[1, 1], &[1, 1]);
    let text = text("_thnn_fused_lstm_cell", &[gates, gates, cell, bias, bias], &[]);
    let given: Vec<f64> = (0..17).map(|at| f64::from(at) * 0.11 - 0.9).collect();
    let mut arrays: Vec<Array> = given.iter().map(|&value| single(value)).collect();
    arrays.extend((0..6).map(|_| Array::zeros(Float64, &[1, 1])));
    interpret(&text, &[1, 1], &mut arrays);
    let gate = |at: usize| given[at] + given[4 + at] + given[8 + at] + given[12 + at];
    let [enter, forget, leave] = [0, 1, 3].map(|at| sigmoid(gate(at)));
    let new = gate(2).tanh();
    let state = forget * given[16] + enter * new;
    let expected = [leave * state.tanh(), state, enter, forget, new, leave];
    for (array, expected) in arrays[17..].iter().zip(expected) {
        assert!((array.floats()[0] - expected).abs() < 1e-12, "{array:?} is not {expected}");
    }
}

#[test]
fn the_gradients_of_a_gru_cell_are_those_of_its_gates() {
    let kept = tensor(Float64, &[1, 5], &[5, 1]);
    let grad = tensor(Float64, &[1, 1], &[1, 1]);
    let has_bias = Argument::from(true);
    let texts = texts("_thnn_fused_gru_cell_backward", &[grad, kept, has_bias], &[]);
    let [reset, update, new, hidden, gate, grad] = [0.3, 0.6, -0.2, 0.7, 1.1, 0.9];
    let mut arrays: Vec<Array> = [reset, update, new, hidden, gate, grad].map(single).into();
    arrays.extend((0..7).map(|_| Array::zeros(Float64, &[1, 1])));
    interpret(&texts[0], &[1, 1], &mut arrays);
    let to_update = grad * (hidden - new) * (1.0 - update) * update;
    let to_new = grad * (1.0 - update) * (1.0 - new * new);
    let to_reset = to_new * gate * (1.0 - reset) * reset;
    let expected =
        [to_reset, to_update, to_new, to_reset, to_update, to_new * reset, grad * update];
    for (array, expected) in arrays[6..].iter().zip(expected) {
        assert!((array.floats()[0] - expected).abs() < 1e-12, "{array:?} is not {expected}");
    }
}

#[test]
fn means_and_deviations_may_be_tensors() {
    let rows = tensor(Float32, &[4, 64], &[64, 1]);
    let row = tensor(Float16, &[64], &[1]);
    let number = Argument::from(2.0);
    for (name, given) in [
        ("normal.Tensor_float", [rows, number]),
        ("normal.float_Tensor", [number, row]),
        ("normal.Tensor_Tensor", [rows, row]),
    ] {
        let made = compiles(name, &[given[0], given[1], RANDOM], &[]);
        assert_eq!((made.results.len(), made.launches.len()), (1, 1), "{name}");
        let out = tensor(made.results[0].dtype, &made.results[0].size, &made.results[0].stride);
        let name = format!("{name}_out");
        assert!(compiles(&name, &[given[0], given[1], RANDOM, out], &[3]).results.is_empty());
    }
    let larger = tensor(Float32, &[2, 4, 64], &[256, 64, 1]);
    assert!(recipe("normal.Tensor_float_out", &[rows, number, RANDOM, larger], &[3]).is_err());
    let whole = tensor(Int64, &[4], &[1]);
    assert!(recipe("normal.Tensor_float", &[whole, number, RANDOM], &[]).is_err());
}

#[test]
fn samples_are_drawn_in_two_launches() {
    let rows = tensor(Float32, &[3, 7], &[7, 1]);
    let row = tensor(Float16, &[7], &[1]);
    for (x, size) in [(rows, vec![3, 5]), (row, vec![5])] {
        for is_repeated in [true, false] {
            let given = [x, Argument::from(5), Argument::from(is_repeated), RANDOM];
            let made = compiles("multinomial", &given, &[]);
            assert_eq!((made.launches.len(), made.results[0].size.to_vec()), (2, size.clone()));
        }
    }
    let one = [rows, Argument::from(1), Argument::from(true), RANDOM];
    let texts = texts("multinomial", &one, &[]);
    assert!(texts[1].contains("argmax"), "{texts:?}");
    let out = tensor(Int64, &[3, 1], &[1, 1]);
    let made = compiles("multinomial.out", &[rows, one[1], one[2], RANDOM, out], &[4]);
    assert_eq!((made.results.len(), made.results[0].dtype), (1, Float32));
}

#[test]
fn the_first_arrivals_are_the_largest() {
    let rows = tensor(Float64, &[1, 4], &[4, 1]);
    let given = [rows, Argument::from(3), Argument::from(false), RANDOM];
    let texts = texts("multinomial", &given, &[]);
    let arrivals = Array::from_floats(Float64, &[1, 4], &[0.3, 0.9, 0.1, 0.5]);
    let mut arrays = [arrivals, Array::zeros(Int64, &[1, 3])];
    interpret(&texts[1], &[1, 4, 3], &mut arrays);
    assert_eq!(arrays[1].floats(), [1.0, 3.0, 0.0]);
}

#[test]
fn query_heads_share_heads_of_keys() {
    let query = tensor(Float32, &[2, 6, 5, 8], &[240, 40, 8, 1]);
    let key = tensor(Float32, &[2, 3, 7, 8], &[168, 56, 8, 1]);
    let value = tensor(Float32, &[2, 3, 7, 4], &[84, 28, 4, 1]);
    let out = tensor(Float32, &[2, 6, 5, 4], &[120, 20, 4, 1]);
    let total = tensor(Float32, &[2, 6, 5], &[30, 5, 1]);
    let bias = tensor(Float32, &[6, 1, 7], &[7, 7, 1]);
    let rest = [Argument::None, Argument::from(true)];
    let forward = compiles("spyre::attention", &[query, key, value, bias, rest[0], rest[1]], &[]);
    assert_eq!(forward.results[0].size[..], [2, 6, 5, 4]);
    assert_eq!(forward.results[1].size[..], [2, 6, 5]);
    let operands = &forward.launches[0].operands;
    assert_eq!((&operands[0].size[..], operands[0].stride[1]), (&[2, 3, 2, 5, 8][..], 80));
    assert_eq!(operands[3].stride[..], [0, 14, 7, 0, 1]);
    let given = [out, query, key, value, bias, rest[0], rest[1], out, total];
    let backward = compiles("spyre::attention_backward", &given, &[]);
    let sizes: Vec<_> = backward.results.iter().map(|result| result.size.to_vec()).collect();
    assert_eq!(sizes[..3], [vec![2, 6, 5, 8], vec![2, 3, 7, 8], vec![2, 3, 7, 4]]);
    assert_eq!(sizes[3], [2, 6, 5, 7]);
}

#[test]
fn attention_is_taken_by_its_shapes() {
    fn heads(dtype: DType, size: &[usize]) -> TensorView<'_> {
        TensorView { dtype, size, stride: &[0; 4][..size.len()], offset: 0 }
    }
    let query = heads(Float32, &[2, 6, 5, 8]);
    let key = heads(Float32, &[2, 3, 7, 8]);
    let mask = |size| Some(heads(Bool, size));
    assert!(takes_attention([query, key, key], None, 0.0, true));
    assert!(!takes_attention([query, key, key], None, 0.0, false), "heads are shared");
    assert!(!takes_attention([query, key, key], None, 0.1, true), "elements are dropped");
    assert!(takes_attention([key, key, key], mask(&[7, 7]), 0.0, false));
    assert!(
        !takes_attention([key, key, key], mask(&[7, 6]), 0.0, false),
        "a mask of another shape"
    );
    assert!(!takes_attention([key, heads(Float64, key.size), key], None, 0.0, false));
    let flat = heads(Float32, &[7, 8]);
    assert!(!takes_attention([flat, flat, flat], None, 0.0, false), "there are no heads");
}
