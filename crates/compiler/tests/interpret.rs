//! Kernels carried out element by element, against loops written by hand.

use spyre_artifact::Constant;
use spyre_compiler::{Array, InterpretError, Kernel};
use spyre_numerics::DType::{self, Bool, Float16, Float32, Float64, Int64};

fn floats(shape: &[usize], values: impl IntoIterator<Item = f64>) -> Array {
    Array::from_floats(Float32, shape, &values.into_iter().collect::<Vec<_>>())
}

fn integers(shape: &[usize], values: &[i64]) -> Array {
    let elements = values.iter().map(|&value| Constant::Int(value)).collect();
    Array { dtype: Int64, shape: shape.to_vec(), elements }
}

fn zeros(dtype: DType, shape: &[usize]) -> Array {
    Array::zeros(dtype, shape)
}

/// Runs a kernel, and returns its last operand.
fn run(text: &str, extents: &[usize], arrays: &[Array]) -> Result<Array, InterpretError> {
    let kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}"));
    let mut arrays = arrays.to_vec();
    kernel.interpret(extents, &[], &mut arrays)?;
    Ok(arrays.pop().expect("an output"))
}

#[test]
fn a_softmax_adds_up_to_one() -> Result<(), InterpretError> {
    let text = "kernel softmax(i, j) {
        in x: float32[i, j]
        out y: float32[i, j]
        e = exp(x - max<j>(x))
        y = e / sum<j>(e)
    }";
    let x = floats(&[2, 3], [1.0, 2.0, 3.0, 100.0, 0.0, f64::NEG_INFINITY]);

    let y = run(text, &[2, 3], &[x, zeros(Float32, &[2, 3])])?.floats();

    let total = 1.0_f64 + (-1.0_f64).exp() + (-2.0_f64).exp();
    let expected = [(-2.0_f64).exp() / total, (-1.0_f64).exp() / total, 1.0 / total, 1.0, 0.0, 0.0];
    assert!(y.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-7), "{y:?}");
    Ok(())
}

#[test]
fn a_convolution_has_zeros_around_it() -> Result<(), InterpretError> {
    let text = "kernel conv(o, r, h) {
        in x: float32[h]
        in w: float32[r]
        out y: float32[o]
        y = sum<r>((x[2 * o + r - 1] else 0) * w)
    }";
    let x = floats(&[5], [1.0, 2.0, 3.0, 4.0, 5.0]);
    let w = floats(&[3], [1.0, 10.0, 100.0]);

    let y = run(text, &[3, 3, 5], &[x, w, zeros(Float32, &[3])])?;

    assert_eq!(y.floats(), [210.0, 432.0, 54.0]);
    Ok(())
}

#[test]
fn rows_are_gathered_and_scattered_by_an_index() -> Result<(), InterpretError> {
    let gather = "kernel gather(n, v, d) {
        in at: int64[n]
        in table: float32[v, d]
        out y: float32[n, d]
        y = table[at, d]
    }";
    let table = floats(&[3, 2], [0.0, 1.0, 10.0, 11.0, 20.0, 21.0]);
    let at = integers(&[4], &[2, 0, 2, 1]);
    let y = run(gather, &[4, 3, 2], &[at.clone(), table.clone(), zeros(Float32, &[4, 2])])?;
    assert_eq!(y.floats(), [20.0, 21.0, 0.0, 1.0, 20.0, 21.0, 10.0, 11.0]);

    let scatter = "kernel scatter(n, v, d) {
        in at: int64[n]
        in x: float32[n, d]
        inout y: float32[v, d]
        y[at, d] += x
    }";
    let sums = run(scatter, &[4, 3, 2], &[at, y, table])?;
    assert_eq!(sums.floats(), [0.0, 2.0, 20.0, 22.0, 60.0, 63.0]);

    let bad = integers(&[4], &[0, 0, 3, 0]);
    let table = floats(&[3, 2], [0.0; 6]);
    let error = run(gather, &[4, 3, 2], &[bad, table, zeros(Float32, &[4, 2])]);
    let operand = "table".to_owned();
    let dim = 0;
    let index = 3;
    let size = 3;
    assert_eq!(error, Err(InterpretError::IndexOutOfRange { operand, dim, index, size }));
    Ok(())
}

#[test]
fn orders_put_nan_where_torch_does() -> Result<(), InterpretError> {
    let kernel = |what: &str| {
        format!("kernel k(i, n) {{\nin x: float32[i]\nout y: int64[i]\ny = {what}<i>(x)\n}}")
    };
    let x = floats(&[5], [3.0, f64::NAN, 1.0, 3.0, f64::NEG_INFINITY]);
    let indices = |what: &str| -> Result<Vec<f64>, InterpretError> {
        Ok(run(&kernel(what), &[5, 1], &[x.clone(), zeros(Int64, &[5])])?.floats())
    };
    assert_eq!(indices("order")?, [4.0, 2.0, 0.0, 3.0, 1.0]);
    assert_eq!(indices("order_descending")?, [1.0, 0.0, 3.0, 2.0, 4.0]);
    assert_eq!(indices("argmin")?, [1.0; 5], "one for all");
    assert_eq!(indices("argmax")?, [1.0; 5], "one for all");
    Ok(())
}

#[test]
fn scans_give_what_all_up_to_here_give() -> Result<(), InterpretError> {
    let x = floats(&[2, 3], [1.0, f64::NAN, 3.0, -4.0, 5.0, -6.0]);
    let scanned = |what: &str| -> Result<Vec<f64>, InterpretError> {
        let text = format!(
            "kernel k(i, j) {{\nin x: float32[i, j]\nout y: float32[i, j]\ny = {what}(x)\n}}"
        );
        Ok(run(&text, &[2, 3], &[x.clone(), zeros(Float32, &[2, 3])])?.floats())
    };
    let is_nan = |found: &[f64]| -> Vec<usize> {
        (0..found.len()).filter(|&at| found[at].is_nan()).collect()
    };
    let sums = scanned("scan_sum<j>")?;
    assert_eq!((sums[0], &sums[3..], is_nan(&sums)), (1.0, &[-4.0, 1.0, -5.0][..], vec![1, 2]));
    let products = scanned("scan_product<i>")?;
    assert_eq!((products[3], products[5], is_nan(&products)), (-4.0, -18.0, vec![1, 4]));
    let largest = scanned("scan_max<i>")?;
    assert_eq!((largest[3], largest[5], is_nan(&largest)), (1.0, 3.0, vec![1, 4]));
    let powers = scanned("scan_logsumexp<j>")?;
    let expected = ((-4.0_f64).exp() + 5.0_f64.exp() + (-6.0_f64).exp()).ln();
    assert!((powers[5] - expected).abs() < 1e-6, "{powers:?}");
    Ok(())
}

#[test]
fn nothing_is_found_among_nothing() -> Result<(), InterpretError> {
    let text = "kernel k(i, j) {\nin x: float32[i, j]\nout y: int64[i]\ny = argmax<j>(x)\n}";
    let y = run(text, &[2, 0], &[zeros(Float32, &[2, 0]), zeros(Int64, &[2])])?;
    assert_eq!(y.floats(), [-1.0, -1.0]);
    Ok(())
}

#[test]
fn stores_round_once_to_their_dtype() -> Result<(), InterpretError> {
    let text = "kernel k(i) {
        in x: float64[i]
        out y: float16[i]
        y = x * 1.0009765625
    }";
    let x = Array::from_floats(Float64, &[3], &[1.0, 2049.0, 1e9]);
    let y = run(text, &[3], &[x, zeros(Float16, &[3])])?;
    assert_eq!(y.floats(), [1.0009765625, 2052.0, f64::INFINITY]);
    Ok(())
}

#[test]
fn conditions_leave_what_is_there() -> Result<(), InterpretError> {
    let text = "kernel k(i) {
        in keep: bool[i]
        in x: float32[i]
        inout y: float32[i]
        y = x * 2 if !keep
    }";
    let keep = Array { elements: [true, false].map(Constant::Bool).to_vec(), ..zeros(Bool, &[2]) };
    let y = run(text, &[2], &[keep, floats(&[2], [5.0, 6.0]), floats(&[2], [1.0, 2.0])])?;
    assert_eq!(y.floats(), [1.0, 12.0]);
    Ok(())
}

#[test]
fn integers_divide_as_torch_does_and_not_by_zero() -> Result<(), InterpretError> {
    let text = "kernel k(i) {
        in a: int64[i]
        in b: int64[i]
        out y: int64[i]
        y = a // b * 1000 + a % b * 100 + a / b * 10 + rem(a, b)
    }";
    let b = integers(&[2], &[2, 2]);
    let y = run(text, &[2], &[integers(&[2], &[7, -7]), b, zeros(Int64, &[2])])?;
    assert_eq!(y.floats(), [3131.0, -4000.0 + 100.0 - 30.0 - 1.0]);
    let by_zero =
        run(text, &[1], &[integers(&[1], &[7]), integers(&[1], &[0]), zeros(Int64, &[1])]);
    assert_eq!(by_zero, Err(InterpretError::DivisionByZero));
    Ok(())
}

#[test]
fn what_is_given_must_fit_the_kernel() {
    let text = "kernel k(i) {\nin x: float32[i]\nout y: float32[i]\ny = x\n}";
    let wrong = run(text, &[2], &[zeros(Float32, &[3]), zeros(Float32, &[2])]);
    let operand = "x".to_owned();
    let expected = vec![2];
    let given = vec![3];
    assert_eq!(wrong, Err(InterpretError::Shape { operand, expected, given }));
    let wrong = run(text, &[2, 2], &[zeros(Float32, &[2]), zeros(Float32, &[2])]);
    assert_eq!(wrong, Err(InterpretError::Count { what: "dims", expected: 1, given: 2 }));
    let wrong = run(text, &[2], &[zeros(Float64, &[2]), zeros(Float32, &[2])]);
    let operand = "x".to_owned();
    let expected = Float32;
    let given = Float64;
    assert_eq!(wrong, Err(InterpretError::DType { operand, expected, given }));
}
