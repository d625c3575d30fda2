use half::bf16;

use super::*;

fn reduce(op: ReduceOp, format: DataFormat, ranks: &[Vec<u8>]) -> Vec<u8> {
    let reducer = Reducer::new(op, format, ranks.len()).expect("a reduction");
    let mut accumulator = vec![0; reducer.accumulator_bytes(ranks[0].len())];
    let mut scratch = accumulator.clone();
    reducer.start(&mut accumulator, &ranks[0]);
    for rank in &ranks[1..] {
        reducer.add(&mut accumulator, rank, &mut scratch);
    }
    let mut result = vec![0; ranks[0].len()];
    reducer.finish(&mut accumulator, &mut result);
    result
}

fn singles(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn floats_are_added_in_the_order_of_ranks() {
    let ranks = [singles(&[1e8]), singles(&[-1e8]), singles(&[0.5])];
    assert_eq!(reduce(ReduceOp::Sum, DataFormat::IeeeFp32, &ranks), singles(&[0.5]));
    let ranks = [singles(&[0.5]), singles(&[1e8]), singles(&[-1e8])];
    assert_eq!(reduce(ReduceOp::Sum, DataFormat::IeeeFp32, &ranks), singles(&[0.0]));
}

#[test]
fn sixteen_bit_floats_are_rounded_once() {
    // One and three times half a step: rounded at each addition they would stay one.
    let half_step = bf16::from_f32(1.0 / 256.0);
    let rank = |value: bf16| value.to_le_bytes().to_vec();
    let ranks = [rank(bf16::ONE), rank(half_step), rank(half_step), rank(half_step)];
    let expected = rank(bf16::from_f32(1.0 + 3.0 / 256.0));
    assert_eq!(reduce(ReduceOp::Sum, DataFormat::BFloat16, &ranks), expected);
}

#[test]
fn averages_factors_and_extremes() {
    let ranks = [singles(&[1.0, f32::NAN, 4.0]), singles(&[2.0, 3.0, -4.0])];
    assert_eq!(reduce(ReduceOp::Avg, DataFormat::IeeeFp32, &ranks)[..4], singles(&[1.5]));
    let scaled = reduce(ReduceOp::PremulSum(0.5), DataFormat::IeeeFp32, &ranks);
    assert_eq!(scaled[..4], singles(&[1.5]));
    let largest = reduce(ReduceOp::Max, DataFormat::IeeeFp32, &ranks);
    assert_eq!(largest, singles(&[2.0, f32::NAN, 4.0]));
    let integers = [vec![200, 7], vec![100, 2]];
    assert_eq!(reduce(ReduceOp::Sum, DataFormat::UInt8, &integers), [44, 9]);
    assert_eq!(reduce(ReduceOp::Avg, DataFormat::UInt8, &integers), [22, 4]);
    assert_eq!(reduce(ReduceOp::BitXor, DataFormat::UInt8, &integers), [172, 5]);
}

#[test]
fn booleans_stay_booleans() {
    let ranks = [vec![0, 1, 2, 0], vec![0, 1, 0, 4], vec![0, 1, 1, 0]];
    assert_eq!(reduce(ReduceOp::Sum, DataFormat::Bool, &ranks), [0, 1, 1, 1]);
    assert_eq!(reduce(ReduceOp::Min, DataFormat::Bool, &ranks), [0, 1, 0, 0]);
    assert_eq!(reduce(ReduceOp::BitXor, DataFormat::Bool, &ranks), [0, 1, 0, 1]);
}

#[test]
fn what_has_no_sum_says_what_to_do() {
    let refused = Reducer::new(ReduceOp::Sum, DataFormat::Fp8E8M0FnU, 2).expect_err("exponents");
    assert!(refused.to_string().contains("convert to float32"), "{refused}");
    assert!(Reducer::new(ReduceOp::BitAnd, DataFormat::IeeeFp32, 2).is_err());
    assert!(Reducer::new(ReduceOp::PremulSum(2.0), DataFormat::IeeeInt32, 2).is_err());
    assert!(Reducer::new(ReduceOp::Max, DataFormat::Complex64, 2).is_err());
}

#[test]
fn floats_of_8_bits_are_summed_as_f32_and_rounded_once() -> Result<(), Error> {
    // 16 + 1 + 1 is 18 in float32; step by step, 17 would be rounded to 16 twice.
    let element = |value: f32| {
        let mut byte = [0];
        let narrow = Converter::new(DataFormat::IeeeFp32, DataFormat::Sen143Fp8);
        narrow.and_then(|narrow| narrow.convert(&value.to_le_bytes(), &mut byte)).map(|()| byte)
    };
    let [large, one, sum] = [16.0, 1.0, 18.0].map(|value| element(value).expect("a pair"));
    let reducer = Reducer::new(ReduceOp::Sum, DataFormat::Sen143Fp8, 3)?;
    let mut accumulator = vec![0; reducer.accumulator_bytes(1)];
    let mut scratch = accumulator.clone();
    let mut result = [0];
    reducer.start(&mut accumulator, &large);
    reducer.add(&mut accumulator, &one, &mut scratch);
    reducer.add(&mut accumulator, &one, &mut scratch);
    reducer.finish(&mut accumulator, &mut result);
    assert_eq!(result, sum);
    Ok(())
}
