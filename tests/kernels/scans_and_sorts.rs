//! Operations along a dim, and numbers made from counters: against the interpreter, bit for bit.

use spyre::artifact::Constant;
use spyre::compiler::{Array, Kernel};
use spyre::numerics::{DType, Profile};

use crate::bed::{Bed, Failure, Tolerance, arrays_of};

const SIZES: [usize; 7] = [0, 1, 63, 64, 65, 129, 4000];

/// Checks that a kernel over rows and columns gives exactly what the interpreter does.
fn check(bed: &Bed, text: &str, extents: &[usize]) -> Result<(), Failure> {
    bed.check_kernel(&text.parse()?, extents, &[], Tolerance::None)
}

/// Checks a kernel along the last dim and along the first, over all sizes.
fn check_both_ways(bed: &Bed, body: &str, dtypes: [&str; 2]) -> Result<(), Failure> {
    let [from, to] = dtypes;
    for dim in ["rows", "columns"] {
        let text = format!(
            "kernel k(rows, columns) {{
                in x: {from}[rows, columns]
                out y: {to}[rows, columns]
                y = {}
            }}",
            body.replace("along", dim)
        );
        for size in SIZES {
            check(bed, &text, &[3, size])?;
            check(bed, &text, &[size, 3])?;
        }
    }
    Ok(())
}

#[test]
fn scans_carry_from_tile_to_tile() -> Result<(), Failure> {
    let bed = Bed::open()?;
    for dtype in ["float32", "float64", "int64"] {
        check_both_ways(&bed, "scan_sum<along>(x)", [dtype, dtype])?;
        check_both_ways(&bed, "scan_max<along>(x) - scan_min<along>(x)", [dtype, dtype])?;
    }
    check_both_ways(&bed, "scan_product<along>(x)", ["int64", "int64"])?;
    check_both_ways(&bed, "scan_sum<along>(x)", ["float16", "float16"])?;
    check_both_ways(&bed, "scan_sum<along>(i64(x))", ["bool", "int32"])
}

#[test]
fn a_scan_of_a_scan_the_other_way_waits_in_memory() -> Result<(), Failure> {
    let bed = Bed::open()?;
    check_both_ways(&bed, "scan_sum<rows>(scan_max<columns>(x))", ["int64", "int64"])?;
    check_both_ways(&bed, "scan_sum<rows>(x) + scan_sum<columns>(x)", ["int64", "int64"])?;
    let text = "kernel k(rows, columns) {
        in x: int64[rows, columns]
        out y: int64[rows]
        out z: int64[columns]
        s = scan_sum<rows>(x)
        y = sum<columns>(s)
        z = max<rows>(scan_min<columns>(x - sum<columns>(s)))
    }";
    check(&bed, text, &[70, 300])
}

#[test]
fn logarithms_of_sums_do_not_overflow() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let text = "kernel k(i) {
        in x: float64[i]
        out y: float64[i]
        y = scan_logsumexp<i>(x * 300)
    }";
    bed.check(text, &[5000], &[])
}

#[test]
fn a_scan_over_millions_needs_one_tile_of_memory() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let text = "kernel k(i) {\nin x: float32[i]\nout y: float32[i]\ny = scan_sum<i>(x)\n}";
    let count = 3_000_000;
    let kernel: Kernel = text.parse()?;
    let ones = Array {
        elements: vec![Constant::Float(1.0); count],
        ..Array::zeros(DType::Float32, &[count])
    };
    let results = bed.run(&kernel, &[], &[ones, Array::zeros(DType::Float32, &[count])])?;
    let last = results[1].last_chunk().copied().map(f32::from_le_bytes);
    assert_eq!(last, Some(3_000_000.0));
    Ok(())
}

/// A row with everything that is special.
fn special() -> Array {
    let values = [
        2.0,
        -0.0,
        0.0,
        2.0,
        f64::NEG_INFINITY,
        7.0,
        7.0,
        f64::INFINITY,
        f64::NAN,
        7.0,
        f64::NAN,
        f64::INFINITY,
        -3.0,
    ];
    Array::from_floats(DType::Float32, &[values.len()], &values)
}

#[test]
fn the_places_of_running_maxima_are_those_of_torch() -> Result<(), Failure> {
    let text = "kernel cummax(i) {
        in x: float32[i]
        out y: float32[i]
        out at: int64[i]
        y = scan_max<i>(x)
        at = scan_max<i>(where(x == y_ | is_nan(x), i, 0))
    }";
    let text = text.replace("y = scan_max<i>(x)", "y_ = scan_max<i>(x)\ny = y_");
    let kernel: Kernel = text.parse()?;
    let count = special().shape[0];
    let arrays = vec![
        special(),
        Array::zeros(DType::Float32, &[count]),
        Array::zeros(DType::Int64, &[count]),
    ];
    let results = Bed::open()?.run(&kernel, &[], &arrays)?;
    let places: Vec<i64> =
        results[2].as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
    // What `torch.cummax` gives: the last one of equals, and every NaN.
    assert_eq!(places, [0, 0, 0, 3, 3, 5, 6, 7, 8, 8, 10, 10, 10]);
    Bed::open()?.check_arrays(&kernel, &[count], &[], arrays, Tolerance::None)
}

#[test]
fn places_are_sought_over_tiles_and_lanes() -> Result<(), Failure> {
    let bed = Bed::open()?;
    for dtype in ["float32", "float64", "int64", "int8", "bool", "float16"] {
        for dim in ["rows", "columns"] {
            let other = if dim == "rows" { "columns" } else { "rows" };
            let text = format!(
                "kernel k(rows, columns) {{
                    in x: {dtype}[rows, columns]
                    out smallest: int64[{other}]
                    out largest: int64[{other}]
                    smallest = argmin<{dim}>(x)
                    largest = argmax<{dim}>(x)
                }}"
            );
            for size in SIZES {
                check(&bed, &text, &[3, size])?;
                check(&bed, &text, &[size, 3])?;
            }
        }
    }
    Ok(())
}

#[test]
fn nan_and_zeros_are_sought_and_sorted_as_torch_does() -> Result<(), Failure> {
    let text = "kernel k(i) {
        in x: float32[i]
        out smallest: int64[]
        out largest: int64[]
        out up: int64[i]
        out down: int64[i]
        out sorted: float32[i]
        smallest = argmin<i>(x)
        largest = argmax<i>(x)
        up = order<i>(x)
        down = order_descending<i>(x)
        sorted = sort<i>(x)
    }";
    let kernel: Kernel = text.parse()?;
    let count = special().shape[0];
    let mut arrays = arrays_of(&kernel, &[count]);
    arrays[0] = special();
    let bed = Bed::open()?;
    let results = bed.run(&kernel, &[], &arrays)?;
    let integers = |at: usize| -> Vec<i64> {
        results[at].as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
    };
    // What `torch.sort(stable=True)` gives.
    assert_eq!((integers(1), integers(2)), (vec![8], vec![8]));
    assert_eq!(integers(3), [4, 12, 1, 2, 0, 3, 5, 6, 9, 7, 11, 8, 10]);
    assert_eq!(integers(4), [8, 10, 7, 11, 5, 6, 9, 0, 3, 1, 2, 12, 4]);
    bed.check_arrays(&kernel, &[count], &[], arrays, Tolerance::None)
}

#[test]
fn rows_are_sorted_whole() -> Result<(), Failure> {
    let bed = Bed::open()?;
    for dtype in ["float32", "float64", "int64", "bool", "bfloat16"] {
        check_both_ways(&bed, "sort<along>(x)", [dtype, dtype])?;
        check_both_ways(&bed, "order_descending<along>(x)", [dtype, "int64"])?;
    }
    let text = "kernel median(rows, columns) {
        in x: float32[rows, columns]
        out middle: float32[rows]
        out at: int64[rows]
        out least: float32[columns]
        is_middle = columns == (size(columns) - 1) // 2
        middle = sum<columns>(where(is_middle, sort<columns>(x), 0))
        at = sum<columns>(where(is_middle, order<columns>(x), 0))
        least = min<rows>(sort_descending<columns>(x))
    }";
    for columns in SIZES {
        check(&bed, text, &[7, columns])?;
    }
    Ok(())
}

#[test]
fn both_profiles_scan_seek_and_sort() -> Result<(), Failure> {
    let text = "kernel k(rows, columns) {
        in x: float16[rows, columns]
        in n: int64[columns]
        out largest: float16[rows, columns]
        out sorted: float16[rows, columns]
        out order_: int64[rows, columns]
        out first: int32[rows]
        out counts: int64[columns]
        largest = scan_max<columns>(x)
        sorted = sort_descending<columns>(x)
        order_ = order<columns>(x)
        first = argmin<columns>(x)
        counts = scan_sum<columns>(n) + size(rows)
    }";
    for profile in [Profile::Open, Profile::Card] {
        let bed = Bed::with_profile(profile)?;
        for columns in [1, 63, 64, 65, 129] {
            check(&bed, text, &[5, columns])?;
        }
    }
    Ok(())
}

#[test]
fn random_bits_are_those_of_seed_offset_and_index() -> Result<(), Failure> {
    let text = "kernel k(rows, columns) {
        out bits: int64[rows, columns]
        out uniform: float32[rows, columns]
        scalar seed: i64
        scalar offset: i64
        at = rows * size(columns) + columns
        bits = random(seed, offset, at, 0) * 4294967296 + random(seed, offset, at, 3)
        uniform = f32(random(seed, offset, at, 1) >> 8) * 5.9604644775390625e-8
    }";
    let scalars = [Constant::Int(-0x0123_4567_89ab_cdef), Constant::Int(1 << 40)];
    for profile in [Profile::Open, Profile::Card] {
        let bed = Bed::with_profile(profile)?;
        let text =
            if profile == Profile::Card { text.replace("int64", "int32") } else { text.to_owned() };
        for columns in SIZES {
            bed.check_kernel(&text.parse()?, &[5, columns], &scalars, Tolerance::None)?;
        }
    }
    Ok(())
}

#[test]
fn the_first_of_a_sort_go_to_a_shorter_tensor() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let text = "kernel topk(rows, columns, k) {
        in x: float32[rows, columns]
        out values: float32[rows, k]
        out at: int64[rows, k]
        is_kept = columns < size(k)
        values[rows, columns] = sort_descending<columns>(x) if is_kept
        at[rows, columns] = order_descending<columns>(x) if is_kept
    }";
    for (columns, k) in [(1, 1), (65, 3), (129, 129), (4000, 7)] {
        check(&bed, text, &[5, columns, k])?;
    }
    Ok(())
}

#[test]
fn counts_of_what_came_before_say_where_things_go() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let nonzero = "kernel nonzero(i) {
        in x: float32[i]
        out at: int64[i]
        out count: int64[]
        is_there = x > 0
        before = scan_sum<i>(i64(is_there)) - 1
        at[before] = i if is_there
        count = sum<i>(i64(is_there))
    }";
    let runs = "kernel runs(i) {
        in x: int64[i]
        in from: int64[i]
        out values: int64[i]
        out counts: int64[i]
        out inverse: int64[i]
        y = x // 16
        is_new = i == 0 | y != (x[i - 1] else 0) // 16
        nth = scan_sum<i>(i64(is_new)) - 1
        values[nth] = y
        counts[nth] += 1
        inverse[order<i>(from)] = nth
    }";
    for count in [0, 1, 63, 64, 65, 129, 4000] {
        check(&bed, nonzero, &[count])?;
        check(&bed, runs, &[count])?;
    }
    Ok(())
}
