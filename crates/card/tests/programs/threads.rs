//! Programs on several threads: results and faults are those of one.

use spyre_artifact::{Access, BinaryOp, Lane, Program, ProgramBuilder, ReduceOp, UnaryOp};
use spyre_hal::DeviceRange;
use spyre_numerics::DataFormat::{IeeeFp16, IeeeFp32, IeeeInt64};

use crate::bed::{Bed, entry, rounded};

/// A product and what is made of it, over enough elements for several threads.
fn large_program() -> Program {
    let mut code = ProgramBuilder::new();
    let m = code.dim();
    let n = code.dim();
    let k = code.dim();
    let a = code.operand(IeeeFp16, Access::Read, [m, k]);
    let b = code.operand(IeeeFp16, Access::Read, [k, n]);
    let c = code.operand(IeeeFp32, Access::Write, [m, n]);
    let sums = code.operand(IeeeFp32, Access::Write, [m]);
    code.each_parallel(m, 30, |code| {
        let total = code.constant(Lane::F32, [m], 0.0);
        code.each(n, 100, |code| {
            let product = code.constant(Lane::F32, [m, n], 0.0);
            code.each(k, 50, |code| code.dot(product, a, b, k));
            let product = code.unary(UnaryOp::Tanh, product);
            code.reduce(ReduceOp::Sum, total, product);
            code.store(c, product);
        });
        code.store(sums, total);
    });
    code.build().expect("it follows the rules")
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let rows = 200;
    let columns = 230;
    let terms = 130;
    let program = large_program();
    let results = [1, 2, 3].map(|threads| {
        let mut bed = Bed::with_threads(threads);
        let code = bed.put_code(&program);
        let small = |at: usize| (at * 37 % 101) as f32 / 50.0 - 1.0;
        let a = bed.tensor(&[rows, terms], IeeeFp16, small).seen(0, &[terms as i64, 0, 1]);
        let b = bed.tensor(&[terms, columns], IeeeFp16, |at| small(at + 5));
        let b = b.seen(0, &[0, 1, columns as i64]);
        let c = bed.tensor(&[rows, columns], IeeeFp32, |_| f32::NAN);
        let sums = bed.tensor(&[rows], IeeeFp32, |_| f32::NAN);
        let tensors = [a, b, c.clone(), sums.clone()];
        let extents = [rows as u64, columns as u64, terms as u64];
        let instance = entry(code, &program, &tensors, &extents, &[]);
        let instance = bed.put_program(&instance.encode());
        for _ in 0..3 {
            assert_eq!(bed.run(instance), Ok(()));
        }
        let term = |row: usize, column: usize, k: usize| {
            let a = f64::from(rounded(small(row * terms + k), IeeeFp16));
            a * f64::from(rounded(small(k * columns + column + 5), IeeeFp16))
        };
        for (row, column) in [(0, 0), (17, 99), (29, 100), (30, 31), (199, 229)] {
            let products = || (0..terms).map(|k| term(row, column, k));
            let size: f64 = products().map(f64::abs).sum();
            let bound = terms as f64 * 2_f64.powi(-22) * size;
            let found = f64::from(bed.element(&c, row * columns + column));
            let expected = products().sum::<f64>().tanh();
            assert!((found - expected).abs() <= bound, "{found}, not {expected} within {bound}");
        }
        (bed.surroundings(&c), bed.surroundings(&sums))
    });
    assert!(results.iter().all(|result| *result == results[0]));
}

#[test]
fn a_fault_on_one_of_several_threads_is_that_of_the_first_tile() {
    let mut code = ProgramBuilder::new();
    let i = code.dim();
    let x = code.operand(IeeeInt64, Access::Read, [i]);
    let y = code.operand(IeeeInt64, Access::Write, [i]);
    code.each_parallel(i, 1000, |code| {
        let tile = code.load(x);
        let one = code.constant(Lane::I64, spyre_artifact::Span::NONE, 1_i64);
        let quotient = code.binary(BinaryOp::Div, one, tile);
        code.store(y, quotient);
    });
    let program = code.build().expect("it follows the rules");
    let mut bed = Bed::with_threads(2);
    let code = bed.put_code(&program);
    let count = 100_000;
    let x = bed.tensor(&[count], IeeeInt64, |at| if at % 7000 == 6999 { 0.0 } else { 1.0 });
    let y = bed.tensor(&[count], IeeeInt64, |_| 5.0);
    let instance = entry(code, &program, &[x.clone(), y.clone()], &[count as u64], &[]);
    let instance = bed.put_program(&instance.encode());
    assert_eq!(bed.run(instance), Err(spyre_hal::Fault::DivisionByZero));
    assert_eq!(bed.element(&y, 6999), 5.0, "its tile was not stored");
    let range = DeviceRange::start_of(x.handle, 8);
    assert_eq!(bed.read(range), 1_i64.to_le_bytes());
}
