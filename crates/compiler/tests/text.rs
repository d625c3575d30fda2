//! Kernels as text: what is parsed is what is printed, and errors say where.

use spyre_compiler::Kernel;

/// The text of the kernel that a text is parsed to.
fn printed(text: &str) -> String {
    let kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    let printed = kernel.to_string();
    let again: Kernel = printed.parse().unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(again.to_string(), printed, "the text of a text");
    printed
}

fn refused(text: &str) -> String {
    text.parse::<Kernel>().expect_err("it is refused").to_string()
}

/// A kernel with one statement, on line 4.
fn with(statement: &str) -> String {
    format!("kernel k(i, j) {{\nin x: float32[i, j]\nin n: int64[i]\n{statement}\n}}")
}

#[test]
fn a_softmax_is_printed_as_it_was_written() {
    let text = "\
kernel softmax(rows, columns) {
    in x: float16[rows, columns]
    out y: float16[rows, columns]
    e = exp(x - max<columns>(x))
    y = e / sum<columns>(e)
}
";
    assert_eq!(printed(text), text);
}

#[test]
fn every_kind_of_expression_is_printed_as_it_was_written() {
    let text = "\
kernel everything(n, c, h, w, k, r) {
    in x: float32[n, c, h, w]
    in weight: float64[k, c, r]
    in at: int64[n]
    in mask: bool[n, h]
    inout y: float32[n, h]
    out z: int64[n, c, h, w]
    scalar alpha: f32
    scalar times: i64
    t = x[n, c, 2 * h + r - 1, w] else -inf
    m = max<c, w, r>(t) * alpha
    y[at, h] += where(mask, m, round<float16>(-m)) if at >= 0 & !(at == size(n) - 1)
    s = order_descending<w>(x) + argmax<w>(x) * times
    z = s // 2 % 3 << 1 ^ ~i64(scan_sum<h>(x)) | min(s, h - (w - c))
    q = f32(sum<c, k>(weight * 2.5))
    y max= sum<r>(q)
}
";
    assert_eq!(printed(text), text);
}

#[test]
fn what_goes_along_a_dim_is_printed_as_it_was_written() {
    let text = "\
kernel along(i, j) {
    in x: float32[i, j]
    out y: float32[i, j]
    out n: int64[i, j]
    scalar seed: i64
    s = sort<j>(x) + sort_descending<i>(scan_logsumexp<j>(x))
    y = scan_product<i>(s) - scan_min<j>(s) * scan_max<j>(s)
    n = random(seed, 0, i * size(j) + j, 3) & 255 | order<j>(x) + argmin<j>(x)
}
";
    assert_eq!(printed(text), text);
}

#[test]
fn numbers_take_the_lane_of_what_they_are_used_with() {
    let text = "\
kernel numbers(i) {
    in x: float64[i]
    in n: int64[i]
    out y: float64[i]
    out b: bool[i]
    y = (x + 1.0) * 1e-300 - f64(1.5 + 2.5) - neg(1.0f64)
    b = n == 1 | n > -9223372036854775808 | x == nan | false
}
";
    assert_eq!(printed(text), text);
    let whole = text.replace("x + 1.0", "x + 1");
    assert_eq!(printed(&whole), text, "a whole number is a float beside one");
}

#[test]
fn a_conversion_to_its_own_lane_is_the_value() {
    let text = with("t = x * x\n    u = f32(t)\n    z = f32(u) + u");
    assert_eq!(printed(&text), printed(&with("t = x * x\n    z = t + t")));
    for second in ["t = f32(t)", "x = f32(t)", "f32 = f32(t)"] {
        refused(&with(&format!("t = x * x\n    {second}\n    z = t")));
    }
}

#[test]
fn a_value_that_is_used_twice_has_a_line() {
    let text = with("out y: float32[i, j]\ny = x * 2 + x");
    assert!(printed(&text).contains("    y = x * 2.0 + x\n"), "a load may be written twice");
    let text = with("out y: float32[i, j]\na = exp(x)\ny = a + a * a");
    assert!(printed(&text).contains("    a = exp(x)\n    y = a + a * a\n"));
}

#[test]
fn lines_end_statements_but_not_inside_parentheses() {
    let text = with("out y: float32[i, j] # places\n\ny = where(\n  x > 0,\n  x,\n  0\n) # done");
    assert!(printed(&text).contains("    y = where(x > 0.0, x, 0.0)\n"));
}

#[test]
fn errors_say_where_and_why() {
    let cases = [
        (
            "out y: float32[i]\ny = x",
            "line 5, column 1: what is stored differs along `j`, and its place in `y` does not: reduce it, or store it with `+=`",
        ),
        (
            "out y: float32[i]\ny = sum<j>(x) + n",
            "line 5, column 15: `add` takes two of one lane, not f32 and i64: cast one, as in `f32(..)`",
        ),
        (
            "out y: int64[i]\ny = random(n, 0, n, 4)",
            "line 5, column 5: a counter has the random words 0 to 3, and no word 4",
        ),
        (
            "out y: int64[i]\ny = random(n, 0, n, -1)",
            "line 5, column 5: a counter has the random words 0 to 3, and no word -1",
        ),
        (
            "out y: int64[i]\ny = random(n, 0, n, n)",
            "line 5, column 5: which random word it is, is a number",
        ),
        ("out y: int64[i]\ny = random(x, 0, n, 1)", "line 5, column 5: `random` does not take f32"),
        (
            "out y: int64[i]\ny = random(n, 1)",
            "line 5, column 5: `random` takes three values and which word, not 2",
        ),
        ("out y: float32[i, j]\ny = sort<i, j>(x)", "line 5, column 5: `sort` goes over one dim"),
        (
            "out y: int64[i]\ny = sort<j>(n)",
            "line 5, column 5: what `sort` goes over is the same everywhere along `j`",
        ),
        ("out y: float32[k]", "line 4, column 16: `k` is no dim of this kernel"),
        ("out y: float31[i]", "line 4, column 8: there is no dtype `float31`"),
        (
            "out y: complex64[i]",
            "line 4, column 5: elements of complex64 cannot be computed with: cast them before",
        ),
        ("out x: float32[i]", "line 4, column 5: `x` is the name of something else already"),
        (
            "out sum: float32[i]",
            "line 4, column 5: `sum` cannot be a name: letters, digits and `_`, not first a digit, not a word of the language",
        ),
        (
            "out y: float32[i]\nx = sum<j>(x)",
            "line 5, column 1: `x` is an input, which is not written: make it `out` or `inout`",
        ),
        (
            "out y: float32[i]\ny = sum<j>(y)",
            "line 5, column 12: `y` is an output, which is not read: make it `inout`",
        ),
        (
            "out y: float32[i]\ny = sum<j>(n)",
            "line 5, column 5: what `sum` goes over is the same everywhere along `j`",
        ),
        ("out y: float32[i]\ny = sum<j>(x", "line 6, column 1: here should be `)`, not `}`"),
        (
            "out y: float32[i]\ny = x[n]",
            "line 5, column 5: `x` has 2 dims and is given 1 coordinates",
        ),
        ("out y: float32[i, j]\ny = x[x, 1]", "line 5, column 5: a coordinate is i64, not f32"),
        (
            "out y: float32[i, j]\ny = where(x, x, x)",
            "line 5, column 5: a condition is bool, not f32",
        ),
        (
            "out y: float32[i, j]\ny = where(x > 0, x)",
            "line 5, column 5: `where` takes three values, not 2",
        ),
        ("out y: float32[i, j]\ny = sqrt(i)", "line 5, column 5: `sqrt` does not take i64"),
        (
            "out y: int64[i, j]\ny = x",
            "line 5, column 1: int64 has no place for f32: cast it, as in `f32(..)`",
        ),
        ("out y: float32[i, j]\ny = x + foo", "line 5, column 9: nothing is called `foo`"),
        (
            "out y: float32[i, j]\ny = 0 < x < 1",
            "line 5, column 11: comparisons do not chain: use `&`",
        ),
        ("out y: float32[i, j]\ny = x $ 1", "line 5, column 7: `$` is no part of the language"),
        ("out y: float32[i, j]\ny = 1.2.3", "line 5, column 5: `1.2.3` is no number"),
        (
            "out y: float32[i, j]\ny = x x",
            "line 5, column 7: here should be the end of the line, not `x`",
        ),
        ("out y: float32[i, j]", "line 5, column 1: nothing is stored to `y`"),
        ("out y: bool[i, j]\ny = 1", "line 5, column 5: a number of lane bool is needed here"),
        (
            "out y: float32[i, j]\ny = scan_sum<i, j>(x)",
            "line 5, column 5: `scan_sum` goes over one dim",
        ),
    ];
    for (statement, expected) in cases {
        assert_eq!(refused(&with(statement)), expected);
    }
}

#[test]
fn what_is_nested_too_deeply_is_refused() {
    let deep = "(".repeat(100_000);
    let why = refused(&with(&format!("out y: float32[i, j]\ny = {deep}x")));
    assert!(why.ends_with("this is nested too deeply: give parts names"), "{why}");
    let signs = "-".repeat(100_000);
    let why = refused(&with(&format!("out y: float32[i, j]\ny = {signs}x")));
    assert!(why.ends_with("this is nested too deeply: give parts names"), "{why}");
}

/// Texts that are as long as they may be, or nearly, and made of one thing.
#[test]
fn long_texts_take_as_long_as_they_are() {
    let started = std::time::Instant::now();
    let calls = refused(&with(&format!("y = {}", "exp(".repeat(4_000_000))));
    assert!(calls.starts_with("line 4, column "), "{calls}");
    let word = refused(&with(&"a".repeat(15 << 20)));
    assert_eq!(word, "line 4, column 1: a word of 15728640 letters; one has 1024 at most");
    let number = refused(&with(&format!("y = {}", "1".repeat(15 << 20))));
    assert!(number.len() < 300, "{} letters", number.len());
    assert!(with(&format!("y = x {}", " ".repeat(15 << 20))).parse::<Kernel>().is_ok());
    assert!(with(&format!("y = x {}", "# no code\n".repeat(1 << 20))).parse::<Kernel>().is_ok());
    refused(&with(&format!("y = {}", "\u{e9}".repeat(7 << 20))));
    let lines: String = (0..300_000).map(|at| format!("value{at} = x + {at}\n")).collect();
    let whole = format!("out y: float32[i, j]\n{lines}\ny = value299999");
    assert!(with(&whole).parse::<Kernel>().is_ok());
    // On a busy machine too; each would be an hour if it went over what was read before.
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

#[test]
fn a_text_of_more_than_16_mebibytes_is_refused_by_its_size() {
    assert_eq!(
        refused(&" ".repeat((16 << 20) + 1)),
        "line 1, column 1: the text has 16777217 bytes, and a kernel's has 16777216 at most: make \
         several kernels of it"
    );
    assert!(refused(&" ".repeat(16 << 20)).contains("here should be `kernel`"));
}
