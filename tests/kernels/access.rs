//! Loads and stores at coordinates other than a tensor's own dims, against the interpreter.

use spyre::artifact::Constant;
use spyre::compiler::Kernel;
use spyre::numerics::Profile;

use crate::bed::{Bed, Failure, arrays_of};

const RAGGED: [usize; 6] = [0, 1, 63, 64, 65, 129];

fn int(value: usize) -> Constant {
    Constant::Int(value as i64)
}

#[test]
fn rows_of_a_table_by_an_index() -> Result<(), Failure> {
    let bed = Bed::open()?;
    for dtype in ["float16", "float32", "float64", "int8", "bool"] {
        let text = format!(
            "kernel embedding(n, v, d) {{
                in ids: int64[n]
                in table: {dtype}[v, d]
                out y: {dtype}[n, d]
                y = table[ids, d]
            }}"
        );
        for columns in RAGGED {
            bed.check_at(&text, &[37, 11, columns], &[], &[("ids", 11)])?;
        }
        bed.check_at(&text, &[0, 11, 5], &[], &[])?;
        bed.check_at(&text, &[0, 0, 5], &[], &[])?;
    }
    Ok(())
}

#[test]
fn an_index_along_each_dim() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let index_select = "kernel index_select(a, b, c, n) {
        in x: float32[a, b, c]
        in ids: int32[n]
        out y: float32[a, b, n]
        y = x[a, b, ids]
    }";
    let middle = "kernel gather_middle(a, b, c, n) {
        in x: bfloat16[a, b, c]
        in ids: int64[a, n, c]
        out y: bfloat16[a, n, c]
        y = x[a, ids, c]
    }";
    let last = "kernel gather_last(a, c, n) {
        in x: float16[a, c]
        in ids: int64[a, n]
        out y: float16[a, n]
        y = x[a, ids] * 2
    }";
    for size in RAGGED {
        bed.check_at(index_select, &[3, 2, 70, size], &[], &[("ids", 70)])?;
        bed.check_at(middle, &[2, 9, size, 5], &[], &[("ids", 9)])?;
        bed.check_at(last, &[5, 66, size], &[], &[("ids", 66)])?;
    }
    Ok(())
}

#[test]
fn values_that_meet_are_combined_in_their_order() -> Result<(), Failure> {
    let bed = Bed::open()?;
    for dtype in ["float16", "bfloat16", "float32", "float64", "int64", "int8"] {
        for mode in ["=", "+=", "*=", "min=", "max="] {
            let rows = format!(
                "kernel rows(n, v, d) {{
                    in ids: int64[n]
                    in x: {dtype}[n, d]
                    inout y: {dtype}[v, d]
                    y[ids, d] {mode} x
                }}"
            );
            let each = format!(
                "kernel each(n, m, v) {{
                    in ids: int64[n, m]
                    in x: {dtype}[n, m]
                    inout y: {dtype}[v]
                    y[ids] {mode} x if x != 1
                }}"
            );
            for size in [1, 64, 65] {
                bed.check_at(&rows, &[9, 4, size], &[], &[("ids", 4)])?;
                bed.check_at(&each, &[21, 3, size], &[], &[("ids", size)])?;
            }
            bed.check_at(&each, &[3, 300, 7], &[], &[("ids", 7)])?;
        }
    }
    Ok(())
}

#[test]
fn several_indices_put_and_accumulate() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let text = "kernel index_put(n, a, b, c) {
        in rows: int64[n]
        in columns: int64[n]
        in x: float32[n, b]
        inout y: float32[a, b, c]
        out count: int64[a, c]
        y[rows, b, columns] += x
        count = 0
        count[rows, columns] += 1
    }";
    for size in RAGGED {
        let bounds = [("rows", 5), ("columns", 7)];
        bed.check_at(text, &[40, 5, size, 7], &[], &bounds)?;
        bed.check_at(text, &[size, 5, 3, 7], &[], &bounds)?;
    }
    Ok(())
}

#[test]
fn sums_that_are_not_walked_along_a_tensor() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let text = "kernel fold_into(i, j) {
        in x: float32[i, j]
        inout total: float32[]
        inout rows: float16[i]
        total += x
        rows += x * 0.5
        rows max= 1
    }";
    for size in RAGGED {
        bed.check(text, &[5, size], &[])?;
    }
    Ok(())
}

#[test]
fn convolutions_with_padding_stride_and_dilation() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let conv1d = "kernel conv1d(n, co, o, ci, k, w) {
        in x: float32[n, ci, w]
        in weight: float32[co, ci, k]
        in bias: float32[co]
        out y: float32[n, co, o]
        scalar stride: i64
        scalar padding: i64
        scalar dilation: i64
        y = sum<ci, k>((x[n, ci, o * stride + k * dilation - padding] else 0) * weight) + bias
    }";
    for (w, k, stride, padding, dilation) in
        [(9, 3, 1, 1, 1), (65, 3, 2, 2, 2), (64, 1, 3, 0, 1), (7, 5, 1, 4, 2)]
    {
        let o = (w + 2 * padding - dilation * (k - 1) - 1) / stride + 1;
        let scalars = [int(stride), int(padding), int(dilation)];
        bed.check(conv1d, &[2, 3, o, 4, k, w], &scalars)?;
    }
    Ok(())
}

#[test]
fn pooling_with_padding() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let text = "kernel max_pool(c, oh, ow, kh, kw, h, w) {
        in x: float16[c, h, w]
        in window: float16[kh, kw]
        out y: float16[c, oh, ow]
        out mean: float16[c, oh, ow]
        taken = x[c, oh * 2 + kh - 1, ow * 2 + kw - 1] else -inf
        y = max<kh, kw>(taken + window * 0)
        mean = sum<kh, kw>((x[c, oh * 2 + kh - 1, ow * 2 + kw - 1] else 0) * (window * 0 + 1)) / 9
    }";
    for w in [3_usize, 64, 65] {
        bed.check(text, &[2, 4, w.div_ceil(2), 3, 3, 7, w], &[])?;
    }
    Ok(())
}

#[test]
fn flips_rolls_and_pads() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let text = "kernel moves(i, j, k) {
        in x: float32[i, j]
        out flipped: float32[i, j]
        out rolled: float32[i, j]
        out constant: float32[i, k]
        out reflected: float32[i, k]
        out repeated: float32[i, k]
        out below: float32[i, j]
        scalar rows: i64
        scalar columns: i64
        scalar left: i64
        flipped = x[rows - 1 - i, columns - 1 - j]
        rolled = x[i, (j - 3) % columns]
        constant = x[i, k - left] else 7
        reflected = x[i, columns - 1 - abs(abs(k - left) - (columns - 1))]
        repeated = x[i, min(max(k - left, 0), columns - 1)]
        below = where(j <= i + 1, x, 0)
    }";
    for columns in [5, 63, 64, 65, 129] {
        let scalars = [int(6), int(columns), int(3)];
        bed.check(text, &[6, columns, columns + 7 - 1], &scalars)?;
    }
    Ok(())
}

#[test]
fn windows_are_unfolded_and_folded() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let text = "kernel windows(c, o, k, w) {
        in x: float32[c, w]
        in y: float32[c, o, k]
        out unfolded: float32[c, o, k]
        inout folded: float32[c, w]
        unfolded = x[c, o * 2 + k]
        folded[c, o * 2 + k] += y
    }";
    for o in [1, 33, 64] {
        bed.check(text, &[3, o, 4, 2 * (o - 1) + 4], &[])?;
    }
    Ok(())
}

#[test]
fn diagonals_and_dims_that_a_tensor_has_twice() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let diagonal = "kernel diagonal(n, m, k) {
        in x: float32[n, m]
        out y: float32[k]
        y = x[k, k]
    }";
    let walked = "kernel walked(n) {
        in x: float32[n, n]
        inout y: float32[n, n]
        y = x * 2
    }";
    let turned = "kernel turned(n, i) {
        in x: float32[n, n]
        in at: int64[i]
        out y: float32[i, n]
        inout z: float32[n, n]
        change = x[n, at] - x[at, n]
        y = change
        z[at, n] = x[at, at] + change
    }";
    for size in [1, 5, 64, 65] {
        bed.check(diagonal, &[size + 2, size, size], &[])?;
        bed.check(walked, &[size], &[])?;
        bed.check_at(turned, &[size, 7], &[], &[("at", size)])?;
    }
    Ok(())
}

#[test]
fn what_is_loaded_is_what_was_there_before_any_store() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let text = "kernel in_place(i, j, n) {
        in at: int64[i]
        in x: float32[i, j]
        inout y: float32[i, j]
        inout z: float32[n]
        out sums: float32[i]
        scalar rows: i64
        y = y[rows - 1 - i, j] + x
        y[at, j] += y * 2
        z[at] = z[at] + sum<j>(y)
        sums = sum<j>(x * y)
    }";
    for columns in [1, 64, 300] {
        bed.check_at(text, &[40, columns, 40], &[int(40)], &[("at", 40)])?;
    }
    let again = "kernel again(i, j) {
        in x: float32[i, j]
        inout y: float32[i]
        out z: float32[i, j]
        y = sum<j>(x)
        z = x + y
    }";
    bed.check(again, &[5, 65], &[])
}

#[test]
fn outputs_are_stored_where_a_condition_holds() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let text = "kernel some(i, j) {
        in x: float32[i, j]
        in keep: bool[i]
        out y: float32[i, j]
        out z: int64[i]
        y = x if x > 0
        z = 7 if keep
    }";
    for columns in RAGGED {
        bed.check(text, &[5, columns], &[])?;
    }
    Ok(())
}

#[test]
fn convolutions_over_planes_and_volumes_with_groups() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let conv2d = "kernel conv2d(n, co, oh, ow, ci, kh, kw, h, w) {
        in x: float32[n, ci, h, w]
        in weight: float32[co, ci, kh, kw]
        out y: float32[n, co, oh, ow]
        y = sum<ci, kh, kw>((x[n, ci, oh * 2 + kh - 1, ow + kw * 2 - 2] else 0) * weight)
    }";
    bed.check(conv2d, &[2, 3, 4, 9, 2, 3, 3, 7, 9], &[])?;
    bed.check(conv2d, &[1, 2, 2, 65, 3, 1, 3, 2, 65], &[])?;
    let conv3d = "kernel conv3d(n, g, co, od, oh, ow, ci, kd, kh, kw, d, h, w) {
        in x: float32[n, g, ci, d, h, w]
        in weight: float32[g, co, ci, kd, kh, kw]
        in bias: float32[g, co]
        out y: float32[n, g, co, od, oh, ow]
        taken = x[n, g, ci, od + kd - 1, oh + kh - 1, ow + kw - 1] else 0
        y = sum<ci, kd, kh, kw>(taken * weight) + bias
    }";
    bed.check(conv3d, &[1, 2, 2, 3, 4, 5, 2, 3, 3, 3, 3, 4, 5], &[])
}

#[test]
fn both_profiles_gather_and_scatter() -> Result<(), Failure> {
    let text = "kernel both(n, v, d) {
        in ids: int64[n]
        in table: float16[v, d]
        in x: float16[n, d]
        out y: float16[n, d]
        inout sums: float32[v, d]
        out shifted: float16[n, d]
        y = table[ids, d] + x
        sums[ids, d] += x
        shifted = x[n, d - 1] else 2
    }";
    for profile in [Profile::Open, Profile::Card] {
        let bed = Bed::with_profile(profile)?;
        for columns in RAGGED {
            bed.check_at(text, &[17, 5, columns], &[], &[("ids", 5)])?;
        }
    }
    Ok(())
}

#[test]
fn an_index_out_of_range_is_reported_and_the_stream_goes_on() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let load: Kernel = "kernel embedding(n, v, d) {
        in ids: int64[n]
        in table: float32[v, d]
        out y: float32[n, d]
        y = table[ids, d]
    }"
    .parse()?;
    let store: Kernel = "kernel spread(n, v, d) {
        in ids: int64[n]
        in x: float32[d, n]
        inout y: float32[d, v]
        y[d, ids] = x
    }"
    .parse()?;
    for (kernel, dimension) in [(&load, 0), (&store, 1)] {
        for (index, is_inside) in [(4, true), (7, false), (-1, false), (i64::MIN, false), (0, true)]
        {
            let mut arrays = arrays_of(kernel, &[3, 5, 65]);
            arrays[0].elements = [0, index, 1].map(Constant::Int).to_vec();
            let outcome = bed.run(kernel, &[], &arrays);
            let expected =
                format!("index {index} is out of range for dimension {dimension} with size 5");
            match outcome {
                Ok(_) => assert!(is_inside, "{index}"),
                Err(error) => assert!(error.to_string().contains(&expected), "{error}"),
            }
        }
    }
    Ok(())
}
