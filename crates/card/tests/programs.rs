//! Programs that lie in device memory, run by the card.

#[path = "programs/along.rs"]
mod along;
#[path = "programs/bed.rs"]
mod bed;
#[path = "programs/functions.rs"]
mod functions;
#[path = "programs/fuzz.rs"]
mod fuzz;
#[path = "programs/handles.rs"]
mod handles;
#[path = "programs/large.rs"]
mod large;
#[path = "programs/products.rs"]
mod products;
#[path = "programs/values.rs"]
mod values;

use bed::{Bed, Tensor, code_image, entry, fill_table, rounded};
use spyre_artifact::{
    Access, BinaryOp, CompareOp, CorrectionImage, CorrectionProgram, EntryImage, Lane, Patch,
    Program, ProgramBuilder, ReduceOp, Register, UnaryOp,
};
use spyre_card::handle_words;
use spyre_hal::{DeviceRange, Fault, Hardware, Severity, Token};
use spyre_layout::SpyreTensorLayout;
use spyre_numerics::DataFormat::{self, IeeeFp16, IeeeFp32, IeeeInt64, Sen169Fp16};

/// c = a + b, in tiles that fit no size.
fn addition(format: DataFormat) -> Program {
    let mut code = ProgramBuilder::new();
    let (i, j) = (code.dim(), code.dim());
    let [a, b] = [(); 2].map(|()| code.operand(format, Access::Read, [i, j]));
    let c = code.operand(format, Access::Write, [i, j]);
    code.each_parallel(i, 3, |code| {
        code.each_parallel(j, 100, |code| {
            let (left, right) = (code.load(a), code.load(b));
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
    let (row, column) = (code.dim(), code.dim());
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
    let (row, column) = (code.dim(), code.dim());
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
    let (m, n, k) = (code.dim(), code.dim(), code.dim());
    let (is_later, is_last) = (code.scalar_word(), code.scalar_word());
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
    let (m, n, k, tile) = (23, 65, 100, 40);
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
    let refused = bed.run(instance).expect_err("nobody has filled its table");
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
        let (sizes, whole) = ([3, 6, 7, 9], |at: usize| (at * 5 % 13) as f32 - 6.0);
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
            let (batch, row, column) = (at / columns / rows, at / columns % rows, at % columns);
            let terms = (0..ks).map(|k| {
                whole((batch * rows + row) * ks + k) * whole((batch * ks + k) * columns + column)
            });
            assert_eq!(bed.element(&c, at), terms.sum::<f32>(), "{order:?}, element {at}");
        }
    }
}

/// c = a + b of whole numbers by way of `op`, and the outcome of its launch.
fn integers(op: BinaryOp, left: i64, right: i64) -> (spyre_hal::Outcome, i64) {
    let mut code = ProgramBuilder::new();
    let c = code.operand(IeeeInt64, Access::Write, spyre_artifact::Span::NONE);
    let [a, b] =
        [left, right].map(|value| code.constant(Lane::I64, spyre_artifact::Span::NONE, value));
    let result = code.binary(op, a, b);
    code.store(c, result);
    let program = code.build().expect("it follows the rules");
    let mut bed = Bed::new();
    let code = bed.put_code(&program);
    let c = bed.tensor(&[1], IeeeInt64, |_| -77.0).seen(0, &[]);
    let instance =
        bed.put_program(&entry(code, &program, std::slice::from_ref(&c), &[], &[]).encode());
    let outcome = bed.run(instance);
    let bytes = bed.read(DeviceRange::start_of(c.handle, 8));
    (outcome, i64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

#[test]
fn a_division_by_zero_is_a_fault_of_the_data() {
    for op in [BinaryOp::Div, BinaryOp::Rem, BinaryOp::FloorDiv, BinaryOp::Modulo] {
        let (outcome, kept) = integers(op, 7, 0);
        assert_eq!(outcome, Err(Fault::DivisionByZero));
        assert_eq!(outcome.map_err(|fault| fault.severity()), Err(Severity::Data));
        assert_eq!(kept, -77);
    }
    assert_eq!(integers(BinaryOp::Div, i64::MIN, -1), (Ok(()), i64::MIN));
    assert_eq!(integers(BinaryOp::FloorDiv, -7, 2), (Ok(()), -4));
    assert_eq!(integers(BinaryOp::Modulo, -7, 2), (Ok(()), 1));
    assert_eq!(integers(BinaryOp::Pow, 3, 4), (Ok(()), 81));
    assert_eq!(integers(BinaryOp::ShiftRight, -5, 64), (Ok(()), -1));
}

#[test]
fn a_moved_image_computes_the_same_and_changed_code_is_noticed() {
    let mut bed = Bed::new();
    let program = addition(IeeeFp32);
    let code = bed.put_code(&program);
    let [a, b] = [1, 2].map(|seed| bed.tensor(&[2, 70], IeeeFp32, |at| number(at * seed)));
    let c = bed.tensor(&[2, 70], IeeeFp32, |_| 0.0);
    let tensors = [a, b, c.clone()];
    let instance = entry(code, &program, &tensors, &[2, 70], &[]);
    let places = [bed.put_program(&instance.encode()), bed.put_program(&instance.encode())];
    let mut results = places.map(|place| {
        assert_eq!(bed.run(place), Ok(()));
        bed.surroundings(&c)
    });
    let moved = bed.put_code(&program);
    let elsewhere = bed.put_program(&entry(moved, &program, &tensors, &[2, 70], &[]).encode());
    assert_eq!(bed.run(elsewhere), Ok(()));
    assert!(results[0] == results[1] && results[0] == bed.surroundings(&c));

    let image = code_image(&program);
    for at in 0..image.len() {
        let mut flipped = image.clone();
        flipped[at] ^= 0x10;
        bed.write(code, &flipped);
        let outcome = bed.run(places[0]);
        assert!(matches!(outcome, Err(Fault::BadProgram { .. })), "byte {at}: {outcome:?}");
    }
    bed.write(code, &code_image(&with_mul_for_add(&program)));
    assert_eq!(bed.run(places[0]), Ok(()));
    results[1] = bed.surroundings(&c);
    assert!(results[0] != results[1], "a copy over the code is noticed");
}

fn with_mul_for_add(program: &Program) -> Program {
    let mut bytes = program.encode();
    let add = program.instructions().iter().find(|code| code.to_string().contains("= add"));
    let add = add.expect("an addition").encode();
    let at = bytes.windows(16).position(|bytes| bytes == add).expect("it is there");
    bytes[at + 4] = BinaryOp::Mul as u8;
    Program::decode(&bytes).expect("it follows the rules")
}

#[test]
fn what_lies_outside_an_operands_limit_is_not_touched() {
    let mut bed = Bed::new();
    let program = addition(IeeeFp32);
    let code = bed.put_code(&program);
    let c = bed.tensor(&[2, 70], IeeeFp32, number);
    let before = bed.surroundings(&c);
    let views = [
        c.seen(1, &[70, 1]),
        c.seen(-1, &[70, 1]),
        c.seen(0, &[i64::MAX, 1]),
        c.seen(0, &[-70, 1]),
    ];
    for view in views {
        let instance = entry(code, &program, &[c.clone(), c.clone(), view], &[2, 70], &[]);
        let instance = bed.put_program(&instance.encode());
        let outcome = bed.run(instance);
        assert!(matches!(outcome, Err(Fault::BadOperand { operand: 2, .. })), "{outcome:?}");
    }
    let mut instance = entry(code, &program, &[c.clone(), c.clone(), c.clone()], &[2, 70], &[]);
    instance.table_mut()[3] -= 4 * 128;
    let instance = bed.put_program(&instance.encode());
    assert!(matches!(bed.run(instance), Err(Fault::BadOperand { operand: 0, .. })));
    assert!(bed.surroundings(&c) == before);
}

#[test]
fn a_program_does_not_store_where_programs_are() {
    let mut bed = Bed::new();
    let program = addition(IeeeFp32);
    let code = bed.put_code(&program);
    let a = bed.tensor(&[2, 70], IeeeFp32, number);
    let room = bed.put_program(&vec![7; a.layout.device_bytes()]);
    let c = Tensor { handle: room, ..a.clone() };
    let instance = entry(code, &program, &[a.clone(), a.clone(), c.clone()], &[2, 70], &[]);
    let instance = bed.put_program(&instance.encode());
    let fault = bed.run(instance).expect_err("it holds programs");
    assert!(matches!(fault, Fault::BadOperand { operand: 2, .. }), "{fault}");
    assert!(fault.to_string().contains("which holds programs"), "{fault}");
    let bytes = c.layout.device_bytes() as u64;
    assert_eq!(bed.read(DeviceRange::start_of(room, bytes)), vec![7; bytes as usize]);

    bed.unprotect(room, bytes);
    assert_eq!(bed.run(instance), Ok(()), "the same table, now with plain memory");
    let reads = entry(code, &program, &[c.clone(), a.clone(), a], &[2, 70], &[]);
    let reads = bed.put_program(&reads.encode());
    bed.protect(room, bytes);
    assert_eq!(bed.run(reads), Ok(()), "programs may be read");
}

#[test]
fn code_and_tables_lie_in_allocations_for_programs() {
    let mut bed = Bed::new();
    let program = addition(IeeeFp32);
    let [good, plain] = [bed.put_code(&program), bed.put(&code_image(&program))];
    let a = bed.tensor(&[2, 70], IeeeFp32, number);
    let tensors = [a.clone(), a.clone(), a];
    let named_plain = entry(plain, &program, &tensors, &[2, 70], &[]);
    let named_plain = bed.put_program(&named_plain.encode());
    let table = entry(good, &program, &tensors, &[2, 70], &[]);
    let plain_table = bed.put(&table.encode());
    let words = table.table().len() as u32;
    let patch = Patch { source_word: 0, target_word: 0, words };
    let patches = CorrectionProgram::new(words, words, vec![patch]).expect("inside");
    let correction = CorrectionImage::new(handle_words(plain_table), patches);
    let corrector = bed.put_correction(&correction);

    for launched in [named_plain, plain_table, corrector] {
        let fault = bed.run(launched).expect_err("it names plain memory");
        assert!(fault.to_string().contains("not in an allocation for programs"), "{fault}");
    }
    let bytes = table.encode();
    let kept = bed.read(DeviceRange::start_of(plain_table, bytes.len() as u64));
    assert!(kept == bytes, "nothing was patched");
}

#[test]
fn an_operand_that_nobody_filled_is_named() {
    let mut bed = Bed::new();
    let program = addition(IeeeFp32);
    let code = bed.put_code(&program);
    let a = bed.tensor(&[2, 70], IeeeFp32, number);
    let tensors = [a.clone(), a];
    let instance = bed.put_program(&entry(code, &program, &tensors, &[2, 70], &[]).encode());
    let fault = bed.run(instance).expect_err("the third is missing");
    assert!(matches!(fault, Fault::BadOperand { operand: 2, .. }), "{fault}");
    assert!(fault.to_string().contains("it is not filled"), "{fault}");
}

#[test]
fn repeated_elements_are_loaded_and_not_stored() {
    let mut bed = Bed::new();
    let program = addition(IeeeFp32);
    let code = bed.put_code(&program);
    let plain = bed.tensor(&[2, 32], IeeeFp32, number);
    // Two copies of a row of 32, a stick each.
    let repeated = SpyreTensorLayout::explicit(&[2, 32], &[0, 1], IeeeFp32).expect("a layout");
    let mut twice = bed.tensor(&[2, 32], IeeeFp32, |at| number(at % 32)).seen(0, &[0, 1]);
    twice.layout = repeated;
    let before = bed.surroundings(&twice);

    let stores = [plain.clone(), plain.clone(), twice.clone()];
    let stores = bed.put_program(&entry(code, &program, &stores, &[1, 32], &[]).encode());
    let fault = bed.run(stores).expect_err("one of two copies would be left");
    assert!(matches!(fault, Fault::BadOperand { operand: 2, .. }), "{fault}");
    assert!(fault.to_string().contains("repeats elements"), "{fault}");
    assert!(bed.surroundings(&twice) == before);

    let sum = bed.tensor(&[2, 32], IeeeFp32, |_| 0.0);
    let loads = [plain, twice, sum.clone()];
    let loads = bed.put_program(&entry(code, &program, &loads, &[2, 32], &[]).encode());
    assert_eq!(bed.run(loads), Ok(()));
    for at in 0..64 {
        assert_eq!(bed.element(&sum, at), number(at) + number(at % 32), "element {at}");
    }
}

#[test]
fn a_table_that_moves_is_bound_anew() {
    let mut bed = Bed::new();
    let program = addition(IeeeFp32);
    let code = bed.put_code(&program);
    let sizes = [[2, 70], [2, 70], [7, 129], [1, 1], [2, 70]];
    let instance = bed.put_program(&vec![0; 4096]);
    for (seed, [rows, columns]) in sizes.into_iter().enumerate() {
        let [a, b] = [1, 2]
            .map(|factor| bed.tensor(&[rows, columns], IeeeFp32, |at| number(at * factor + seed)));
        let c = bed.tensor(&[rows, columns], IeeeFp32, |_| f32::NAN);
        let extents = [rows as u64, columns as u64];
        let table = entry(code, &program, &[a, b, c.clone()], &extents, &[]);
        bed.write(instance, &table.encode());
        for _ in 0..2 {
            assert_eq!(bed.run(instance), Ok(()));
        }
        for at in 0..rows * columns {
            assert_eq!(bed.element(&c, at), number(at + seed) + number(at * 2 + seed));
        }
        let mut short = table.clone();
        short.table_mut()[3] = 4;
        bed.write(instance, &short.encode());
        let outcome = bed.run(instance);
        let is_fine = rows * columns == 1;
        assert_eq!(outcome.is_ok(), is_fine, "{outcome:?}");
    }
}

#[test]
fn modelled_time_is_that_of_the_sticks() {
    let mut bed = Bed::new();
    let program = addition(IeeeFp16);
    let code = bed.put_code(&program);
    let time = |bed: &mut Bed, columns: usize, b_strides: &[i64]| {
        let [a, b, c] = [(); 3].map(|()| bed.tensor(&[64, columns], IeeeFp16, number));
        let tensors = [a, b.seen(0, b_strides), c];
        let instance = entry(code, &program, &tensors, &[64, columns as u64], &[]);
        let instance = bed.put_program(&instance.encode());
        let times = [(); 2].map(|()| {
            assert_eq!(bed.run(instance), Ok(()));
            bed.card.modelled_nanoseconds(bed::LAUNCHES)
        });
        assert_eq!(times[0], times[1], "it depends on nothing else");
        times[0]
    };
    // (R + W) / 150 + 0.00574 min(R, W), for R of 2 x 8192 bytes and W of 8192.
    assert_eq!(time(&mut bed, 64, &[64, 1]), 211);
    assert_eq!(time(&mut bed, 33, &[33, 1]), 211, "half sticks are moved, too");
    let expanded = (8192.0 + 128.0 + 8192.0) / 150.0 + 0.00574 * 8192.0_f64;
    assert_eq!(time(&mut bed, 64, &[0, 1]), expanded.ceil() as u64);
    assert_eq!(bed.run(code).map_err(drop), Err(()));
    assert_eq!(bed.card.modelled_nanoseconds(bed::LAUNCHES), 0, "it failed");
}

#[test]
fn modelled_products_count_every_tile() {
    let mut code = ProgramBuilder::new();
    let (m, n, k) = (code.dim(), code.dim(), code.dim());
    let a = code.operand(IeeeFp16, Access::Read, [m, k]);
    let b = code.operand(IeeeFp16, Access::Read, [k, n]);
    let c = code.operand(IeeeFp16, Access::Write, [m, n]);
    code.each_parallel(m, 64, |code| {
        code.each_parallel(n, 64, |code| {
            let sum = code.constant(Lane::F32, [m, n], 0.0);
            code.each(k, 64, |code| code.dot(sum, a, b, k));
            code.store(c, sum);
        });
    });
    let program = code.build().expect("it follows the rules");
    let mut bed = Bed::new();
    let code = bed.put_code(&program);
    let side = 512;
    let [a, b, c] = [(); 3].map(|()| bed.tensor(&[side, side], IeeeFp16, |_| 1.0));
    let row = side as i64;
    let tensors = [a.seen(0, &[row, 0, 1]), b.seen(0, &[0, 1, row]), c.clone()];
    let extents = [side as u64; 3];
    let instance = bed.put_program(&entry(code, &program, &tensors, &extents, &[]).encode());
    assert_eq!(bed.run(instance), Ok(()));

    let bytes = (2 * side * side) as f64;
    let memory = 3.0 * bytes / 150.0 + 0.00574 * bytes;
    let products = (side * side * side) as f64 / 32.0 / 1140.0;
    let expected = memory.max(products).ceil() as u64;
    assert_eq!(bed.card.modelled_nanoseconds(bed::LAUNCHES), expected);
    assert_eq!(bed.element(&c, 77), side as f32);
}

#[test]
fn absurd_extents_are_refused_before_anything_runs() {
    let mut code = ProgramBuilder::new();
    let i = code.dim();
    code.each(i, 0, |code| {
        code.constant(Lane::F32, [i], 1.0);
    });
    let program = code.build().expect("it follows the rules");
    let mut bed = Bed::new();
    let code = bed.put_code(&program);
    for extent in [u64::MAX, 1 << 44, 1 << 32, (1 << 26) + 1] {
        let instance = bed.put_program(&entry(code, &program, &[], &[extent], &[]).encode());
        assert!(matches!(bed.run(instance), Err(Fault::BadProgram { .. })), "{extent}");
    }
}

#[test]
fn an_abort_ends_a_program_between_two_tiles() {
    let mut code = ProgramBuilder::new();
    let (i, j) = (code.dim(), code.dim());
    code.each(i, 1, |code| {
        code.each(j, 1, |code| {
            code.constant(Lane::F32, [i, j], 1.0);
        });
    });
    let program = code.build().expect("it follows the rules");
    let mut bed = Bed::new();
    let code = bed.put_code(&program);
    let instance = bed.put_program(&entry(code, &program, &[], &[1 << 20, 1 << 20], &[]).encode());
    let outcome = std::thread::scope(|scope| {
        let launch = scope.spawn(|| bed.run(instance));
        while !launch.is_finished() {
            bed.card.abort(bed::LAUNCHES, Token(0));
            std::thread::yield_now();
        }
        launch.join().expect("no panic")
    });
    assert!(matches!(outcome, Err(Fault::Hung { .. })), "{outcome:?}");
}

#[test]
fn what_a_card_says_of_its_programs_tells_no_place() {
    let mut bed = Bed::new();
    let c = bed.tensor(&[5, 5], IeeeFp32, number);
    check_addition(&mut bed, [c.clone(), c.clone(), c], [5, 5]);
    let text = format!("{:?}", bed.card);
    assert!(
        text.contains("Programs(2 allocations, 2 images kept)") && !text.contains("vf_offset"),
        "{text}"
    );
}

/// y = f(x), stored as `to`, where x is a column that `f` may spread over 3 rows.
fn column_to_matrix(
    to: DataFormat,
    f: impl FnOnce(&mut ProgramBuilder, Register) -> Register,
) -> Vec<f32> {
    let mut code = ProgramBuilder::new();
    let (row, column) = (code.dim(), code.dim());
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

#[test]
fn code_by_itself_is_not_launched() {
    let mut bed = Bed::new();
    let code = bed.put_code(&addition(IeeeFp32));
    let fault = bed.run(code).expect_err("it has no operands");
    assert!(fault.to_string().contains("launch an entry image"), "{fault}");
}
