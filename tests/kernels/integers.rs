//! Integers of every width, against what PyTorch makes of them.

use spyre::artifact::{BinaryOp, Constant, UnaryOp};
use spyre::compiler::{Array, Kernel};
use spyre::numerics::{DType, Scalar};

use crate::bed::{Bed, Failure};

const TABLE: &str = include_str!("torch_integers.txt");

fn dtype(name: &str) -> DType {
    let all = [DType::Int8, DType::Int16, DType::Int32, DType::Int64, DType::UInt8];
    all.into_iter().find(|dtype| dtype.to_string() == name).expect("a dtype of integers")
}

fn array(dtype: DType, numbers: &[i64]) -> Array {
    let mut array = Array::zeros(dtype, &[numbers.len()]);
    array.elements = numbers.iter().map(|&number| Constant::Int(number)).collect();
    array
}

/// Results of the card and of the interpreter for `y`, the last operand.
fn results(bed: &Bed, text: &str, arrays: &mut [Array]) -> Result<[Vec<i64>; 2], Failure> {
    let kernel: Kernel = text.parse()?;
    let y = arrays.last().expect("a result");
    let format = y.dtype.host_format();
    let count = y.elements.len();
    let width = format.element_bytes().ok_or("an element")?;
    let bytes = bed.run(&kernel, &[], arrays)?;
    let number = |bytes: &[u8]| match Scalar::decode(format, bytes) {
        Ok(Scalar::Signed(number)) => Ok(number),
        Ok(Scalar::Unsigned(number)) => Ok(number.cast_signed()),
        other => Err(format!("{other:?} is no integer")),
    };
    let last = bytes.last().ok_or("a result")?;
    let card: Result<Vec<i64>, _> = last.chunks_exact(width).map(number).collect();
    kernel.interpret(&[count], &[], arrays)?;
    let interpreted = arrays.last().into_iter().flat_map(|y| &y.elements);
    let interpreted = interpreted.filter_map(|element| match element {
        Constant::Int(number) => Some(*number),
        _ => None,
    });
    Ok([card?, interpreted.collect()])
}

#[test]
fn operations_wrap_shift_and_divide_as_in_pytorch() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let mut values = Vec::new();
    let mut checked = 0;
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let op = words.next().ok_or("an op")?;
        let name = words.next().ok_or("a dtype")?;
        let dtype = dtype(name);
        let expected: Vec<Option<i64>> = words.map(|word| word.parse().ok()).collect();
        if op == "values" {
            values = expected.into_iter().flatten().collect();
            continue;
        }
        let pairs = values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b)));
        let is_unary = expected.len() == values.len();
        let given: Vec<(i64, i64)> =
            if is_unary { values.iter().map(|&a| (a, 0)).collect() } else { pairs.collect() };
        let known = given.into_iter().zip(expected);
        let (given, expected): (Vec<_>, Vec<i64>) =
            known.filter_map(|(given, expected)| Some((given, expected?))).unzip();
        let call = if is_unary { format!("{op}(a)") } else { format!("{op}(a, b)") };
        let text = format!(
            "kernel k(i) {{
                in a: {name}[i]
                in b: {name}[i]
                out y: {name}[i]
                y = {call}
            }}"
        );
        let (a, b): (Vec<i64>, Vec<i64>) = given.iter().copied().unzip();
        let mut arrays = [array(dtype, &a), array(dtype, &b), Array::zeros(dtype, &[a.len()])];
        for found in results(&bed, &text, &mut arrays)? {
            for ((given, found), expected) in given.iter().zip(found).zip(&expected) {
                assert_eq!(found, *expected, "{op} of {given:?} as {name}");
                checked += 1;
            }
        }
    }
    assert!(checked > 20_000, "{checked} numbers");
    Ok(())
}

#[test]
fn the_table_has_every_operation_on_integers() {
    let has = |op: &str| TABLE.lines().any(|line| line.split(' ').next() == Some(op));
    let takes = |lane| lane == Some(spyre::artifact::Lane::I64);
    let unary = UnaryOp::ALL.iter().filter(|op| takes(op.result(spyre::artifact::Lane::I64)));
    let unary = unary.filter(|op| **op != UnaryOp::Relu).map(|op| op.name());
    let binary = BinaryOp::ALL.iter().filter(|op| takes(op.result(spyre::artifact::Lane::I64)));
    let missing: Vec<_> =
        unary.chain(binary.map(|op| op.name())).filter(|name| !has(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_smallest_number_over_minus_one_wraps_and_zero_is_a_fault() -> Result<(), Failure> {
    let bed = Bed::open()?;
    for op in ["div", "floor_div", "rem", "modulo"] {
        let text = format!(
            "kernel k(i) {{\nin a: int32[i]\nin b: int32[i]\nout y: int32[i]\ny = {op}(a, b)\n}}"
        );
        let least = i64::from(i32::MIN);
        let int32 = |numbers: &[i64]| array(DType::Int32, numbers);
        let mut arrays = [int32(&[least]), int32(&[-1]), int32(&[0])];
        let expected = if op.contains("div") { least } else { 0 };
        assert_eq!(results(&bed, &text, &mut arrays)?, [vec![expected], vec![expected]], "{op}");
        let kernel: Kernel = text.parse()?;
        let arrays = [int32(&[5]), int32(&[0]), int32(&[0])];
        let failure = Bed::open()?.run(&kernel, &[], &arrays).expect_err("it has no result");
        assert!(failure.to_string().contains("zero"), "{op}: {failure}");
    }
    Ok(())
}
