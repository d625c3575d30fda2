//! Programs that are refused or ended: nothing is lost by it.

use spyre_artifact::{Access, BinaryOp, Lane, ProgramBuilder};
use spyre_hal::{DeviceRange, Fault, Hardware, Severity, Token};
use spyre_layout::SpyreTensorLayout;
use spyre_numerics::DataFormat::{IeeeFp32, IeeeInt64};

use super::bed::{Bed, LAUNCHES, entry};
use super::{addition, number};

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
fn an_operand_that_is_not_filled_is_named() {
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
    let i = code.dim();
    let j = code.dim();
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
            bed.card.abort(LAUNCHES, Token(0));
            std::thread::yield_now();
        }
        launch.join().expect("no panic")
    });
    assert!(matches!(outcome, Err(Fault::Hung { .. })), "{outcome:?}");
}
