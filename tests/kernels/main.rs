//! Kernels from their text to the card, against the interpreter.

mod access;
mod bed;
mod functions;
mod integers;
mod products;
mod random;
mod scans_and_sorts;
mod sweeps;

use std::fs;

use spyre::artifact::Constant;
use spyre::compiler::{CompileError, CompileOptions, Kernel};

use bed::{Bed, Failure};

const RAGGED: [usize; 5] = [1, 63, 64, 65, 129];

#[test]
fn pointwise_chains_of_every_dtype() -> Result<(), Failure> {
    let bed = Bed::open()?;
    for dtype in ["float16", "bfloat16", "float32", "float64"] {
        for columns in RAGGED {
            let text = format!(
                "kernel chain(rows, columns) {{
                    in x: {dtype}[rows, columns]
                    in bias: {dtype}[columns]
                    in scale: {dtype}[rows]
                    out y: {dtype}[rows, columns]
                    out positive: bool[rows, columns]
                    t = tanh(x * scale + bias)
                    y = where(t > 0, t, exp(t) - 1)
                    positive = t > 0
                }}"
            );
            bed.check(&text, &[3, columns], &[])?;
        }
    }
    Ok(())
}

#[test]
fn reductions_in_a_row_and_over_everything() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let softmax = "kernel softmax(rows, columns) {
        in x: float32[rows, columns]
        out y: float32[rows, columns]
        e = exp(x - max<columns>(x))
        y = e / sum<columns>(e)
    }";
    let layer_norm = "kernel layer_norm(rows, columns) {
        in x: float16[rows, columns]
        in weight: float16[columns]
        out y: float16[rows, columns]
        scalar count: f32
        mean = sum<columns>(x) / count
        centred = x - mean
        variance = sum<columns>(centred * centred) / count
        y = centred * rsqrt(variance + 1e-5) * weight
    }";
    let everything = "kernel everything(a, b, c) {
        in x: float32[a, b, c]
        out sum_of_largest: float32[]
        out centred: float32[a, b, c]
        out by_middle: float32[b]
        sum_of_largest = sum<a, b>(max<c>(x))
        centred = x - sum<a, b, c>(x) * 0.001
        by_middle = min<a, c>(x)
    }";
    for columns in RAGGED {
        bed.check(softmax, &[5, columns], &[])?;
        bed.check(layer_norm, &[5, columns], &[Constant::Float(columns as f64)])?;
        bed.check(everything, &[3, 4, columns], &[])?;
    }
    bed.check(softmax, &[17, 4000], &[])
}

#[test]
fn products_with_what_comes_after_them() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let linear = "kernel linear(m, n, k) {
        in x: float32[m, k]
        in weight: float32[n, k]
        in bias: float32[n]
        out y: float32[m, n]
        t = sum<k>(x * weight) + bias
        y = t / (1 + exp(-t * 0.01))
    }";
    let batched = "kernel bmm(b, m, n, k) {
        in x: float32[b, m, k]
        in z: float32[b, k, n]
        out y: float32[b, m, n]
        y = sum<k>(x * z)
    }";
    for size in RAGGED {
        bed.check(linear, &[size, 65, 33], &[])?;
        bed.check(linear, &[7, size, 130], &[])?;
        bed.check(batched, &[3, 5, size, 20], &[])?;
    }
    Ok(())
}

#[test]
fn integers_conditions_and_indices() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let text = "kernel integers(i, j) {
        in n: int64[i, j]
        in small: int8[j]
        inout y: int64[i, j]
        out z: int64[i]
        scalar least: i64
        y = n * 3 + j - i // 2 if n >= least & small != 0
        z = sum<j>(where(n % 2 == 0, n, 0)) + max<j>(n)
    }";
    for columns in RAGGED {
        bed.check(text, &[4, columns], &[Constant::Int(1)])?;
    }
    Ok(())
}

#[test]
fn empty_tensors_are_computed_too() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let text = "kernel sums(i, j) {
        in x: float32[i, j]
        out y: float32[i]
        y = sum<j>(x)
    }";
    bed.check(text, &[3, 0], &[])?;
    bed.check(text, &[0, 3], &[])
}

#[test]
fn what_no_program_does_is_refused_by_name() -> Result<(), Failure> {
    let refused = |text: &str| -> Result<CompileError, Failure> {
        let kernel: Kernel = text.parse()?;
        Ok(kernel.compile(&CompileOptions::default()).expect_err("it is refused"))
    };
    let unknown =
        "kernel k(i, j) {\nin x: float32[i]\nout y: float32[i]\ny = x * sum<j>(f32(j))\n}";
    assert_eq!(refused(unknown)?, CompileError::Extent { dim: "j".into() });
    Ok(())
}

#[test]
fn the_example_kernels_do_what_they_say() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let read = |name: &str| fs::read_to_string(format!("examples/kernels/{name}.ir"));
    bed.check(&read("softmax")?, &[9, 300], &[])?;
    bed.check(&read("mlp")?, &[5, 70, 66], &[])?;
    let scalars = [Constant::Float(100.0), Constant::Float(1e-6)];
    bed.check(&read("rms_norm")?, &[9, 100], &scalars)?;
    bed.check(&read("rope")?, &[3, 2, 66], &[])?;
    assert_eq!(fs::read_dir("examples/kernels")?.count(), 4, "each of them");
    Ok(())
}
