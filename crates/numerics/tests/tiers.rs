//! Every conversion, on every tier, against the plain scalar reference: bit for bit.

use proptest::prelude::*;
use spyre_numerics::{Converter, DataFormat, Error, Overflow, Scalar, Tier};

fn reference(from: DataFormat, to: DataFormat, source: &[u8]) -> Vec<u8> {
    if from == to && from != DataFormat::Bool {
        return source.to_vec(); // a copy keeps a NaN's payload, which arithmetic would not
    }
    let width = from.element_bytes().expect("addressable");
    let convert = |element| Scalar::decode(from, element).and_then(|scalar| scalar.encode(to));
    source.chunks(width).flat_map(|element| convert(element).expect("addressable")).collect()
}

fn converted(from: DataFormat, to: DataFormat, source: &[u8], tier: Tier) -> Vec<u8> {
    let elements = source.len() / from.element_bytes().expect("addressable");
    let mut target = vec![0xA5; elements * to.element_bytes().expect("addressable")];
    let converter = Converter::with_tier(from, to, tier).expect("available");
    converter.convert(source, &mut target).expect("as many elements");
    target
}

fn tiers() -> impl Iterator<Item = Tier> {
    Tier::ALL.into_iter().filter(|tier| tier.is_available())
}

fn is_complex(format: DataFormat) -> bool {
    matches!(format, DataFormat::Complex32 | DataFormat::Complex64 | DataFormat::Complex128)
}

/// Returns true if two elements are the same; any NaN is as good as another.
fn same(format: DataFormat, left: &[u8], right: &[u8]) -> bool {
    let part = match format {
        DataFormat::Complex32 => Some(DataFormat::IeeeFp16),
        DataFormat::Complex64 => Some(DataFormat::IeeeFp32),
        DataFormat::Complex128 => Some(DataFormat::IeeeFp64),
        _ => None,
    };
    if let Some(part) = part {
        let left = left.split_at(left.len() / 2);
        let right = right.split_at(right.len() / 2);
        return same(part, left.0, right.0) && same(part, left.1, right.1);
    }
    let is_nan = |bytes| match Scalar::decode(format, bytes) {
        Ok(Scalar::Single(value)) => value.is_nan(),
        Ok(Scalar::Double(value)) => value.is_nan(),
        _ => false,
    };
    left == right || (is_nan(left) && is_nan(right))
}

#[track_caller]
fn check(from: DataFormat, to: DataFormat, source: &[u8]) {
    let expected = reference(from, to, source);
    for tier in tiers() {
        let given = converted(from, to, source, tier);
        if given != expected {
            let width = to.element_bytes().expect("addressable");
            let mut pairs = given.chunks(width).zip(expected.chunks(width));
            // A move between a complex number and its parts keeps a NaN's payload,
            // which arithmetic would not.
            let has_parts = is_complex(from) || is_complex(to);
            let differs = |(given, expected)| !(has_parts && same(to, given, expected));
            let first = pairs.position(|pair| pair.0 != pair.1 && differs(pair));
            assert!(first.is_none(), "{from} -> {to} with {tier}: element {first:?} differs");
        }
    }
}

#[test]
fn all_16_bit_codes_convert_alike_on_every_tier() {
    let codes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for from in DataFormat::addressable().filter(|format| format.element_bytes() == Some(2)) {
        for to in DataFormat::addressable() {
            check(from, to, &codes);
        }
    }
}

#[test]
fn all_8_bit_codes_convert_alike_on_every_tier() {
    let codes: Vec<u8> = (0..=u8::MAX).collect();
    for from in DataFormat::addressable().filter(|format| format.element_bytes() == Some(1)) {
        for to in DataFormat::addressable() {
            check(from, to, &codes);
        }
    }
}

#[test]
fn singles_at_every_rounding_edge_convert_alike_on_every_tier() {
    let edges = [0, 1, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x2001, 0x7FFF, 0x8000, 0x8001];
    let source: Vec<u8> = (0..=u16::MAX)
        .flat_map(|high| edges.map(|low: u32| u32::from(high) << 16 | low))
        .flat_map(u32::to_le_bytes)
        .collect();
    for to in DataFormat::addressable() {
        check(DataFormat::IeeeFp32, to, &source);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_convert_alike_on_every_tier_between_all_formats(
        bytes in prop::collection::vec(any::<u8>(), 0..9000),
    ) {
        for from in DataFormat::addressable() {
            let width = from.element_bytes().expect("addressable");
            for to in DataFormat::addressable() {
                check(from, to, &bytes[..bytes.len() / width * width]);
            }
        }
    }
}

#[test]
fn casts_are_those_of_pytorch() {
    let mut elements = std::collections::HashMap::new();
    let mut casts = 0;
    for line in include_str!("data/torch_casts.txt").lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        match fields[..] {
            ["elements", name, hex] => _ = elements.insert(name, bytes(hex)),
            ["cast", from, to, hex] => {
                check_torch_cast(from, to, &elements[from], &bytes(hex));
                casts += 1;
            }
            _ => assert!(line.starts_with('#'), "{line}"),
        }
    }
    assert_eq!(casts, 21 * 21);
}

fn bytes(hex: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(pair).collect()
}

fn check_torch_cast(from: &str, to: &str, source: &[u8], expected: &[u8]) {
    let format = |name| spyre_numerics::DType::from_name(name).expect("a dtype").host_format();
    let from = format(from);
    let to = format(to);
    let given = converted(from, to, source, Tier::detected());
    let widths = (from.element_bytes().expect("some"), to.element_bytes().expect("some"));
    let pairs = given.chunks(widths.1).zip(expected.chunks(widths.1));
    for (element, (given, expected)) in source.chunks(widths.0).zip(pairs) {
        let value = Scalar::decode(from, element).expect("addressable");
        // PyTorch gives two answers here, one for a vector and one for a single element.
        let is_open = match to {
            DataFormat::SenUInt32 => !(0.0..4_294_967_296.0).contains(&value.to_f64()),
            _ => value.to_f64().is_nan() && widths.0 == 1,
        };
        let alike = same(to, given, expected);
        assert!(
            alike || is_open,
            "{from} -> {to}: {value:?} gave {given:02x?}, torch {expected:02x?}"
        );
    }
}

#[test]
fn saturation_stops_at_the_largest_number() {
    let source: Vec<u8> =
        [f32::INFINITY, -1e38, 1.0, f32::NAN].into_iter().flat_map(f32::to_le_bytes).collect();
    let largest = [
        (DataFormat::Sen169Fp16, 8_573_157_376.0),
        (DataFormat::IeeeFp16, 65504.0),
        (DataFormat::Sen143Fp8, 448.0),
        (DataFormat::Fp8E5M2, 57344.0),
    ];
    for (to, max) in largest {
        let converter = Converter::new(DataFormat::IeeeFp32, to)
            .expect("addressable")
            .with_overflow(Overflow::Saturate);
        let width = to.element_bytes().expect("addressable");
        let mut target = vec![0; 4 * width];
        converter.convert(&source, &mut target).expect("as many elements");
        let values: Vec<f32> = target
            .chunks(width)
            .map(|element| Scalar::decode(to, element).expect("addressable").to_f32())
            .collect();
        assert_eq!(values[..3], [max, -max, 1.0]);
        assert!(values[3].is_nan());
    }
}

#[test]
fn a_wrong_length_writes_nothing_and_names_the_numbers() {
    let converter =
        Converter::new(DataFormat::IeeeFp32, DataFormat::BFloat16).expect("addressable");
    let mut target = [0xA5; 6];
    let error = converter.convert(&[0; 8], &mut target).expect_err("two elements into three");
    assert_eq!(target, [0xA5; 6]);
    assert_eq!(
        error.to_string(),
        "8 bytes of DataFormats.IEEE_FP32 are not as many elements as 6 bytes of DataFormats.BFLOAT16"
    );
}

#[test]
fn formats_without_whole_bytes_are_refused() {
    let error = Converter::new(DataFormat::SenInt4, DataFormat::IeeeFp32).expect_err("four bits");
    assert_eq!(error, Error::NotAddressable { format: DataFormat::SenInt4 });
}
