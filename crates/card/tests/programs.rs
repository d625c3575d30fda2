//! Programs that lie in device memory, run by the card.

#[path = "programs/bed.rs"]
mod bed;
#[path = "programs/functions.rs"]
mod functions;
#[path = "programs/fuzz.rs"]
mod fuzz;
#[path = "programs/handles.rs"]
mod handles;
#[path = "programs/images.rs"]
mod images;
#[path = "programs/large_tensors.rs"]
mod large_tensors;
#[path = "programs/modelled_time.rs"]
mod modelled_time;
#[path = "programs/products.rs"]
mod products;
#[path = "programs/refusals.rs"]
mod refusals;
#[path = "programs/scans_and_sorts.rs"]
mod scans_and_sorts;
#[path = "programs/threads.rs"]
mod threads;
#[path = "programs/values.rs"]
mod values;

use bed::{Bed, Tensor, entry, fill_table, rounded};
use spyre_artifact::{
    Access, CompareOp, CorrectionImage, CorrectionProgram, EntryImage, Lane, Patch, Program,
    ProgramBuilder, ReduceOp, Register, UnaryOp,
};
use spyre_card::handle_words;
use spyre_hal::DeviceRange;
use spyre_numerics::DataFormat::{self, IeeeFp16, IeeeFp32, IeeeInt64, Sen169Fp16};

/// c = a + b, in tiles that fit no size.
fn addition(format: DataFormat) -> Program {
    let mut code = ProgramBuilder::new();
    let i = code.dim();
    let j = code.dim();
    let [a, b] = [(); 2].map(|()| code.operand(format, Access::Read, [i, j]));
    let c = code.operand(format, Access::Write, [i, j]);
    code.each_parallel(i, 3, |code| {
        code.each_parallel(j, 100, |code| {
            let left = code.load(a);
            let right = code.load(b);
            let sum = code.add(left, right);
            code.store(c, sum);
        });
    });
    code.build().expect("it follows the rules")
}

fn number(element: usize) -> f32 {
    (element % 97) as f32 * 0.37 - 11.0
}

/// Adds two views into a third, and checks every byte of the third's storage.
fn check_addition(bed: &mut Bed, [a, b, c]: [Tensor; 3], [rows, columns]: [usize; 2]) {
    let format = c.layout.device_dtype();
    let program = addition(format);
    let code = bed.put_code(&program);
    let element = |tensor: &Tensor, i: usize, j: usize| {
        (tensor.offset + i as i64 * tensor.strides[0] + j as i64 * tensor.strides[1]) as usize
    };
    let mut expected = bed.surroundings(&c);
    for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
        let value = bed.element(&a, element(&a, i, j)) + bed.element(&b, element(&b, i, j));
        let at = 128 + c.layout.device_byte(element(&c, i, j)).expect("it has a place");
        let bytes = bed::encode(value, format);
        expected[at..at + bytes.len()].copy_from_slice(&bytes);
    }

    let extents = [rows as u64, columns as u64];
    let instance = entry(code, &program, &[a, b, c.clone()], &extents, &[]);
    let instance = bed.put_program(&instance.encode());
    assert_eq!(bed.run(instance), Ok(()));

    assert!(bed.surroundings(&c) == expected, "{rows} x {columns} of {format}");
}

#[test]
fn sums_of_every_size_and_format_are_right_and_touch_nothing_else() {
    for format in [IeeeFp32, IeeeFp16, Sen169Fp16] {
        for columns in [1, 63, 64, 65, 129] {
            for rows in [1, 2, 7] {
                let mut bed = Bed::new();
                let [a, b, c] = [1, 5, 9]
                    .map(|seed| bed.tensor(&[rows, columns], format, |at| number(at * seed)));
                check_addition(&mut bed, [a, b, c], [rows, columns]);
            }
        }
    }
}

#[test]
fn views_are_transposed_sliced_and_expanded() {
    for format in [IeeeFp32, IeeeFp16, Sen169Fp16] {
        for (rows, columns) in [(1, 1), (5, 63), (65, 129), (64, 64)] {
            let mut bed = Bed::new();
            let wide = columns as i64 + 5;
            let a = bed.tensor(&[columns, rows], format, number).seen(0, &[1, rows as i64]);
            let b = bed.tensor(&[columns], format, number).seen(0, &[0, 1]);
            let c = bed.tensor(&[rows + 1, wide as usize], format, number);
            let c = c.seen(3 + wide, &[wide, 1]);
            let c = if rows == 1 { c } else { c.seen(3, &[wide, 1]) };
            check_addition(&mut bed, [a, b, c], [rows, columns]);
        }
    }
}

#[test]
fn views_run_backwards_and_step_over_elements() {
    let mut bed = Bed::new();
    let a = bed.tensor(&[4, 70], IeeeFp16, number).seen(4 * 70 - 1, &[-70, -1]);
    let b = bed.tensor(&[8, 140], IeeeFp16, number).seen(0, &[280, 2]);
    let c = bed.tensor(&[70, 8], IeeeFp16, number).seen(1, &[2, 8]);
    check_addition(&mut bed, [a, b, c], [4, 70]);
}

#[test]
fn nothing_is_added_where_there_is_nothing() {
    for extents in [[0, 5], [5, 0], [0, 0]] {
        let mut bed = Bed::new();
        let c = bed.tensor(&[5, 5], IeeeFp32, number);
        check_addition(&mut bed, [c.clone(), c.clone(), c], extents);
    }
}

#[test]
fn rows_are_summed_and_their_largest_is_found() {
    let mut code = ProgramBuilder::new();
    let row = code.dim();
    let column = code.dim();
    let x = code.operand(IeeeFp16, Access::Read, [row, column]);
    let [sums, most] = [(); 2].map(|()| code.operand(IeeeFp32, Access::Write, [row]));
    code.each_parallel(row, 4, |code| {
        let sum = code.constant(Lane::F32, [row], 0.0);
        let largest = code.constant(Lane::F32, [row], f64::NEG_INFINITY);
        code.each(column, 50, |code| {
            let tile = code.load(x);
            code.reduce(ReduceOp::Sum, sum, tile);
            code.reduce(ReduceOp::Max, largest, tile);
        });
        code.store(sums, sum);
        code.store(most, largest);
    });
    let program = code.build().expect("it follows the rules");
    let mut bed = Bed::new();
    let code = bed.put_code(&program);
    let whole = |at: usize| (at % 41) as f32 - 20.0;
    let x = bed.tensor(&[9, 129], IeeeFp16, whole);
    let [sums, most] = [(); 2].map(|()| bed.tensor(&[9], IeeeFp32, |_| f32::NAN));
    let tensors = [x, sums.clone(), most.clone()];
    // What has a span of one dim has a stride along that only.
    let instance = entry(code, &program, &tensors, &[9, 129], &[]);
    let instance = bed.put_program(&instance.encode());
    assert_eq!(bed.run(instance), Ok(()));

    for row in 0..9 {
        let values = (0..129).map(|column| whole(row * 129 + column));
        assert_eq!(bed.element(&sums, row), values.clone().sum::<f32>());
        assert_eq!(bed.element(&most, row), values.fold(f32::MIN, f32::max));
    }
}

#[test]
fn columns_are_summed_and_one_nan_wins() {
    let mut code = ProgramBuilder::new();
    let row = code.dim();
    let column = code.dim();
    let x = code.operand(IeeeFp32, Access::Read, [row, column]);
    let y = code.operand(IeeeFp32, Access::Write, [column]);
    code.each_parallel(column, 0, |code| {
        let largest = code.constant(Lane::F32, [column], f64::NEG_INFINITY);
        code.each(row, 2, |code| {
            let tile = code.load(x);
            code.reduce(ReduceOp::Max, largest, tile);
        });
        code.store(y, largest);
    });
    let program = code.build().expect("it follows the rules");
    let mut bed = Bed::new();
    let code = bed.put_code(&program);
    let value = |at: usize| if at == 70 + 3 { f32::NAN } else { number(at) };
    let x = bed.tensor(&[5, 70], IeeeFp32, value);
    let y = bed.tensor(&[70], IeeeFp32, |_| 0.0).seen(0, &[0, 1]);
    let instance = bed.put_program(&entry(code, &program, &[x, y.clone()], &[5, 70], &[]).encode());
    assert_eq!(bed.run(instance), Ok(()));

    for column in (0..70).filter(|&column| column != 3) {
        let largest = (0..5).map(|row| number(row * 70 + column)).fold(f32::MIN, f32::max);
        assert_eq!(bed.element(&y, column), largest);
    }
    assert!(bed.element(&y, 3).is_nan());
}

#[test]
fn where_chooses_by_comparison_and_index() {
    let mut code = ProgramBuilder::new();
    let i = code.dim();
    let limit = code.scalar_word();
    let x = code.operand(Sen169Fp16, Access::Read, [i]);
    let y = code.operand(Sen169Fp16, Access::Write, [i]);
    code.each_parallel(i, 32, |code| {
        let value = code.load(x);
        let place = code.index(i);
        let limit = code.scalar(Lane::I64, limit);
        let is_early = code.compare(CompareOp::Less, place, limit);
        let negative = code.unary(UnaryOp::Neg, value);
        let zero = code.constant(Lane::F32, spyre_artifact::Span::NONE, 0.0);
        let is_low = code.compare(CompareOp::Less, value, zero);
        let magnitude = code.select(is_low, negative, value);
        let chosen = code.select(is_early, magnitude, zero);
        code.store(y, chosen);
    });
    let program = code.build().expect("it follows the rules");
    let mut bed = Bed::new();
    let code = bed.put_code(&program);
    let x = bed.tensor(&[129], Sen169Fp16, number);
    let y = bed.tensor(&[129], Sen169Fp16, |_| 1.0);
    let instance =
        bed.put_program(&entry(code, &program, &[x, y.clone()], &[129], &[100]).encode());
    assert_eq!(bed.run(instance), Ok(()));

    for at in 0..129 {
        let expected = if at < 100 { rounded(number(at), Sen169Fp16).abs() } else { 0.0 };
        assert_eq!(bed.element(&y, at), expected, "element {at}");
    }
}

/// A matrix product for one tile of k at a time: partial sums wait in a tensor between launches.
fn product() -> Program {
    let mut code = ProgramBuilder::new();
    let m = code.dim();
    let n = code.dim();
    let k = code.dim();
    let is_later = code.scalar_word();
    let is_last = code.scalar_word();
    let a = code.operand(IeeeFp16, Access::Read, [m, k]);
    let b = code.operand(IeeeFp16, Access::Read, [k, n]);
    let c = code.operand(IeeeFp16, Access::Write, [m, n]);
    let partial = code.operand(IeeeFp32, Access::Both, [m, n]);
    code.each_parallel(m, 10, |code| {
        code.each_parallel(n, 30, |code| {
            let sum = code.constant(Lane::F32, [m, n], 0.0);
            code.when(is_later, |code| code.load_into(sum, partial));
            code.each(k, 16, |code| code.dot(sum, a, b, k));
            code.store(partial, sum);
            code.when(is_last, |code| code.store(c, sum));
        });
    });
    code.build().expect("it follows the rules")
}

#[test]
fn a_matrix_product_is_summed_over_launches_that_a_correction_prepares() {
    let m = 23;
    let n = 65;
    let k = 100;
    let tile = 40;
    let whole = |at: usize| (at * 7 % 11) as f32 - 5.0;
    let program = product();
    let shape = program.table_shape();
    let mut bed = Bed::new();
    let code = bed.put_code(&program);
    let a = bed.tensor(&[m, k], IeeeFp16, whole);
    let b = bed.tensor(&[k, n], IeeeFp16, |at| whole(at + 3));
    let c = bed.tensor(&[m, n], IeeeFp16, |_| f32::NAN).seen(0, &[n as i64, 1]);
    let partial = bed.tensor(&[m, n], IeeeFp32, |_| f32::NAN).seen(0, &[n as i64, 1]);
    let blank = EntryImage::new(handle_words(code), shape, 0).expect("small");
    let instance = bed.put_program(&blank.encode());
    let all = shape.words() as u32;
    let patches = vec![
        Patch { source_word: 0, target_word: 5, words: all - 5 },
        Patch { source_word: all - 5, target_word: 0, words: 5 },
    ];
    let patches = CorrectionProgram::new(all, all, patches).expect("inside");
    let mut correction = CorrectionImage::new(handle_words(instance), patches);
    let corrector = bed.put_correction(&correction);
    let refused = bed.run(instance).expect_err("its table is not filled");
    assert!(refused.to_string().contains("launch the correction program first"), "{refused}");

    for first in (0..k).step_by(tile) {
        let length = tile.min(k - first);
        let tensors = [
            a.seen(first as i64, &[k as i64, 0, 1]),
            b.seen((first * n) as i64, &[0, 1, n as i64]),
            c.clone(),
            partial.clone(),
        ];
        let flags = [u64::from(first > 0), u64::from(first + length == k)];
        let extents = [m as u64, n as u64, length as u64];
        let mut table = vec![0; shape.words()];
        fill_table(&mut table, &program, &tensors, &extents, &flags);
        let mut input = table.clone();
        input.rotate_left(5);
        correction.input_mut().copy_from_slice(&input);
        bed.write(corrector, &correction.encode());

        assert_eq!(bed.run(corrector), Ok(()));
        let offset = blank.header().table_offset() as u64;
        let bytes = shape.bytes() as u64;
        let patched = bed.read(DeviceRange { handle: instance, offset, bytes });
        let words = patched.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        assert!(words.eq(table), "the words lie in device memory");
        assert_eq!(bed.run(instance), Ok(()));
    }

    for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
        let terms = (0..k).map(|at| whole(row * k + at) * whole(at * n + column + 3));
        let expected = rounded(terms.sum(), IeeeFp16);
        assert_eq!(bed.element(&c, row * n + column), expected, "row {row}, column {column}");
    }
}

#[test]
fn batched_products_come_in_any_order_of_dims() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        let mut code = ProgramBuilder::new();
        let all = [(); 4].map(|()| code.dim());
        let [batch, m, n, k] = order.map(|at| all[at]);
        let a = code.operand(IeeeFp32, Access::Read, [batch, m, k]);
        let b = code.operand(IeeeFp32, Access::Read, [batch, k, n]);
        let c = code.operand(IeeeFp32, Access::Write, [batch, m, n]);
        code.each(batch, 2, |code| {
            code.each(m, 5, |code| {
                code.each(n, 0, |code| {
                    let sum = code.constant(Lane::F32, [batch, m, n], 0.0);
                    code.each(k, 4, |code| code.dot(sum, a, b, k));
                    code.store(c, sum);
                });
            });
        });
        let program = code.build().expect("it follows the rules");
        let sizes = [3, 6, 7, 9];
        let whole = |at: usize| (at * 5 % 13) as f32 - 6.0;
        let [batches, rows, columns, ks] = sizes;
        let place = |strides: [i64; 4]| {
            let mut placed = [0; 4];
            order.iter().zip(strides).for_each(|(&at, stride)| placed[at] = stride);
            placed
        };
        let [r, c_, s] = [rows, columns, ks].map(|size| size as i64);
        let mut bed = Bed::new();
        let code = bed.put_code(&program);
        let a = bed.tensor(&[batches, rows, ks], IeeeFp32, whole);
        let a = a.seen(0, &place([r * s, s, 0, 1]));
        let b = bed.tensor(&[batches, ks, columns], IeeeFp32, whole);
        let b = b.seen(0, &place([s * c_, 0, 1, c_]));
        let c = bed.tensor(&[batches, rows, columns], IeeeFp32, |_| f32::NAN);
        let c = c.seen(0, &place([r * c_, c_, 1, 0]));
        let extents = place(sizes.map(|size| size as i64)).map(|extent| extent as u64);
        let instance =
            bed.put_program(&entry(code, &program, &[a, b, c.clone()], &extents, &[]).encode());
        assert_eq!(bed.run(instance), Ok(()));

        for at in 0..batches * rows * columns {
            let batch = at / columns / rows;
            let row = at / columns % rows;
            let column = at % columns;
            let terms = (0..ks).map(|k| {
                whole((batch * rows + row) * ks + k) * whole((batch * ks + k) * columns + column)
            });
            assert_eq!(bed.element(&c, at), terms.sum::<f32>(), "{order:?}, element {at}");
        }
    }
}

/// y = f(x), stored as `to`, where x is a column that `f` may spread over 3 rows.
fn column_to_matrix(
    to: DataFormat,
    f: impl FnOnce(&mut ProgramBuilder, Register) -> Register,
) -> Vec<f32> {
    let mut code = ProgramBuilder::new();
    let row = code.dim();
    let column = code.dim();
    let x = code.operand(IeeeFp32, Access::Read, [column]);
    let y = code.operand(to, Access::Write, [row, column]);
    code.each_parallel(row, 2, |code| {
        code.each_parallel(column, 40, |code| {
            let tile = code.load(x);
            let result = f(code, tile);
            code.store(y, result);
        });
    });
    let program = code.build().expect("it follows the rules");
    let mut bed = Bed::new();
    let code = bed.put_code(&program);
    let x = bed.tensor(&[97], IeeeFp32, number).seen(0, &[0, 1]);
    let y = bed.tensor(&[3, 97], to, |_| 1.0);
    let instance = bed.put_program(&entry(code, &program, &[x, y.clone()], &[3, 97], &[]).encode());
    assert_eq!(bed.run(instance), Ok(()));
    let all: Vec<f32> = (0..3 * 97).map(|at| bed.element(&y, at)).collect();
    assert!(all[..97] == all[97..194] && all[..97] == all[194..], "every row is the same");
    all[..97].to_vec()
}

#[test]
fn operations_do_what_plain_rust_does() {
    type Plain = fn(f32) -> f32;
    let table: [(UnaryOp, Plain); 8] = [
        (UnaryOp::Exp, |x| f64::from(x).exp() as f32),
        (UnaryOp::Floor, f32::floor),
        (UnaryOp::Round, f32::round_ties_even),
        (UnaryOp::Relu, |x| x.max(0.0)),
        (UnaryOp::Sign, f32::signum),
        (UnaryOp::Tanh, |x| f64::from(x).tanh() as f32),
        (UnaryOp::Abs, f32::abs),
        (UnaryOp::Reciprocal, f32::recip),
    ];
    for (op, plain) in table {
        let found = column_to_matrix(IeeeFp32, |code, tile| code.unary(op, tile));
        let expected: Vec<f32> = (0..97).map(|at| plain(number(at))).collect();
        // The only one of these that is computed in f32 and not exact there.
        let most = u32::from(op == UnaryOp::Exp);
        let is_close = |(a, b): (&f32, &f32)| a == b || a.to_bits().abs_diff(b.to_bits()) <= most;
        assert!(found.iter().zip(&expected).all(is_close), "{op}: {found:?}, not {expected:?}");
    }
}

#[test]
fn lanes_and_formats_are_converted_as_stores_do() {
    let whole = column_to_matrix(IeeeInt64, |code, tile| code.convert(Lane::I64, tile));
    let halves = column_to_matrix(IeeeFp32, |code, tile| code.round(tile, IeeeFp16));
    let truths = column_to_matrix(Sen169Fp16, |code, tile| {
        let zero = code.constant(Lane::F32, spyre_artifact::Span::NONE, 0.0);
        code.compare(CompareOp::Greater, tile, zero)
    });
    for at in 0..97 {
        let value = number(at);
        assert_eq!(whole[at], value.trunc());
        assert_eq!(halves[at], rounded(value, IeeeFp16));
        assert_eq!(truths[at], f32::from(value > 0.0));
    }
}

#[test]
fn every_byte_that_is_not_zero_is_true() {
    let mut code = ProgramBuilder::new();
    let i = code.dim();
    let x = code.operand(DataFormat::Bool, Access::Read, [i]);
    let y = code.operand(DataFormat::Bool, Access::Write, [i]);
    code.each(i, 10, |code| {
        let tile = code.load(x);
        let not = code.unary(UnaryOp::Not, tile);
        code.store(y, not);
    });
    let program = code.build().expect("it follows the rules");
    let mut bed = Bed::new();
    let code = bed.put_code(&program);
    let [x, y] = [(); 2].map(|()| bed.tensor(&[128], DataFormat::Bool, |_| 0.0));
    let bytes: Vec<u8> = (0..128).map(|at| at * 2).collect();
    bed.write(x.handle, &bytes);
    let instance = bed.put_program(&entry(code, &program, &[x, y.clone()], &[128], &[]).encode());
    assert_eq!(bed.run(instance), Ok(()));

    let found = bed.read(DeviceRange::start_of(y.handle, 128));
    let expected: Vec<u8> = bytes.iter().map(|&byte| u8::from(byte == 0)).collect();
    assert_eq!(found, expected);
}
