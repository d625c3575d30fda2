//! Matrix products in every form: what they are of, what is summed over, and what comes after.

use spyre::artifact::{Code, Constant, Instruction, Program};
use spyre::compiler::{CompileOptions, Kernel};
use spyre::numerics::Profile;

use crate::bed::{Bed, Failure, Seen, Tolerance, arrays_of};

const RAGGED: [usize; 5] = [1, 63, 64, 65, 129];

const ROUNDS: usize = 300;

/// The interpreter is slow.
const MOST_PLACES: usize = 30_000;

/// The program that a kernel becomes.
fn program(text: &str) -> Result<Program, Failure> {
    let plan = text.parse::<Kernel>()?.compile(&CompileOptions::default())?;
    match plan.images[plan.steps[0].compute.0 as usize].code() {
        Code::Compute(program) => Ok(program.clone()),
        Code::Correction(_) => Err("a correction".into()),
    }
}

fn count(text: &str, is_wanted: impl Fn(&Instruction) -> bool) -> Result<usize, Failure> {
    Ok(program(text)?.instructions().iter().filter(|instruction| is_wanted(instruction)).count())
}

fn is_product(instruction: &Instruction) -> bool {
    matches!(instruction, Instruction::Dot { .. } | Instruction::Multiply { .. })
}

const BATCHED: &str = "kernel bmm(b, m, n, k) {
    in x: float32[b, m, k]
    in z: float32[b, k, n]
    in bias: float32[n]
    out y: float32[b, m, n]
    y = sum<k>(x * z) + bias
}";

const TWO_SUMS: &str = "kernel two_sums(m, n, h, d) {
    in x: float32[m, h, d]
    in w: float32[h, d, n]
    out y: float32[m, n]
    y = sum<h, d>(x * w)
}";

const WEIGHT_ONLY: &str = "kernel weight_only(m, n, k) {
    in x: float32[m, k]
    in w: int8[n, k]
    in scale: float32[n]
    out y: float32[m, n]
    y = sum<k>(x * (f32(w) * scale))
}";

const SCALED_AFTER: &str = "kernel scaled_after(m, n, k) {
    in x: bfloat16[m, k]
    in w: int8[n, k]
    in scale: float32[n]
    in bias: bfloat16[n]
    out y: bfloat16[m, n]
    y = sum<k>(x * f32(w)) * scale + bias
}";

const EIGHT_BITS: &str = "kernel eight_bits(m, n, k) {
    in x: float8_e4m3fn[m, k]
    in w: float8_e5m2[k, n]
    in scale: float32[m]
    out y: float16[m, n]
    y = sum<k>(x * w) * scale
}";

const EXACT: &str = "kernel exact(m, n, k) {
    in x: uint8[m, k]
    in w: int8[k, n]
    out y: int32[m, n]
    y = i64(sum<k>(f64(x) * f64(w)))
}";

const WHOLE_NUMBERS: &str = "kernel whole_numbers(m, n, k) {
    in x: int32[m, k]
    in w: int64[k, n]
    out y: int64[m, n]
    y = sum<k>(x * w)
}";

const DOUBLES: &str = "kernel doubles(m, n, k) {
    in x: float32[m, k]
    in w: float64[k, n]
    out y: float64[m, n]
    y = sum<k>(f64(x) * w)
}";

const MASKED: &str = "kernel masked(m, n, k) {
    in x: float16[m, k]
    in keep: bool[m, k]
    in w: bfloat16[k, n]
    in residual: float32[m, n]
    out y: float32[m, n]
    y = max(sum<k>(where(keep, x, 0) * w), 0) + residual
}";

const TURNED: &str = "kernel turned(m, n, k) {
    in w: float32[n, k]
    in x: float32[k, m]
    out y: float32[m, n]
    y = sum<k>(w * x)
}";

/// Whose sides the card converts while it multiplies.
const CONVERTED: [&str; 3] = [SCALED_AFTER, EIGHT_BITS, EXACT];

#[test]
fn every_form_of_product_is_one() -> Result<(), Failure> {
    let whole = [BATCHED, TWO_SUMS, WEIGHT_ONLY, WHOLE_NUMBERS, DOUBLES, MASKED, TURNED];
    for text in whole.into_iter().chain(CONVERTED) {
        assert_eq!(count(text, is_product)?, 1, "{}", program(text)?);
        let reduces = count(text, |one| matches!(one, Instruction::Reduce { .. }))?;
        assert_eq!(reduces, 0, "{}", program(text)?);
    }
    Ok(())
}

#[test]
fn operands_are_converted_while_they_are_multiplied() -> Result<(), Failure> {
    for text in CONVERTED {
        assert_eq!(count(text, |one| matches!(one, Instruction::Dot { .. }))?, 1, "{text}");
    }
    let mixed = "kernel mixed(m, n, k) {
        in x: float32[m, k]
        in w: int32[k, n]
        out y: float32[m, n]
        y = sum<k>(x * f32(w))
    }";
    let is_dot = |one: &Instruction| matches!(one, Instruction::Dot { .. });
    assert_eq!(count(mixed, is_dot)?, 0, "f32 does not hold every int32: it is rounded first");
    Bed::open()?.check(mixed, &[3, 5, 70], &[])
}

#[test]
fn products_of_ragged_sizes_are_those_of_the_interpreter() -> Result<(), Failure> {
    let bed = Bed::open()?;
    for size in RAGGED {
        bed.check(BATCHED, &[3, size, 20, 33], &[])?;
        bed.check(BATCHED, &[2, 9, size, 65], &[])?;
        bed.check(TWO_SUMS, &[5, size, 3, 66], &[])?;
        bed.check(TWO_SUMS, &[2, 33, size, 17], &[])?;
        let whole = [WEIGHT_ONLY, WHOLE_NUMBERS, DOUBLES, MASKED, TURNED];
        for text in whole.into_iter().chain(CONVERTED) {
            bed.check(text, &[size, 31, 40], &[])?;
            bed.check(text, &[3, size, 70], &[])?;
            bed.check(text, &[2, 5, size], &[])?;
        }
    }
    Ok(())
}

#[test]
fn products_of_several_tiles_on_every_side() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let whole = [WEIGHT_ONLY, WHOLE_NUMBERS, DOUBLES, MASKED, TURNED];
    for text in whole.into_iter().chain(CONVERTED) {
        bed.check(text, &[130, 258, 5], &[])?;
        bed.check(text, &[1, 2, 1030], &[])?;
    }
    Ok(())
}

#[test]
fn a_sum_over_nothing_is_zero() -> Result<(), Failure> {
    let bed = Bed::open()?;
    bed.check(BATCHED, &[2, 3, 4, 0], &[])?;
    bed.check(TWO_SUMS, &[3, 4, 0, 2], &[])?;
    bed.check(WHOLE_NUMBERS, &[3, 4, 0], &[])?;
    bed.check(BATCHED, &[2, 0, 4, 3], &[])
}

/// The operand that stores the product has a dim that the product does not have.
#[test]
fn a_product_is_computed_once_for_what_it_is_repeated_along() -> Result<(), Failure> {
    let text = "kernel outer(m, n, z, k) {
        in x: float32[m, k]
        in w: float32[k, n]
        in c: float32[z]
        out y: float32[m, n, z]
        y = sum<k>(x * w) * c
    }";
    let lines = program(text)?.to_string();
    let product = lines.find("dot").ok_or("a product")?;
    let loop_over_z = lines.find("begin d2").ok_or("a loop over z")?;
    assert!(product < loop_over_z, "{lines}");
    Bed::open()?.check(text, &[5, 66, 7, 20], &[])
}

/// Attention with scores that a mask may have gone into.
fn attention(operand: &str, scores: &str) -> String {
    format!(
        "kernel attention(b, h, q, t, d, e) {{
            in query: float32[b, h, q, d]
            in key: float32[b, h, t, d]
            in value: float32[b, h, t, e]
            {operand}
            out y: float32[b, h, q, e]
            s = {scores}
            p = exp(s - max<t>(s))
            y = sum<t>(p * value) / sum<t>(p)
        }}"
    )
}

fn attentions() -> [String; 4] {
    let scores = "sum<d>(query * key) * 0.03";
    [
        attention("", scores),
        attention("", &format!("where(t <= q, {scores}, -inf)")),
        attention("in mask: float32[q, t]", &format!("{scores} + mask")),
        attention("in keep: bool[b, q, t]", &format!("where(keep, {scores}, -10000.0)")),
    ]
}

#[test]
fn attention_keeps_no_scores_in_memory() -> Result<(), Failure> {
    for text in attentions() {
        let kernel: Kernel = text.parse()?;
        let plan = kernel.compile(&CompileOptions::default())?;
        assert!(plan.intermediates.is_empty(), "{:?}", plan.intermediates);
        // Scores, and what they weigh.
        assert_eq!(count(&text, is_product)?, 2, "{}", program(&text)?);
    }
    Ok(())
}

/// Attention, and the logarithms of what its rows are divided by.
const LOGARITHMS: &str = "kernel logarithms(b, q, t, d, e) {
    in query: float32[b, q, d]
    in key: float32[b, t, d]
    in value: float32[b, t, e]
    out y: float32[b, q, e]
    out total: float32[b, q]
    s = sum<d>(query * key) * 0.03
    m = max<t>(s)
    p = exp(s - m)
    l = sum<t>(p)
    y = sum<t>(p * value) / l
    total = m + log(l)
}";

#[test]
fn results_of_fewer_dims_share_the_products_of_the_widest() -> Result<(), Failure> {
    let lines = program(LOGARITHMS)?.to_string();
    let unguarded = lines.split("unless any").next().ok_or("a program")?;
    let products =
        unguarded.lines().filter(|line| line.contains("dot") || line.contains("multiply"));
    assert_eq!(products.count(), 2, "scores, and what they weigh: {lines}");
    Ok(())
}

#[test]
fn results_of_fewer_dims_are_there_even_if_the_widest_is_empty() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let kernel: Kernel = LOGARITHMS.parse()?;
    for extents in [[2, 5, 7, 8, 6], [1, 66, 130, 16, 300], [2, 33, 65, 8, 0], [1, 3, 4, 0, 2]] {
        bed.check_kernel(&kernel, &extents, &[], Tolerance::OfSums)?;
    }
    Ok(())
}

#[test]
fn a_tile_of_keys_of_which_a_mask_leaves_nothing_is_passed_over() -> Result<(), Failure> {
    let [_, causal, _, _] = attentions();
    let lines = program(&causal)?.to_string();
    let skip = lines.find("unless any").ok_or("a skip")?;
    assert!(lines.find("dot").is_some_and(|product| skip < product), "{lines}");
    Ok(())
}

#[test]
fn rows_without_a_key_are_what_the_interpreter_says() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let scores = "sum<d>(query * key) * 0.03";
    // All keys are masked: for all rows, for the first of them, and but for the last tile.
    for condition in ["t < 0", "t < q - 40", "t > 290"] {
        let plain = attention("", &format!("where({condition}, {scores}, -inf)"));
        let guarded = plain.replace(
            "p = exp(s - max<t>(s))",
            "m = max<t>(s)
            p = exp(s - where(m == -inf, 0, m))",
        );
        for text in [plain, guarded] {
            let kernel: Kernel = text.parse()?;
            bed.check_kernel(&kernel, &[1, 2, 66, 300, 16, 33], &[], Tolerance::OfSums)?;
        }
    }
    bed.check(&attention("", scores), &[1, 1, 3, 0, 4, 5], &[])
}

#[test]
fn attention_is_that_of_the_interpreter() -> Result<(), Failure> {
    let bed = Bed::open()?;
    for text in attentions() {
        let kernel: Kernel = text.parse()?;
        for extents in [[1, 2, 5, 7, 8, 6], [2, 1, 66, 65, 16, 33], [1, 1, 1, 300, 64, 64]] {
            bed.check_kernel(&kernel, &extents, &[], Tolerance::OfSums)?;
        }
    }
    Ok(())
}

/// The gradients of attention, from the logarithm of the sum that the forward kernel saved and from
/// what the gradient and the result have in common. Tensors that are met along two dims come twice.
#[test]
fn the_gradients_of_attention_are_products_of_probabilities_that_are_computed_again()
-> Result<(), Failure> {
    let kernel: Kernel = "kernel attention_backward(h, q, t, d, e, c) {
        in query: float32[h, q, d]
        in key: float32[h, t, d]
        in value: float32[h, t, e]
        in grad: float32[h, q, e]
        in query_again: float32[h, q, c]
        in key_again: float32[h, t, c]
        in grad_again: float32[h, q, c]
        in logsumexp: float32[h, q]
        in delta: float32[h, q]
        out grad_query: float32[h, q, c]
        out grad_key: float32[h, t, c]
        out grad_value: float32[h, t, c]
        p = exp(sum<d>(query * key) * 0.02 - logsumexp)
        ds = p * (sum<e>(grad * value) - delta) * 0.02
        grad_query = sum<t>(ds * key_again)
        grad_key = sum<q>(ds * query_again)
        grad_value = sum<q>(p * grad_again)
    }"
    .parse()?;
    let plan = kernel.compile(&CompileOptions::default())?;
    assert!(plan.intermediates.is_empty(), "{:?}", plan.intermediates);
    let bed = Bed::open()?;
    bed.check_kernel(&kernel, &[2, 5, 7, 8, 8, 8], &[], Tolerance::OfSums)?;
    bed.check_kernel(&kernel, &[1, 33, 70, 16, 16, 16], &[], Tolerance::OfSums)
}

#[test]
fn a_scalar_scales_a_product() -> Result<(), Failure> {
    let text = "kernel addmm(m, n, k) {
        in input: float32[m, n]
        in x: float32[m, k]
        in w: float32[k, n]
        out y: float32[m, n]
        scalar alpha: f32
        scalar beta: f32
        y = input * beta + sum<k>(x * w) * alpha
    }";
    Bed::open()?.check(text, &[9, 65, 40], &[Constant::Float(0.5), Constant::Float(2.0)])
}

#[test]
fn products_are_the_same_for_any_number_of_threads() -> Result<(), Failure> {
    let attention = attention("", "sum<d>(query * key) * 0.03");
    let cases: [(&str, &[usize]); 6] = [
        (TURNED, &[300, 520, 300]),
        (WEIGHT_ONLY, &[3, 700, 300]),
        (SCALED_AFTER, &[1, 700, 300]),
        (EIGHT_BITS, &[130, 300, 300]),
        (EXACT, &[65, 300, 600]),
        (&attention, &[1, 3, 130, 300, 40, 33]),
    ];
    for (text, extents) in cases {
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

/// Choices that look random and are the same on every run.
struct Dice(u64);

impl Dice {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from[(self.0 >> 33) as usize % from.len()]
    }
}

/// A product of something, in some layouts, and something after it: exact in every order.
fn random_product(dice: &mut Dice) -> String {
    let batch = dice.pick(&["", "b, "]);
    let x = dice.pick(&["m, k", "k, m"]);
    let w = dice.pick(&["k, n", "n, k"]);
    let dtypes = ["float32", "float16", "bfloat16", "float32"];
    let of_x = dice.pick(&dtypes);
    let of_w = dice.pick(&dtypes);
    let left = dice.pick(&["x", "where(x > 0, x, 0)", "(x + f32(k % 2))", "x"]);
    let right = dice.pick(&["w", "(w * 0.5)", "f32(i)", "w"]);
    let after =
        dice.pick(&["t", "max(t, 0) + bias", "t * 0.5 - residual", "where(m < n, t, bias)"]);
    let shared = dice.pick(&["", batch]);
    format!(
        "kernel matmul(b, m, n, k) {{
            in x: {of_x}[{batch}{x}]
            in w: {of_w}[{shared}{w}]
            in i: int8[{shared}{w}]
            in bias: float32[n]
            in residual: float32[m, n]
            out y: float32[b, m, n]
            t = sum<k>({left} * {right})
            y = {after}
        }}"
    )
}

#[test]
fn random_products_of_any_views_under_both_profiles() -> Result<(), Failure> {
    let beds = [Bed::open()?, Bed::with_profile(Profile::Card)?];
    let mut dice = Dice(1);
    for round in 0..ROUNDS {
        let text = random_product(&mut dice);
        let kernel: Kernel = text.parse().map_err(|error| format!("{error}\n{text}"))?;
        let sizes = [0, 1, 2, 5, 33, 64, 65, 129];
        let mut extents = [dice.pick(&[1, 2, 3]), dice.pick(&sizes), dice.pick(&sizes), 0];
        extents[3] = dice.pick(&sizes);
        while extents.iter().product::<usize>() > MOST_PLACES {
            extents[dice.pick(&[1, 2, 3])] = 5;
        }
        let ways = [Seen::Plain, Seen::Restickified, Seen::Shifted, Seen::Repeated];
        let mut views: Vec<Seen> = kernel.operands().iter().map(|_| dice.pick(&ways)).collect();
        // A store to one place for many would leave the last one's value.
        views[5] = dice.pick(&ways[..3]);
        beds[round % 2].check_views(&kernel, &extents, &[], &views)?;
    }
    Ok(())
}

#[test]
fn heads_that_share_keys_and_values() -> Result<(), Failure> {
    let text = "kernel grouped(b, h, q, t, d, e, g) {
        in query: float32[b, h, q, d]
        in key: float32[b, g, t, d]
        in value: float32[b, g, t, e]
        out y: float32[b, h, q, e]
        s = sum<d>(query * key[b, h // 2, t, d]) * 0.03
        p = exp(s - max<t>(s))
        y = sum<t>(p * value[b, h // 2, t, e]) / sum<t>(p)
    }";
    assert_eq!(count(text, is_product)?, 2, "{}", program(text)?);
    let extents = [2, 4, 33, 40, 16, 8, 2];
    Bed::open()?.check_kernel(&text.parse()?, &extents, &[], Tolerance::OfSums)
}

#[test]
fn convolutions_are_products_of_patches() -> Result<(), Failure> {
    let text = "kernel convolution(co, oh, ow, ci, kh, kw, ih, iw) {
        in x: float32[ci, ih, iw]
        in w: float32[co, ci, kh, kw]
        in bias: float32[co]
        out y: float32[co, oh, ow]
        y = sum<ci, kh, kw>((x[ci, oh * 2 + kh - 1, ow * 2 + kw - 1] else 0) * w) + bias
    }";
    assert_eq!(count(text, is_product)?, 1, "{}", program(text)?);
    Bed::open()?.check(text, &[5, 6, 7, 3, 3, 3, 12, 13], &[])
}
