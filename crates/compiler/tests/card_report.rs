//! Reports of what a real card would refuse, in words.

use spyre_compiler::{CardNote, Kernel, Verdict};

fn report(text: &str, extents: &[(&str, u64)]) -> Vec<String> {
    let kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
    kernel.card_report(extents).iter().map(ToString::to_string).collect()
}

/// A kernel of one tensor in and one out.
fn one(dtype: &str, body: &str) -> String {
    format!("kernel one(i, j) {{\n in x: {dtype}[i, j]\n out y: {dtype}[i, j]\n {body}\n}}")
}

#[test]
fn what_the_card_does_is_not_mentioned() {
    for body in [
        "y = exp(x) * tanh(x)",
        "y = gelu(silu(x))",
        "y = gelu_tanh(softplus(x))",
        "y = where(x > 0, x, x * 0.5)",
        "y = x - max<j>(x)",
    ] {
        assert_eq!(report(&one("float16", body), &[]), [""; 0], "{body}");
    }
}

#[test]
fn operations_are_decomposed_or_left_to_the_host() {
    for (body, expected) in [
        ("y = erf(x)", "host: `erf` is none of the card's operations"),
        ("y = x * product<j>(x)", "host: `product` is none of the card's operations"),
        ("y = sin(x)", "host: `sin` is none of the card's operations"),
        ("y = scan_sum<j>(x)", "host: `scan_sum` is none of the card's operations"),
        ("y = ceil(x)", "decomposed: `ceil` becomes neg, floor and neg"),
        ("y = pow(x, 3)", "decomposed: `pow` becomes products, or log, mul and exp"),
        ("y = f32(j) * x", "host: `index` is none of the card's operations"),
    ] {
        assert_eq!(report(&one("float16", body), &[]), [expected], "{body}");
    }
}

#[test]
fn some_operations_are_for_half_precision_only() {
    assert_eq!(report(&one("float32", "y = exp(x)"), &[]), [""; 0]);
    assert_eq!(
        report(&one("float32", "y = silu(x)"), &[]),
        ["decomposed: `silu` becomes sigmoid and mul"]
    );
    assert_eq!(
        report(&one("float32", "y = log(x)"), &[]),
        ["host: the card has `log` for 16-bit floats only"]
    );
    let matmul = "kernel matmul(m, k, n) {
    in a: float32[m, k]
    in b: float32[k, n]
    out c: float32[m, n]
    c = sum<k>(a * b)
}";
    assert_eq!(report(matmul, &[]), ["host: the card has `matrix product` for 16-bit floats only"]);
    assert_eq!(report(&matmul.replace("float32", "float16"), &[]), [""; 0]);
}

#[test]
fn elements_that_the_card_lacks_are_named() {
    assert_eq!(
        report(&one("float64", "y = x"), &[]),
        [
            "refused: `x` is float64, for which the card has no form",
            "refused: `y` is float64, for which the card has no form"
        ]
    );
    assert_eq!(
        report(&one("int64", "y = x + 1"), &[]),
        [
            "narrowed: `x` is int64, which the card keeps as IEEE_INT32",
            "narrowed: `y` is int64, which the card keeps as IEEE_INT32",
            "host: the card has no `add` of i64: it computes with 16-bit and 32-bit floats"
        ]
    );
}

#[test]
fn coordinates_are_dims_or_indices() {
    let shifted = "kernel shift(i) {
    in x: float16[i]
    out y: float16[i]
    y = x[i - 1] else 0
}";
    assert_eq!(
        report(shifted, &[]),
        [
            "host: `x` at computed coordinates: the card takes dims, or indices from a tensor",
            "decomposed: `else` becomes a padded copy"
        ]
    );
    let rows = "kernel rows(i, j, n) {
    in table: float16[n, j]
    in at: int32[i]
    out y: float16[i, j]
    y = table[at, j]
}";
    assert_eq!(report(rows, &[]), [""; 0]);
}

#[test]
fn restickified_tensors_are_reported() {
    let text = "kernel matmul(m, k, n) {
    in a: float16[m, k]
    in b: float16[n, k]
    out c: float16[m, n]
    c = sum<k>(a * b)
}";
    assert_eq!(report(text, &[]), ["decomposed: `b` is restickified, from k to n"]);
}

#[test]
fn a_reduction_along_sticks_goes_alone() {
    let text =
        "kernel total(i, j) {\n in x: float16[i, j]\n out y: float16[]\n y = sum<i, j>(x)\n}";
    assert_eq!(
        report(text, &[]),
        ["decomposed: `sum` over i, j goes along the sticks alone, and then over the rest"]
    );
}

#[test]
fn sizes_beyond_the_card_take_several_kernels() {
    let softmax = one("float16", "e = exp(x - max<j>(x))\n y = e / sum<j>(e)");
    assert_eq!(report(&softmax, &[("i", 4096), ("j", 2048)]), [""; 0]);
    assert_eq!(
        report(&softmax, &[("i", 4), ("j", 500_000)]),
        [
            "decomposed: all of j at once takes several kernels: it is 2000128 bytes, and a core's scratchpad holds 1677721"
        ]
    );
    assert_eq!(
        report(&one("float16", "y = x * 2"), &[("i", 1 << 20), ("j", 1 << 13)]),
        [
            "decomposed: `x` is cut into parts: it is 536870912 bytes for each core, which reaches over 268435456",
            "decomposed: `y` is cut into parts: it is 536870912 bytes for each core, which reaches over 268435456"
        ]
    );
}

#[test]
fn ranks_and_tensors_are_counted() {
    let deep = "kernel deep(a, b, c, d, e, f, g) {
    in x: float16[a, b, c, d, e, f, g]
    out y: float16[a, b, c, d, e, f, g]
    y = x
}";
    let expected = "refused: `x` has 7 dims, and the card's layouts at most 6";
    assert_eq!(report(deep, &[])[0], expected);

    let inputs: String = (0..7).map(|at| format!(" in x{at}: float16[i]\n")).collect();
    let sum: Vec<String> = (0..7).map(|at| format!("x{at}")).collect();
    let many =
        format!("kernel many(i) {{\n{inputs} out y: float16[i]\n y = {}\n}}", sum.join(" + "));
    assert_eq!(
        report(&many, &[]),
        ["decomposed: 8 tensors in one kernel take several, as a job has 7 segments for them"]
    );
}

#[test]
fn verdicts_are_typed() {
    let kernel: Kernel = one("float16", "y = sin(x)").parse().expect("a kernel");
    let notes = kernel.card_report(&[]);
    assert_eq!(notes, [CardNote::OnHost { operation: "sin".into() }]);
    assert_eq!(notes[0].verdict(), Verdict::OnHost);
}
