//! Scans, sorts and searches along a dim, over special values, against plain scalar Rust; in tiles that fit
//! no size.

use spyre_artifact::{Access, Lane, OrderOp, Program, ProgramBuilder, ScanOp, SeekOp};
use spyre_hal::Fault;
use spyre_numerics::DataFormat::{self, IeeeFp32, IeeeInt64};

use crate::bed::{Bed, Tensor, entry};

const ROWS: usize = 7;
const COLUMNS: usize = 53;

/// Numbers with everything special among them, different in every row.
fn number(at: usize) -> f32 {
    match (at / COLUMNS, at % COLUMNS) {
        (1, 20 | 40) => f32::NAN,
        (2, 3) => f32::INFINITY,
        (3, column) if column > 9 => f32::NEG_INFINITY,
        (4, column) => [0.0, -0.0][column % 2],
        (5, _) => -2.5,
        (row, column) => ((row * 31 + column * 17) % 23) as f32 - 11.0,
    }
}

/// A program over rows and columns that goes along one of them.
struct Work {
    code: ProgramBuilder,
    dims: [spyre_artifact::Dim; 2],
    x: spyre_artifact::Operand,
    y: spyre_artifact::Operand,
}

impl Work {
    fn new(format: DataFormat) -> Self {
        let mut code = ProgramBuilder::new();
        let dims = [code.dim(), code.dim()];
        let x = code.operand(IeeeFp32, Access::Read, dims);
        let y = code.operand(format, Access::Write, dims);
        Self { code, dims, x, y }
    }

    /// Values that it stores, one for each element.
    fn run(self, format: DataFormat) -> Vec<f32> {
        let program: Program = self.code.build().expect("it follows the rules");
        let mut bed = Bed::new();
        let code = bed.put_code(&program);
        let x = bed.tensor(&[ROWS, COLUMNS], IeeeFp32, number);
        let y = bed.tensor(&[ROWS, COLUMNS], format, |_| 77.0);
        let tensors: [Tensor; 2] = [x, y.clone()];
        let instance = entry(code, &program, &tensors, &[ROWS as u64, COLUMNS as u64], &[]);
        let instance = bed.put_program(&instance.encode());
        assert_eq!(bed.run(instance), Ok(()));
        (0..ROWS * COLUMNS).map(|at| bed.element(&y, at)).collect()
    }
}

/// The elements of each row along a dim, as places.
fn rows(along: usize) -> Vec<Vec<usize>> {
    let row = |row: usize| (0..COLUMNS).map(|column| row * COLUMNS + column).collect();
    let column = |column: usize| (0..ROWS).map(|row| row * COLUMNS + column).collect();
    if along == 1 { (0..ROWS).map(row).collect() } else { (0..COLUMNS).map(column).collect() }
}

fn is_same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

fn log_add_exp(a: f64, b: f64) -> f64 {
    let least = a.min(b);
    let most = a.max(b);
    match (a, b) {
        _ if a.is_nan() || b.is_nan() => f64::NAN,
        _ if least == f64::NEG_INFINITY || most == f64::INFINITY => most,
        _ => most + (least - most).exp().ln_1p(),
    }
}

#[test]
fn scans_do_what_plain_rust_does() {
    type Plain = fn(f64, f64) -> f64;
    let cases: [(ScanOp, Plain); 5] = [
        (ScanOp::Sum, |a, b| a + b),
        (ScanOp::Product, |a, b| a * b),
        (ScanOp::Max, |a, b| if a.is_nan() || a > b { a } else { b }),
        (ScanOp::Min, |a, b| if a.is_nan() || a < b { a } else { b }),
        (ScanOp::LogSumExp, log_add_exp),
    ];
    for ((op, plain), along) in cases.into_iter().flat_map(|case| [(case, 0), (case, 1)]) {
        let Work { mut code, dims, x, y } = Work::new(IeeeFp32);
        let dim = dims[along];
        let other = dims[1 - along];
        code.each_parallel(other, 3, |code| {
            let carry = code.constant(Lane::F64, [other], op.start(Lane::F64));
            code.each(dim, 10, |code| {
                let tile = code.load(x);
                let scanned = code.scan(op, tile, carry, dim);
                code.store(y, scanned);
            });
        });
        let found = Work { code, dims, x, y }.run(IeeeFp32);
        for row in rows(along) {
            let mut carried = None;
            for place in row {
                let element = f64::from(number(place));
                let next = carried.map_or(element, |carried| plain(carried, element));
                carried = Some(next);
                let expected = next as f32;
                let is_close = (found[place] - expected).abs() <= expected.abs() * 1e-6;
                assert!(is_same(found[place], expected) || is_close, "{op} at {place}");
            }
        }
    }
}

#[test]
fn the_first_of_the_best_is_found_across_tiles() {
    for (op, along) in SeekOp::ALL.iter().flat_map(|&op| [(op, 0), (op, 1)]) {
        let Work { mut code, dims, x, y } = Work::new(IeeeInt64);
        let dim = dims[along];
        let other = dims[1 - along];
        code.each_parallel(other, 3, |code| {
            let best = code.constant(Lane::F32, [other], 0.0);
            let at = code.constant(Lane::I64, [other], -1_i64);
            code.each(dim, 10, |code| {
                let tile = code.load(x);
                code.seek(op, best, at, tile, dim);
            });
            code.each(dim, 10, |code| code.store(y, at));
        });
        let found = Work { code, dims, x, y }.run(IeeeInt64);
        for row in rows(along) {
            let value = |nth: usize| number(row[nth]);
            let is_better = |a: f32, b: f32| match op {
                SeekOp::ArgMin => a < b || a.is_nan() && !b.is_nan(),
                _ => a > b || a.is_nan() && !b.is_nan(),
            };
            let best = (1..row.len())
                .fold(0, |best, nth| if is_better(value(nth), value(best)) { nth } else { best });
            assert!(row.iter().all(|&place| found[place] == best as f32), "{op} along {along}");
        }
    }
}

#[test]
fn a_sort_is_stable_and_has_nan_at_its_end() {
    for (op, along) in OrderOp::ALL.iter().flat_map(|&op| [(op, 0), (op, 1)]) {
        for gives_places in [true, false] {
            let format = if gives_places { IeeeInt64 } else { IeeeFp32 };
            let Work { mut code, dims, x, y } = Work::new(format);
            let dim = dims[along];
            let other = dims[1 - along];
            code.each_parallel(other, 3, |code| {
                code.each(dim, 0, |code| {
                    let tile = code.load(x);
                    let [places, values] = code.order(op, tile, dim);
                    code.store(y, if gives_places { places } else { values });
                });
            });
            let found = Work { code, dims, x, y }.run(format);
            for row in rows(along) {
                let mut order: Vec<usize> = (0..row.len()).collect();
                order.sort_by(|&a, &b| {
                    let a = number(row[a]);
                    let b = number(row[b]);
                    let ascending = a.partial_cmp(&b).unwrap_or(a.is_nan().cmp(&b.is_nan()));
                    if op == OrderOp::Descending { ascending.reverse() } else { ascending }
                });
                for (nth, &place) in row.iter().enumerate() {
                    let expected =
                        if gives_places { order[nth] as f32 } else { number(row[order[nth]]) };
                    assert!(is_same(found[place], expected), "{op} along {along}, {nth}");
                }
            }
        }
    }
}

#[test]
fn a_dim_is_as_long_as_the_launch_says_wherever_it_is_asked() {
    let Work { mut code, dims, x, y } = Work::new(IeeeFp32);
    code.each_parallel(dims[0], 3, |code| {
        code.each_parallel(dims[1], 10, |code| {
            let lengths = dims.map(|dim| code.extent(dim));
            let product = code.mul(lengths[0], lengths[1]);
            let product = code.convert(Lane::F32, product);
            code.store(y, product);
        });
    });
    let found = Work { code, dims, x, y }.run(IeeeFp32);
    assert_eq!(found, [(ROWS * COLUMNS) as f32; ROWS * COLUMNS]);
}

#[test]
fn a_sort_of_more_than_fits_is_refused() {
    let Work { mut code, dims, x, y } = Work::new(IeeeInt64);
    code.each(dims[0], 0, |code| {
        code.each(dims[1], 0, |code| {
            let tile = code.load(x);
            let [places, _] = code.order(OrderOp::Ascending, tile, dims[1]);
            code.store(y, places);
        });
    });
    let program = code.build().expect("it follows the rules");
    let mut bed = Bed::new();
    let code = bed.put_code(&program);
    let tensors =
        [IeeeFp32, IeeeInt64].map(|format| bed.tensor(&[4], format, |_| 0.0).seen(0, &[0, 0]));
    let instance = entry(code, &program, &tensors, &[5000, 5000], &[]);
    let instance = bed.put_program(&instance.encode());
    for _ in 0..2 {
        let Err(Fault::BadProgram { why, .. }) = bed.run(instance) else { panic!("it is refused") };
        assert!(why.contains("its tiles take up to 400000000 bytes"), "{why}");
    }
}
