//! Images of programs in device memory: found by their place, and only where programs may lie.

use spyre_artifact::{BinaryOp, CorrectionImage, CorrectionProgram, Patch, Program};
use spyre_card::handle_words;
use spyre_hal::{DeviceRange, Fault};
use spyre_numerics::DataFormat::IeeeFp32;

use super::bed::{Bed, Tensor, code_image, entry};
use super::{addition, check_addition, number};

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

#[test]
fn code_by_itself_is_not_launched() {
    let mut bed = Bed::new();
    let code = bed.put_code(&addition(IeeeFp32));
    let fault = bed.run(code).expect_err("it has no operands");
    assert!(fault.to_string().contains("launch an entry image"), "{fault}");
}
