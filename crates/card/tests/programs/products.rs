//! Matrix products of tensors and of registers, against plain sums. Their numbers are whole and
//! small, so that every order of a sum gives the same.

use spyre_artifact::{Access, Dim, Lane, Program, ProgramBuilder, Span};
use spyre_numerics::DataFormat::{
    self, BFloat16, Fp8E5M2, IeeeFp16, IeeeFp32, IeeeFp64, IeeeInt32, IeeeInt64, Sen143Fp8, SenInt8,
};

use crate::bed::{Bed, Tensor, entry};

/// Dims of a product: of both sides, rows, columns, and two that are summed over.
const BATCH: usize = 0;
const ROWS: usize = 1;
const COLUMNS: usize = 2;
const TERMS: usize = 3;
const MORE_TERMS: usize = 4;

const LEFT: [usize; 4] = [BATCH, ROWS, TERMS, MORE_TERMS];
const RIGHT: [usize; 4] = [BATCH, TERMS, MORE_TERMS, COLUMNS];
const RESULT: [usize; 3] = [BATCH, ROWS, COLUMNS];

/// Instruction that makes a product.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Dot,
    Multiply,
}

struct Case {
    form: Form,
    formats: [DataFormat; 2],
    lane: Lane,
    /// The number of each dim in the program.
    dims: [u8; 5],
    extents: [usize; 5],
    tiles: [u32; 5],
    /// True for a side whose storage has its dims in the opposite order.
    is_turned: [bool; 2],
}

impl Case {
    fn span(&self, of: &[usize]) -> Span {
        Span::of(&self.own(of).map(|at| Dim(self.dims[at])).collect::<Vec<_>>())
    }

    /// Those of some dims that there are: products of tensors are over one.
    fn own(&self, of: &[usize]) -> impl Iterator<Item = usize> {
        of.iter().copied().filter(|&at| at != MORE_TERMS || self.form == Form::Multiply)
    }

    /// A loop over one dim of the product and what is inside of it.
    fn each(&self, at: usize, code: &mut ProgramBuilder, body: impl FnOnce(&mut ProgramBuilder)) {
        code.each(Dim(self.dims[at]), self.tiles[at], body);
    }

    fn program(&self) -> Program {
        let mut code = ProgramBuilder::new();
        (0..5).for_each(|_| _ = code.dim());
        let [a, b] = [(LEFT, 0), (RIGHT, 1)]
            .map(|(dims, at)| code.operand(self.formats[at], Access::Read, self.span(&dims)));
        let c = code.operand(result_format(self.lane), Access::Write, self.span(&RESULT));
        self.each(BATCH, &mut code, |code| {
            self.each(ROWS, code, |code| {
                self.each(COLUMNS, code, |code| {
                    let span = self.span(&RESULT);
                    let sum = match self.lane {
                        Lane::I64 => code.constant(self.lane, span, 3_i64),
                        _ => code.constant(self.lane, span, 3.0),
                    };
                    self.each(TERMS, code, |code| {
                        self.each(MORE_TERMS, code, |code| match self.form {
                            Form::Dot => code.dot(sum, a, b, Dim(self.dims[TERMS])),
                            Form::Multiply => {
                                let [left, right] = [(a, LEFT), (b, RIGHT)].map(|(from, dims)| {
                                    let tile = code.register(self.lane, self.span(&dims));
                                    code.load_into(tile, from);
                                    tile
                                });
                                code.multiply(sum, left, right);
                            }
                        });
                    });
                    code.store(c, sum);
                });
            });
        });
        code.build().expect("it follows the rules")
    }

    /// A side's storage, seen along the dims of the program.
    fn side(&self, bed: &mut Bed, dims: [usize; 4], at: usize) -> Tensor {
        let mut order: Vec<usize> = self.own(&dims).collect();
        if self.is_turned[at] {
            order.reverse();
        }
        let size: Vec<usize> = order.iter().map(|&dim| self.extents[dim]).collect();
        let tensor = bed.tensor(&size, self.formats[at], |element| {
            let mut rest = element;
            let mut place = [0; 5];
            for &dim in order.iter().rev() {
                place[dim] = rest % self.extents[dim];
                rest /= self.extents[dim];
            }
            number(place, at)
        });
        self.seen(&tensor, &order)
    }

    fn seen(&self, tensor: &Tensor, order: &[usize]) -> Tensor {
        let mut strides = [0; 8];
        let mut stride = 1;
        for &dim in order.iter().rev() {
            strides[usize::from(self.dims[dim])] = stride;
            stride *= self.extents[dim] as i64;
        }
        tensor.seen(0, &strides)
    }

    fn check(&self) {
        let program = self.program();
        let mut bed = Bed::new();
        let code = bed.put_code(&program);
        let a = self.side(&mut bed, LEFT, 0);
        let b = self.side(&mut bed, RIGHT, 1);
        let [batches, rows, columns, terms, more] = self.extents;
        let c = bed.tensor(&[batches, rows, columns], result_format(self.lane), |_| 77.0);
        let mut extents = [0; 5];
        for (&dim, &extent) in self.dims.iter().zip(&self.extents) {
            extents[usize::from(dim)] = extent as u64;
        }
        let tensors = [a, b, self.seen(&c, &RESULT)];
        let instance = entry(code, &program, &tensors, &extents, &[]);
        let instance = bed.put_program(&instance.encode());
        assert_eq!(bed.run(instance), Ok(()));
        for element in 0..batches * rows * columns {
            let at = |[t, u]: [usize; 2]| {
                [element / columns / rows, element / columns % rows, element % columns, t, u]
            };
            let pairs = (0..terms).flat_map(|t| (0..more).map(move |u| [t, u]));
            let products = pairs.map(|pair| number(at(pair), 0) * number(at(pair), 1));
            let expected = products.sum::<f32>() + 3.0;
            let Self { form, formats, dims, extents, is_turned, .. } = self;
            assert_eq!(
                bed.element(&c, element),
                expected,
                "element {element}, {form:?} of {formats:?}, {dims:?}: {extents:?}, {is_turned:?}"
            );
        }
    }
}

fn result_format(lane: Lane) -> DataFormat {
    match lane {
        Lane::F64 => IeeeFp64,
        Lane::I64 => IeeeInt64,
        _ => IeeeFp32,
    }
}

/// A small whole number at a place, of the left side or the right; it differs along the side's own
/// dims only.
fn number(place: [usize; 5], side: usize) -> f32 {
    let own = if side == 0 { LEFT } else { RIGHT };
    let mixed = own.iter().fold(side + 1, |mixed, &dim| mixed * 31 + place[dim] * 7 + dim);
    (mixed % 9) as f32 - 4.0
}

const ORDERS: [[u8; 5]; 4] = [[0, 1, 2, 3, 4], [0, 2, 1, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]];

#[test]
fn products_of_registers_are_sums_over_what_the_result_does_not_span() {
    let kinds =
        [([IeeeFp32; 2], Lane::F32), ([IeeeFp64; 2], Lane::F64), ([IeeeInt64; 2], Lane::I64)];
    for (at, dims) in ORDERS.into_iter().enumerate() {
        for (formats, lane) in kinds {
            for extents in [[2, 9, 37, 5, 3], [1, 1, 33, 20, 1], [3, 5, 1, 7, 2], [1, 3, 70, 1, 40]]
            {
                let is_turned = [at % 2 == 0, at / 2 == 0];
                let tiles = [2, 6, 34, 4, 2];
                let form = Form::Multiply;
                Case { form, formats, lane, dims, extents, tiles, is_turned }.check();
            }
        }
    }
}

#[test]
fn products_of_tensors_are_sums_over_one_dim() {
    let kinds = [
        ([IeeeFp32; 2], Lane::F32),
        ([IeeeFp16, BFloat16], Lane::F32),
        ([IeeeFp64, IeeeFp32], Lane::F64),
        ([BFloat16, SenInt8], Lane::F32),
        ([Sen143Fp8, Fp8E5M2], Lane::F32),
        ([IeeeInt32, SenInt8], Lane::F64),
    ];
    for (at, dims) in ORDERS.into_iter().enumerate() {
        for (formats, lane) in kinds {
            for extents in
                [[2, 9, 37, 5, 1], [1, 1, 65, 140, 1], [3, 17, 1, 33, 1], [1, 4, 70, 64, 1]]
            {
                let is_turned = [at / 2 == 0, at % 2 == 0];
                let tiles = [2, 16, 64, 70, 1];
                let form = Form::Dot;
                Case { form, formats, lane, dims, extents, tiles, is_turned }.check();
            }
        }
    }
}

#[test]
fn rows_of_several_products_lie_apart() {
    for formats in [[IeeeFp32; 2], [BFloat16, IeeeFp16], [IeeeFp16, SenInt8]] {
        for is_turned in [[false; 2], [false, true], [true, false]] {
            for rows in [3, 20] {
                let dims = ORDERS[0];
                let extents = [3, rows, 128, 128, 1];
                let tiles = [1, 20, 128, 128, 1];
                let form = Form::Dot;
                Case { form, formats, lane: Lane::F32, dims, extents, tiles, is_turned }.check();
            }
        }
    }
}

/// Rows of k times columns that lie along k, as a linear layer has them.
fn check_linear(format: DataFormat, [rows, columns, terms]: [usize; 3], tiles: [u32; 2]) {
    let mut code = ProgramBuilder::new();
    let m = code.dim();
    let n = code.dim();
    let k = code.dim();
    let a = code.operand(IeeeFp32, Access::Read, [m, k]);
    let b = code.operand(format, Access::Read, [n, k]);
    let c = code.operand(IeeeFp32, Access::Write, [m, n]);
    code.each(m, 0, |code| {
        code.each_parallel(n, tiles[0], |code| {
            let sum = code.constant(Lane::F32, [m, n], 3.0);
            code.each(k, tiles[1], |code| code.dot(sum, a, b, k));
            code.store(c, sum);
        });
    });
    let program = code.build().expect("it follows the rules");
    let mut bed = Bed::new();
    let code = bed.put_code(&program);
    let left = |row: usize, term: usize| number([0, row, 0, term, 0], 0);
    let right = |column: usize, term: usize| number([0, 0, column, term, 0], 1);
    let a = bed.tensor(&[rows, terms], IeeeFp32, |at| left(at / terms, at % terms));
    let b = bed.tensor(&[columns, terms], format, |at| right(at / terms, at % terms));
    let c = bed.tensor(&[rows, columns], IeeeFp32, |_| 77.0);
    let long = terms as i64;
    let wide = columns as i64;
    let tensors = [a.seen(0, &[long, 0, 1]), b.seen(0, &[0, long, 1]), c.seen(0, &[wide, 1, 0])];
    let extents = [rows, columns, terms].map(|extent| extent as u64);
    let instance = bed.put_program(&entry(code, &program, &tensors, &extents, &[]).encode());
    assert_eq!(bed.run(instance), Ok(()));
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let products = (0..terms).map(|term| left(row, term) * right(column, term));
        let expected = products.sum::<f32>() + 3.0;
        let found = bed.element(&c, row * columns + column);
        assert_eq!(found, expected, "row {row}, column {column} of {rows}x{columns}x{terms}");
    }
}

#[test]
fn few_rows_are_multiplied_with_columns_where_they_lie() {
    for format in [IeeeFp32, BFloat16, IeeeFp16, SenInt8] {
        for rows in [1, 2, 3, 4, 5, 18] {
            for [columns, terms] in
                [[70, 64], [33, 320], [5, 96], [40, 100], [64, 33], [67, 256], [30, 640]]
            {
                check_linear(format, [rows, columns, terms], [32, 64]);
                check_linear(format, [rows, columns, terms], [48, 50]);
                check_linear(format, [rows, columns, terms], [64, 512]);
            }
        }
    }
}
