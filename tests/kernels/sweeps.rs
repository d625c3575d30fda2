//! Kernels that go over the same rows several times, with room to keep what they made and without.

use spyre::compiler::Kernel;

use crate::bed::{Bed, Failure, Tolerance, arrays_of};

const SOFTMAX: &str = "kernel softmax(i, j) {
    in x: float32[i, j]
    out y: float32[i, j]
    e = exp(x - max<j>(x))
    y = e / sum<j>(e)
}";

const LAYER_NORM: &str = "kernel layer_norm(i, j) {
    in x: float32[i, j]
    in w: float32[j]
    out y: float32[i, j]
    out mean: float32[i]
    m = sum<j>(x) / f32(size(j))
    d = x - m
    mean = m
    y = d * rsqrt(sum<j>(d * d) / f32(size(j)) + 0.00001) * w
}";

/// Both of the later loops need what the first one loads, and in another lane.
const SPREAD: &str = "kernel spread(i, j) {
    in x: float16[i, j]
    out y: float32[i, j]
    t = abs(x) + 1
    s = sum<j>(t)
    p = max<j>(t / s)
    y = t / s * p + x
}";

/// Two dims are gone over.
const GROUP_NORM: &str = "kernel group_norm(n, c, h) {
    in x: float32[n, c, h]
    in w: float32[c]
    out y: float32[n, c, h]
    count = f32(size(c) * size(h))
    m = sum<c, h>(x) / count
    d = x - m
    y = d * rsqrt(sum<c, h>(d * d) / count + 0.00001) * w
}";

/// A loop that stores what the next one loads.
const IN_STEPS: &str = "kernel in_steps(i, j) {
    inout x: float32[i, j]
    out y: float32[i, j]
    x = x - max<j>(x)
    y = x / sum<j>(x * x)
}";

fn check(text: &str, extents: &[usize]) -> Result<(), Failure> {
    let kernel: Kernel = text.parse()?;
    Bed::open()?.check_kernel(&kernel, extents, &[], Tolerance::OfSums)
}

#[test]
fn rows_of_one_tile_and_of_many() -> Result<(), Failure> {
    for text in [SOFTMAX, LAYER_NORM, SPREAD, IN_STEPS] {
        for extents in [[1, 1], [3, 200], [17, 256], [40, 700], [2, 4000], [0, 5], [5, 0]] {
            check(text, &extents)?;
        }
    }
    for extents in [[1, 1, 1], [2, 5, 300], [3, 33, 70], [1, 130, 520]] {
        check(GROUP_NORM, &extents)?;
    }
    Ok(())
}

#[test]
fn rows_that_are_too_long_to_be_kept() -> Result<(), Failure> {
    for text in [SOFTMAX, LAYER_NORM] {
        check(text, &[17, 17_000])?;
    }
    Ok(())
}

#[test]
fn what_is_kept_is_the_same_for_any_number_of_threads() -> Result<(), Failure> {
    for (text, extents) in
        [(SOFTMAX, &[100, 3000][..]), (LAYER_NORM, &[70, 2000]), (GROUP_NORM, &[9, 40, 300])]
    {
        let kernel: Kernel = text.parse()?;
        let arrays = arrays_of(&kernel, extents);
        let run = |threads| Bed::with_threads(threads)?.run(&kernel, &[], &arrays);
        let expected = run(1)?;
        for threads in [2, 7] {
            assert!(run(threads)? == expected, "{threads} threads\n{text}");
        }
    }
    Ok(())
}

/// Makes powers in one pass where the differences are not stored, near the ends of the range and far from
/// them.
#[test]
fn powers_of_differences_do_not_depend_on_how_they_are_made() -> Result<(), Failure> {
    for scale in ["1", "40", "100000"] {
        let text = |also: &str, store: &str| {
            format!(
                "kernel powers(i, j) {{
                    in x: float32[i, j]
                    in m: float32[i]
                    out y: float32[i, j]
                    {also}
                    d = x * {scale} - m * {scale}
                    y = exp(d)
                    {store}
                }}"
            )
        };
        let [alone, beside]: [Kernel; 2] =
            [text("", "").parse()?, text("out z: float32[i, j]", "z = d").parse()?];
        let run = |kernel: &Kernel| Bed::open()?.run(kernel, &[], &arrays_of(kernel, &[19, 700]));
        let [of_alone, of_beside] = [run(&alone)?, run(&beside)?];
        assert!(of_alone[2] == of_beside[2], "times {scale}");
    }
    Ok(())
}

/// Other operands of a chain: one number for each row, for each element, for each column, and a constant.
const OTHERS: [&str; 4] = ["r", "f", "c", "0.3"];

/// Makes the chain in one pass where the values in between are not stored.
#[test]
fn chains_of_sums_and_products_do_not_depend_on_how_they_are_made() -> Result<(), Failure> {
    let ops = ["+", "-", "*"];
    for nth in 0..64 {
        let [a, b, c] = [nth / 16, nth / 4 % 4, nth % 4].map(|at| OTHERS[at]);
        let [first, second, third] = [nth, nth / 3 + 1, nth / 5 + 2].map(|at| ops[at % 3]);
        let text = |also: &str, stores: &str| {
            format!(
                "kernel chain(i, j) {{
                    in x: float32[i, j]
                    in r: float32[i]
                    in c: float32[j]
                    in f: float32[i, j]
                    out y: float32[i, j]
                    {also}
                    s = x {first} {a}
                    t = s {second} {b}
                    y = t {third} {c}
                    {stores}
                }}"
            )
        };
        let also = "out z: float32[i, j]\nout u: float32[i, j]";
        let [alone, beside]: [Kernel; 2] =
            [text("", "").parse()?, text(also, "z = s\nu = t").parse()?];
        let run = |kernel: &Kernel| Bed::open()?.run(kernel, &[], &arrays_of(kernel, &[18, 700]));
        let [of_alone, of_beside] = [run(&alone)?, run(&beside)?];
        assert!(of_alone[4] == of_beside[4], "{}", text("", ""));
    }
    Ok(())
}

/// Compares squares that are not stored with squares that are.
#[test]
fn sums_of_squares_do_not_depend_on_how_they_are_made() -> Result<(), Failure> {
    let text = |also: &str, store: &str| {
        format!(
            "kernel squares(i, j) {{
                in x: float32[i, j]
                out y: float32[i]
                {also}
                s = x * x
                y = sum<j>(s)
                {store}
            }}"
        )
    };
    let [alone, beside]: [Kernel; 2] =
        [text("", "").parse()?, text("out z: float32[i, j]", "z = s").parse()?];
    for extents in [[1, 1], [5, 31], [18, 33], [33, 700], [3, 5000]] {
        let run = |kernel: &Kernel| Bed::open()?.run(kernel, &[], &arrays_of(kernel, &extents));
        let [of_alone, of_beside] = [run(&alone)?, run(&beside)?];
        assert!(of_alone[1] == of_beside[1], "{extents:?}");
    }
    Ok(())
}
