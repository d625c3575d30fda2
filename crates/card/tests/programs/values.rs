//! Every operation over special values, against plain scalar Rust.

use std::cmp::Ordering;

use spyre_artifact::{
    Access, BinaryOp, CompareOp, Lane, ProgramBuilder, ReduceOp, Register, UnaryOp,
};
use spyre_numerics::DataFormat::{self, Bool, IeeeFp32, IeeeFp64, IeeeInt64};

use crate::bed::{Bed, Tensor, entry};
use crate::functions;

/// One number of a lane, as bits.
pub(crate) trait Number: Copy + std::fmt::Debug + PartialEq {
    const FORMAT: DataFormat;
    fn bytes(self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Self;
    fn is_same(self, other: Self) -> bool;
}

macro_rules! number {
    ($type:ty, $format:expr, $same:expr) => {
        impl Number for $type {
            const FORMAT: DataFormat = $format;

            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }

            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("as many bytes"))
            }

            fn is_same(self, other: Self) -> bool {
                $same(self, other)
            }
        }
    };
}

// The same bits, but any NaN is as good as another.
number!(f32, IeeeFp32, |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan());
number!(f64, IeeeFp64, |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan());
number!(i64, IeeeInt64, |a, b| a == b);
number!(u8, Bool, |a, b| a == b);

pub(crate) const F64: [f64; 25] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3.0,
    -7.0,
    0.1,
    1e-5,
    -100.25,
    9007199254740993.0,
    f64::MIN_POSITIVE,
    f64::MIN_POSITIVE / 4.0,
    5e-324,
    -5e-324,
    f64::MAX,
    f64::MIN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    std::f64::consts::PI,
];

pub(crate) fn f32_values() -> Vec<f32> {
    let own = [f32::MIN_POSITIVE, f32::MIN_POSITIVE / 2.0, 1e-45, -1e-45, f32::MAX, f32::MIN];
    F64.iter().map(|&value| value as f32).chain(own).collect()
}

const I64: [i64; 18] = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    -3,
    7,
    -7,
    63,
    64,
    65,
    -64,
    1 << 40,
    i64::MAX,
    i64::MIN,
    i64::MAX - 1,
    i64::MIN + 1,
];

/// All pairs, each side a list of its own.
pub(crate) fn pairs<T: Copy>(values: &[T]) -> [Vec<T>; 2] {
    let pairs = values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b)));
    let (left, right) = pairs.unzip();
    [left, right]
}

fn tensor<T: Number>(bed: &mut Bed, values: &[T]) -> Tensor {
    let tensor = bed.tensor(&[values.len()], T::FORMAT, |_| 0.0);
    for (element, value) in values.iter().enumerate() {
        let bytes = value.bytes();
        let offset = tensor.layout.device_byte(element).expect("it has a place") as u64;
        bed.write_at(tensor.handle, offset, &bytes);
    }
    tensor
}

/// The elements of a tensor; what lies between and around them must be as it was.
fn elements<T: Number>(bed: &Bed, tensor: &Tensor, count: usize, before: &[u8]) -> Vec<T> {
    let width = T::FORMAT.element_bytes().expect("whole bytes");
    let mut before = before.to_vec();
    let mut after = bed.surroundings(tensor);
    let found = (0..count).map(|element| {
        let at = 128 + tensor.layout.device_byte(element).expect("it has a place");
        let value = T::from_bytes(&after[at..at + width]);
        before[at..at + width].fill(0);
        after[at..at + width].fill(0);
        value
    });
    let found = found.collect();
    assert!(before == after, "something else was written");
    found
}

/// Result of a program for up to two lists, element by element, in tiles that fit no stick.
pub(crate) fn computed<T: Number, U: Number>(
    inputs: &[&[T]],
    act: impl FnOnce(&mut ProgramBuilder, &[Register]) -> Register,
) -> Vec<U> {
    let mut code = ProgramBuilder::new();
    let i = code.dim();
    let operands: Vec<_> =
        inputs.iter().map(|_| code.operand(T::FORMAT, Access::Read, [i])).collect();
    let result = code.operand(U::FORMAT, Access::Write, [i]);
    code.each_parallel(i, 19, |code| {
        let tiles: Vec<Register> = operands.iter().map(|&operand| code.load(operand)).collect();
        let computed = act(code, &tiles);
        code.store(result, computed);
    });
    let program = code.build().expect("it follows the rules");
    let mut bed = Bed::new();
    let code = bed.put_code(&program);
    let count = inputs[0].len();
    let mut tensors: Vec<Tensor> = inputs.iter().map(|list| tensor(&mut bed, list)).collect();
    tensors.push(bed.tensor(&[count], U::FORMAT, |_| 1.0));
    let instance = entry(code, &program, &tensors, &[count as u64], &[]);
    let instance = bed.put_program(&instance.encode());
    let result = &tensors[inputs.len()];
    let before = bed.surroundings(result);
    assert_eq!(bed.run(instance), Ok(()));
    elements(&bed, result, count, &before)
}

#[track_caller]
fn assert_same<T: Number, U: Number>(what: &str, inputs: &[&[T]], found: &[U], expected: &[U]) {
    for at in 0..expected.len() {
        let given: Vec<T> = inputs.iter().map(|list| list[at]).collect();
        let found = found[at];
        let expected = expected[at];
        assert!(found.is_same(expected), "{what} of {given:?}: {found:?}, not {expected:?}");
    }
}

fn check_unary<T: Number, U: Number>(op: UnaryOp, values: &[T], plain: impl Fn(T) -> U) {
    let found = computed(&[values], |code, tiles| code.unary(op, tiles[0]));
    let expected: Vec<U> = values.iter().map(|&value| plain(value)).collect();
    assert_same(&format!("{op}"), &[values], &found, &expected);
}

fn check_binary<T: Number>(op: BinaryOp, values: &[T], plain: impl Fn(T, T) -> Option<T>) {
    let [left, right] = pairs(values);
    let are_fine = left.iter().zip(&right).map(|(&a, &b)| plain(a, b).is_some());
    let are_fine: Vec<bool> = are_fine.collect();
    let keep = |list: Vec<T>| -> Vec<T> {
        list.into_iter().zip(&are_fine).filter(|(_, is_fine)| **is_fine).map(|(x, _)| x).collect()
    };
    let [left, right] = [keep(left), keep(right)];
    let found = computed(&[&left, &right], |code, tiles| code.binary(op, tiles[0], tiles[1]));
    let expected = left.iter().zip(&right).filter_map(|(&a, &b)| plain(a, b));
    let expected: Vec<T> = expected.collect();
    assert_same(&format!("{op}"), &[&left, &right], &found, &expected);
}

macro_rules! float_unary {
    ($op:expr, $type:ident) => {{
        fn sign(x: $type) -> $type {
            if x.is_nan() || x == 0.0 { x.abs() } else { x.signum() }
        }
        let plain: fn($type) -> $type = match $op {
            UnaryOp::Neg => |x| -x,
            UnaryOp::Abs => |x| $type::from_bits(x.to_bits() << 1 >> 1),
            UnaryOp::Sqrt => $type::sqrt,
            UnaryOp::Rsqrt => |x| x.sqrt().recip(),
            UnaryOp::Reciprocal => |x| x.powi(-1),
            UnaryOp::Floor => |x| if x < 0.0 && x > -1.0 { -1.0 } else { x.floor() },
            UnaryOp::Ceil => |x| -(-x).floor(),
            UnaryOp::Round => $type::round_ties_even,
            UnaryOp::Trunc => |x| x.abs().floor().copysign(x),
            UnaryOp::Sign => sign,
            UnaryOp::Relu => |x| if x.is_nan() || x >= 0.0 { x } else { 0.0 },
            op => panic!("{op} has no reference"),
        };
        plain
    }};
}

#[test]
fn unary_operations_do_what_plain_rust_does() {
    use UnaryOp::{Abs, BitNot, IsInf, IsNan, Neg, Not, Relu, Sign, SignBit};
    for &op in UnaryOp::ALL.iter().filter(|&&op| functions::unary(op).is_none()) {
        match op {
            Not => check_unary(op, &[0_u8, 1], |x| 1 - x),
            BitNot => check_unary(op, &I64, |x: i64| -1 - (x as i128) as i64),
            IsNan => {
                check_unary(op, &f32_values(), |x: f32| u8::from(x.is_nan()));
                check_unary(op, &F64, |x: f64| u8::from(x.is_nan()));
            }
            IsInf => {
                check_unary(op, &f32_values(), |x: f32| u8::from(x.abs() == f32::INFINITY));
                check_unary(op, &F64, |x: f64| u8::from(x.abs() == f64::INFINITY));
            }
            SignBit => {
                check_unary(op, &f32_values(), |x: f32| (x.to_bits() >> 31) as u8);
                check_unary(op, &F64, |x: f64| (x.to_bits() >> 63) as u8);
            }
            _ => {
                check_unary(op, &f32_values(), float_unary!(op, f32));
                check_unary(op, &F64, float_unary!(op, f64));
            }
        }
    }
    check_unary(Neg, &I64, |x: i64| (-i128::from(x)) as i64);
    check_unary(Abs, &I64, |x: i64| i128::from(x).abs() as i64);
    check_unary(Sign, &I64, |x: i64| i64::from(x > 0) - i64::from(x < 0));
    check_unary(Relu, &I64, |x: i64| if x < 0 { 0 } else { x });
}

macro_rules! float_binary {
    ($op:expr, $type:ident) => {{
        // As PyTorch does it.
        fn floor_div(a: $type, b: $type) -> $type {
            if b == 0.0 {
                return a / b;
            }
            let rest = a % b;
            let mut quotient = (a - rest) / b;
            if rest != 0.0 && (b < 0.0) != (rest < 0.0) {
                quotient -= 1.0;
            }
            if quotient == 0.0 {
                return (0.0 as $type).copysign(a / b);
            }
            let floor = quotient.floor();
            if quotient - floor > 0.5 { floor + 1.0 } else { floor }
        }
        fn modulo(a: $type, b: $type) -> $type {
            let rest = a % b;
            if rest != 0.0 && (b < 0.0) != (rest < 0.0) { rest + b } else { rest }
        }
        fn extreme(a: $type, b: $type, is_first: fn($type, $type) -> bool) -> $type {
            match (a.is_nan(), b.is_nan()) {
                (true, _) => a,
                (_, true) => b,
                _ if is_first(a, b) => a,
                _ => b,
            }
        }
        fn number(a: $type, b: $type, is_first: fn($type, $type) -> bool) -> $type {
            match (a.is_nan(), b.is_nan()) {
                (true, _) => b,
                (_, true) => a,
                _ if is_first(a, b) => a,
                _ => b,
            }
        }
        let plain: fn($type, $type) -> $type = match $op {
            BinaryOp::Add => |a, b| b + a,
            BinaryOp::Sub => |a, b| a + -b,
            BinaryOp::Mul => |a, b| b * a,
            BinaryOp::Div => |a, b| a / b,
            BinaryOp::Min => |a, b| extreme(a, b, |a, b| a < b),
            BinaryOp::Max => |a, b| extreme(a, b, |a, b| a > b),
            BinaryOp::Rem => |a, b| a % b,
            BinaryOp::FloorDiv => floor_div,
            BinaryOp::Modulo => modulo,
            BinaryOp::CopySign => |a, b| if b.is_sign_negative() { -a.abs() } else { a.abs() },
            BinaryOp::Fmin => |a, b| number(a, b, |a, b| a < b),
            BinaryOp::Fmax => |a, b| number(a, b, |a, b| a > b),
            BinaryOp::NextAfter => |a, b| match a.partial_cmp(&b) {
                None => $type::NAN,
                Some(Ordering::Less) => a.next_up(),
                Some(Ordering::Equal) => b,
                Some(Ordering::Greater) => a.next_down(),
            },
            op => panic!("{op} has no reference"),
        };
        let is_any_zero = matches!($op, BinaryOp::Fmin | BinaryOp::Fmax);
        // Which of two zeros is the smaller one is not said.
        move |a: $type, b: $type| {
            let is_open = is_any_zero && a == 0.0 && b == 0.0;
            (!is_open).then(|| plain(a, b))
        }
    }};
}

#[test]
fn binary_operations_do_what_plain_rust_does() {
    for &op in BinaryOp::ALL {
        if op.result(Lane::F64).is_some() && functions::binary(op).is_none() {
            check_binary(op, &f32_values(), float_binary!(op, f32));
            check_binary(op, &F64, float_binary!(op, f64));
        }
        if op.result(Lane::I64).is_some() {
            check_binary(op, &I64, |a, b| whole(op, a, b));
        }
    }
    let truth = |op: fn(bool, bool) -> bool| move |a: u8, b: u8| Some(u8::from(op(a == 1, b == 1)));
    check_binary(BinaryOp::And, &[0, 1], truth(|a, b| a && b));
    check_binary(BinaryOp::Or, &[0, 1], truth(|a, b| a || b));
    check_binary(BinaryOp::Xor, &[0, 1], truth(|a, b| a != b));
}

/// Result in wide integers, cut to 64 bits; `None` where the card has a fault.
fn whole(op: BinaryOp, a: i64, b: i64) -> Option<i64> {
    let x = i128::from(a);
    let y = i128::from(b);
    let wide = match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => return Some((x as u128).wrapping_mul(y as u128) as i64),
        BinaryOp::Div => x.checked_div(y)?,
        BinaryOp::Rem => x.checked_rem(y)?,
        BinaryOp::FloorDiv => floor_quotient(x, y)?,
        BinaryOp::Modulo => x - floor_quotient(x, y)? * y,
        BinaryOp::Min => x.min(y),
        BinaryOp::Max => x.max(y),
        BinaryOp::And => x & y,
        BinaryOp::Or => x | y,
        BinaryOp::Xor => x ^ y,
        BinaryOp::ShiftLeft => return Some(if (0..64).contains(&b) { a << b } else { 0 }),
        BinaryOp::ShiftRight => return Some(a >> if (0..64).contains(&b) { b } else { 63 }),
        BinaryOp::Pow => return Some(power(a, b)),
        BinaryOp::Gcd => gcd(x, y),
        op => panic!("{op} has no reference"),
    };
    Some(wide as i64)
}

fn gcd(x: i128, y: i128) -> i128 {
    if y == 0 { x.abs() } else { gcd(y, x % y) }
}

fn floor_quotient(x: i128, y: i128) -> Option<i128> {
    let towards_zero = x.checked_div(y)?;
    Some(towards_zero - i128::from(x % y != 0 && (x < 0) != (y < 0)))
}

/// Power, by the rules of signs for negative exponents, else by squaring residues modulo 2^64.
fn power(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => [1, -1][(exponent & 1) as usize],
            _ => 0,
        };
    }
    let bits = (0..63).rev().map(|bit| exponent >> bit & 1 == 1);
    bits.fold(1, |power: i64, is_set| {
        let square = power.wrapping_mul(power);
        if is_set { square.wrapping_mul(base) } else { square }
    })
}

#[test]
fn comparisons_are_those_of_plain_rust() {
    fn check<T: Number + PartialOrd>(values: &[T]) {
        let [left, right] = pairs(values);
        for &op in CompareOp::ALL {
            let found: Vec<u8> =
                computed(&[&left, &right], |code, tiles| code.compare(op, tiles[0], tiles[1]));
            let plain = |a: T, b: T| {
                let order = a.partial_cmp(&b);
                match op {
                    CompareOp::Equal => order.is_some_and(Ordering::is_eq),
                    CompareOp::NotEqual => order.is_none_or(Ordering::is_ne),
                    CompareOp::Less => order.is_some_and(Ordering::is_lt),
                    CompareOp::LessEqual => order.is_some_and(Ordering::is_le),
                    CompareOp::Greater => order.is_some_and(Ordering::is_gt),
                    _ => order.is_some_and(Ordering::is_ge),
                }
            };
            let expected: Vec<u8> =
                left.iter().zip(&right).map(|(&a, &b)| u8::from(plain(a, b))).collect();
            assert_same(&format!("{op}"), &[&left, &right], &found, &expected);
        }
    }
    check(&f32_values());
    check(&F64);
    check(&I64);
    check(&[0_u8, 1]);
}

/// Reduces each row of a matrix in tiles, beginning with `first`.
fn reduced<T: Number>(
    op: ReduceOp,
    rows: &[Vec<T>],
    lane: Lane,
    first: impl Fn(&mut ProgramBuilder, spyre_artifact::Dim) -> Register,
) -> Vec<T> {
    let mut code = ProgramBuilder::new();
    let row = code.dim();
    let column = code.dim();
    let x = code.operand(T::FORMAT, Access::Read, [row, column]);
    let y = code.operand(T::FORMAT, Access::Write, [row]);
    code.each_parallel(row, 2, |code| {
        let result = first(code, row);
        code.each(column, 19, |code| {
            let tile = code.load(x);
            code.reduce(op, result, tile);
        });
        code.store(y, result);
    });
    let program = code.build().expect("it follows the rules");
    let mut bed = Bed::new();
    let code = bed.put_code(&program);
    let columns = rows[0].len();
    let x = bed.tensor(&[rows.len(), columns], T::FORMAT, |_| 0.0);
    for (element, value) in rows.iter().flatten().enumerate() {
        let offset = x.layout.device_byte(element).expect("it has a place") as u64;
        bed.write_at(x.handle, offset, &value.bytes());
    }
    let y = bed.tensor(&[rows.len()], T::FORMAT, |_| 1.0);
    let extents = [rows.len() as u64, columns as u64];
    let instance = entry(code, &program, &[x, y.clone()], &extents, &[]);
    let instance = bed.put_program(&instance.encode());
    let before = bed.surroundings(&y);
    assert_eq!(bed.run(instance), Ok(()), "{op} of {lane}");
    elements(&bed, &y, rows.len(), &before)
}

macro_rules! check_float_reductions {
    ($type:ident, $lane:expr) => {{
        let exact = |row: usize, at: usize| ((at * 7 + row) % 23) as $type - 11.0;
        let whole = |row: usize| (0..97).map(|at| exact(row, at)).collect::<Vec<$type>>();
        let with = |row: usize, at: usize, value: $type| {
            let mut row = whole(row);
            row[at] = value;
            row
        };
        let rows = vec![
            whole(0),
            with(1, 96, $type::NAN),
            with(2, 0, $type::INFINITY),
            with(3, 40, $type::NEG_INFINITY),
            with(4, 18, 0.0),
            vec![-0.0; 97],
            vec![$type::MIN_POSITIVE / 8.0; 97],
        ];
        let larger = |a: $type, b: $type| if a.is_nan() || a > b { a } else { b };
        let smaller = |a: $type, b: $type| if a.is_nan() || a < b { a } else { b };
        let cases: [(ReduceOp, f64, &dyn Fn(&[$type]) -> $type); 3] = [
            (ReduceOp::Sum, 0.0, &|row| row.iter().fold(0.0, |a, &b| a + b)),
            (ReduceOp::Max, f64::NEG_INFINITY, &|row| {
                row.iter().fold($type::NEG_INFINITY, |a, &b| larger(a, b))
            }),
            (ReduceOp::Min, f64::INFINITY, &|row| {
                row.iter().fold($type::INFINITY, |a, &b| smaller(a, b))
            }),
        ];
        for (op, first, plain) in cases {
            let found = reduced(op, &rows, $lane, |code, row| code.constant($lane, [row], first));
            let expected: Vec<$type> = rows.iter().map(|row| plain(row)).collect();
            for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let is_same = found.is_same(*expected) || *found == 0.0 && *expected == 0.0;
                assert!(is_same, "{op} of row {row}: {found}, not {expected}");
            }
        }
        let powers: Vec<Vec<$type>> = vec![
            (0..97).map(|at| if at % 2 == 0 { 2.0 } else { 0.5 }).collect(),
            with(0, 5, $type::NAN),
            vec![1.0; 97],
        ];
        let found = reduced(ReduceOp::Product, &powers, $lane, |code, row| {
            code.constant($lane, [row], 1.0)
        });
        assert_eq!((found[0], found[1].is_nan(), found[2]), (2.0, true, 1.0));
    }};
}

#[test]
fn reductions_do_what_plain_rust_does() {
    check_float_reductions!(f32, Lane::F32);
    check_float_reductions!(f64, Lane::F64);
    let rows = vec![
        (0..97).map(|at| at * 12_345 - 500_000).collect::<Vec<i64>>(),
        vec![i64::MAX; 97],
        (0..97).map(|at| if at == 50 { i64::MIN } else { 3 }).collect(),
    ];
    type Plain = fn(i64, i64) -> i64;
    let cases: [(ReduceOp, i64, Plain); 4] = [
        (ReduceOp::Sum, 0, i64::wrapping_add),
        (ReduceOp::Product, 1, i64::wrapping_mul),
        (ReduceOp::Min, i64::MAX, Ord::min),
        (ReduceOp::Max, i64::MIN, Ord::max),
    ];
    for (op, first, plain) in cases {
        let found =
            reduced(op, &rows, Lane::I64, |code, row| code.constant(Lane::I64, [row], first));
        let fold = |row: &Vec<i64>| row.iter().fold(first, |a, &b| plain(a, b));
        assert_eq!(found, rows.iter().map(fold).collect::<Vec<_>>(), "{op}");
    }
    let truths = vec![vec![0; 97], vec![1; 97], (0..97).map(|at| u8::from(at == 96)).collect()];
    for (op, first, expected) in
        [(ReduceOp::Any, false, [0, 1, 1]), (ReduceOp::All, true, [0, 1, 0])]
    {
        let found =
            reduced(op, &truths, Lane::Bool, |code, row| code.constant(Lane::Bool, [row], first));
        assert_eq!(found, expected, "{op}");
    }
}
