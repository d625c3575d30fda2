//! Predicted times: the published examples, and what each kind of kernel is taken for.

use spyre_artifact::cost::{Batch, Pattern};
use spyre_compiler::{CompileOptions, Kernel, PredictError, Prediction};
use spyre_numerics::Profile;

const CARD: CompileOptions = CompileOptions::for_profile(Profile::Card);

fn kernel(text: &str) -> Kernel {
    text.parse().unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn predict(text: &str, extents: &[(&str, u64)]) -> Prediction {
    kernel(text).predict(&CARD, extents).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Rounds up, as published numbers are.
fn us(nanoseconds: f64) -> f64 {
    (nanoseconds / 1000.0).ceil()
}

const ADD: &str = "kernel sums(m, n) {
    in a: float16[m, n]
    in b: float16[m, n]
    out c: float16[m, n]
    c = a + b
}";

const SOFTMAX: &str = "kernel softmax(rows, columns) {
    in x: float16[rows, columns]
    out y: float16[rows, columns]
    e = exp(x - max<columns>(x))
    y = e / sum<columns>(e)
}";

const MATMUL: &str = "kernel matmul(m, k, n) {
    in a: float16[m, k]
    in b: float16[k, n]
    out c: float16[m, n]
    c = sum<k>(a * b)
}";

#[test]
fn published_examples_come_out() {
    let add = predict(ADD, &[("m", 512), ("n", 4096)]);
    assert_eq!((us(add.time.total()), add.work.products), (108.0, 0));
    assert_eq!(add.error.to_string(), "+-8.5 %");

    let softmax = predict(SOFTMAX, &[("rows", 4096), ("columns", 2048)]);
    assert_eq!(format!("{:.1}", softmax.time.total() / 1000.0), "320.0");
    assert_eq!(softmax.error.to_string(), "+-21 %");

    for (m, n, products, memory) in
        [(512, 4096, 236.0, 304.0), (512, 12800, 736.0, 890.0), (4, 12800, 6.0, 701.0)]
    {
        let matmul = predict(MATMUL, &[("m", m), ("k", 4096), ("n", n)]);
        assert_eq!((us(matmul.time.products), us(matmul.time.memory)), (products, memory));
        assert_eq!((us(matmul.time.total()), matmul.time.ring), (memory, 0.0));
        assert_eq!(matmul.error.to_string(), "a lower bound: +25 to 30 %");
    }
}

#[test]
fn kernels_are_taken_for_what_they_are() {
    let one = |body: &str| format!("kernel one(i, j) {{\n in x: float16[i, j]\n {body}\n}}");
    let extents = [("i", 128), ("j", 640)];
    for (body, pattern) in [
        ("out y: float16[i, j]\n y = x * 2", Pattern::Pointwise),
        ("out y: float16[i, j]\n y = x", Pattern::Copy { rows: 128, columns: 640 }),
        ("out y: float16[j, i]\n y = x", Pattern::Restickify),
        ("out y: float16[i]\n y = sum<j>(x)", Pattern::RowReduction { rows: 128, sticks: 10 }),
        ("out y: float16[j]\n y = max<i>(x)", Pattern::ColumnReduction { rows: 128, sticks: 10 }),
        ("out y: float16[i, j]\n y = x - max<j>(x)", Pattern::Fused),
    ] {
        assert_eq!(predict(&one(body), &extents).work.pattern, pattern, "{body}");
    }
}

#[test]
fn batches_of_products_are_distinguished() {
    let text = |a: &str, b: &str, c: &str| {
        format!(
            "kernel bmm(b, m, k, n) {{\n in x: float16[{a}]\n in w: float16[{b}]\n \
             out y: float16[{c}]\n y = sum<k>(x * w)\n}}"
        )
    };
    let extents = [("b", 8), ("m", 64), ("k", 64), ("n", 64)];
    let both = predict(&text("b, m, k", "b, k, n", "b, m, n"), &extents);
    assert_eq!(both.work.pattern, Pattern::Product(Batch::Both));
    let left = predict(&text("b, m, k", "k, n", "b, m, n"), &extents);
    assert_eq!(left.work.pattern, Pattern::Product(Batch::Left(8)));
    assert_eq!(left.error.to_string(), "a lower bound: +27 to 40 %");
}

#[test]
fn bytes_are_those_of_whole_sticks() {
    let add = predict(ADD, &[("m", 3), ("n", 65)]);
    assert_eq!((add.work.read_bytes, add.work.written_bytes), (2 * 3 * 2 * 128, 3 * 2 * 128));
    let none = predict(ADD, &[("m", 0), ("n", 65)]);
    assert_eq!(none.time.total(), 0.0);
}

#[test]
fn extents_that_are_missing_or_unknown_are_named() {
    let of = |extents: &[(&str, u64)]| kernel(ADD).predict(&CARD, extents).expect_err("refused");
    assert_eq!(of(&[("m", 1)]).to_string(), "dim `n` has no extent: give one for each of m, n");
    assert_eq!(of(&[("q", 1)]).to_string(), "there is no dim `q`: the kernel has m, n");
    let huge = of(&[("m", u64::MAX), ("n", u64::MAX)]);
    assert!(matches!(huge, PredictError::Compile(_)), "{huge}");
}
