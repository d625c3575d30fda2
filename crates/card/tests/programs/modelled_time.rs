//! Modelled times of launches on a real card.

use spyre_artifact::{Access, Lane, ProgramBuilder};
use spyre_hal::Hardware;
use spyre_numerics::DataFormat::IeeeFp16;

use super::bed::{Bed, LAUNCHES, entry};
use super::{addition, number};

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
            bed.card.modelled_nanoseconds(LAUNCHES)
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
    assert_eq!(bed.card.modelled_nanoseconds(LAUNCHES), 0, "it failed");
}

#[test]
fn modelled_products_count_every_tile() {
    let mut code = ProgramBuilder::new();
    let m = code.dim();
    let n = code.dim();
    let k = code.dim();
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
    assert_eq!(bed.card.modelled_nanoseconds(LAUNCHES), expected);
    assert_eq!(bed.element(&c, 77), side as f32);
}
