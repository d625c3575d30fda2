//! Large tensors are read and written stick by stick while they are computed with, small ones are not: what
//! comes out is the same.

use spyre_artifact::{Access, BinaryOp, Instruction, Lane, Program, ProgramBuilder, ReduceOp};
use spyre_numerics::DataFormat::IeeeFp32;

use super::bed::{Bed, Tensor, entry};

/// Rows that are reduced, then `(x - r) * s * weight + bias - y` with the sum s of the squares of `x - r`.
fn program(reduced: ReduceOp) -> Program {
    let mut code = ProgramBuilder::new();
    let i = code.dim();
    let j = code.dim();
    let x = code.operand(IeeeFp32, Access::Read, [i, j]);
    let y = code.operand(IeeeFp32, Access::Read, [i, j]);
    let [weight, bias] = [(); 2].map(|()| code.operand(IeeeFp32, Access::Read, [j]));
    let z = code.operand(IeeeFp32, Access::Write, [i, j]);
    code.each_parallel(i, 16, |code| {
        let first = if reduced == ReduceOp::Max { f64::NEG_INFINITY } else { 0.0 };
        let [r, s] = [first, 0.0].map(|value| code.constant(Lane::F32, [i], value));
        code.each(j, 512, |code| {
            let tile = code.load(x);
            code.reduce(reduced, r, tile);
        });
        let change = |code: &mut ProgramBuilder, op, target, right| {
            code.emit(Instruction::Binary { op, target, left: target, right });
        };
        code.each(j, 512, |code| {
            let tile = code.load(x);
            change(code, BinaryOp::Sub, tile, r);
            let squares = code.mul(tile, tile);
            code.reduce(ReduceOp::Sum, s, squares);
        });
        code.each_parallel(j, 512, |code| {
            let tile = code.load(x);
            let y = code.load(y);
            let weight = code.load(weight);
            let bias = code.load(bias);
            change(code, BinaryOp::Sub, tile, r);
            change(code, BinaryOp::Mul, tile, s);
            change(code, BinaryOp::Mul, tile, weight);
            change(code, BinaryOp::Add, tile, bias);
            change(code, BinaryOp::Sub, tile, y);
            code.store(z, tile);
        });
    });
    code.build().expect("it follows the rules")
}

/// Numbers of which some are infinite, subnormal, zeros of both signs, or none at all.
fn number(row: usize, column: usize) -> f32 {
    let mixed = (row * 7919 + column * 104_729) % 1009;
    match (row % 16, mixed) {
        (3, 7) => f32::INFINITY,
        (5, 11) => f32::NAN,
        (7, 0..500) => -0.0,
        (9, _) => mixed as f32 * 1e-41,
        _ => mixed as f32 * 0.013 - 6.1,
    }
}

/// Result of the program for some rows.
fn result(program: &Program, rows: &[usize], columns: usize) -> Vec<Vec<u32>> {
    let mut bed = Bed::with_threads(2);
    let code = bed.put_code(program);
    let size = [rows.len(), columns];
    let wide = |shift: usize| move |at: usize| number(rows[at / columns] + shift, at % columns);
    let x = bed.tensor(&size, IeeeFp32, wide(0));
    let y = bed.tensor(&size, IeeeFp32, wide(1));
    let [weight, bias] = [2, 4].map(|row| {
        let line = bed.tensor(&[columns], IeeeFp32, |column| number(row, column));
        line.seen(0, &[0, 1])
    });
    let z = bed.tensor(&size, IeeeFp32, |_| 0.5);
    let tensors = [x, y, weight, bias, z.clone()];
    let extents = size.map(|extent| extent as u64);
    let instance = bed.put_program(&entry(code, program, &tensors, &extents, &[]).encode());
    assert_eq!(bed.run(instance), Ok(()));
    elements(&bed, &z, size)
}

fn elements(bed: &Bed, tensor: &Tensor, [rows, columns]: [usize; 2]) -> Vec<Vec<u32>> {
    let bytes = bed.surroundings(tensor);
    let element = |at: usize| {
        let at = 128 + tensor.layout.device_byte(at).expect("it has a place");
        let value = f32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }
    };
    (0..rows)
        .map(|row| (0..columns).map(|column| element(row * columns + column)).collect())
        .collect()
}

#[test]
fn rows_of_large_tensors_become_what_they_become_by_themselves() {
    for reduced in [ReduceOp::Sum, ReduceOp::Max] {
        let program = program(reduced);
        // Whole sticks and tiles, whole sticks, and neither.
        for (rows, columns) in [(1030, 1024), (1003, 1056), (1030, 1045)] {
            let all: Vec<usize> = (0..rows).collect();
            let large = result(&program, &all, columns);
            for first in [0, 512, rows - 10] {
                let some: Vec<usize> = (first..rows.min(first + 16)).collect();
                let small = result(&program, &some, columns);
                for (row, small) in some.iter().zip(small) {
                    assert!(large[*row] == small, "row {row} of {rows}x{columns}, {reduced}");
                }
            }
        }
    }
}
