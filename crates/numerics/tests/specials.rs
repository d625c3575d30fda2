//! SEN169's merged NaN-Infinity on the way to a device, on it, and back: all codes, on every tier.

use spyre_numerics::DataFormat::{self, BFloat16, IeeeFp16, IeeeFp32, IeeeFp64, Sen169Fp16};
use spyre_numerics::{Converter, Sen169, Specials, Tier};

fn converter(from: DataFormat, to: DataFormat, tier: Tier, specials: Specials) -> Converter {
    Converter::with_tier(from, to, tier).expect("available").with_specials(specials)
}

fn tiers() -> impl Iterator<Item = Tier> {
    Tier::ALL.into_iter().filter(|tier| tier.is_available())
}

/// Every 16-bit code, in an order that has corners (subnormals) both near specials and far from them.
fn codes() -> Vec<u16> {
    let in_order = 0..=u16::MAX;
    in_order.clone().chain(in_order.map(|code| code.wrapping_mul(40_503))).collect()
}

#[track_caller]
fn check(from: DataFormat, to: DataFormat, specials: Specials, expected: impl Fn(u16) -> u16) {
    let codes = codes();
    let source: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
    for tier in tiers() {
        let mut target = vec![0; source.len()];
        converter(from, to, tier, specials).convert(&source, &mut target).expect("as many");
        for (&code, given) in codes.iter().zip(target.chunks(2)) {
            let given = u16::from_le_bytes([given[0], given[1]]);
            assert_eq!(given, expected(code), "{from} {code:#06x} -> {to} with {tier}");
        }
    }
}

fn single(specials: Specials, value: f32) -> u16 {
    let mut code = [0; 2];
    let converter = converter(IeeeFp32, Sen169Fp16, Tier::detected(), specials);
    converter.convert(&value.to_le_bytes(), &mut code).expect("one");
    u16::from_le_bytes(code)
}

/// A half as a device sees it arrive: exponent 31 is a binade like the one below it.
fn arriving_half(code: u16) -> f32 {
    let sign = if code & 0x8000 == 0 { 1.0 } else { -1.0 };
    let fraction = f32::from(code & 0x3FF) / 1024.0;
    match i32::from(code >> 10 & 31) {
        0 => sign * fraction * 2f32.powi(-14),
        exponent => sign * (1.0 + fraction) * 2f32.powi(exponent - 15),
    }
}

#[test]
fn the_largest_exponent_of_an_arriving_half_is_one_more_binade() {
    let expected = |code| Sen169::from_f32(arriving_half(code)).to_bits();
    check(IeeeFp16, Sen169Fp16, Specials::Arriving, expected);
    let number = |code| Sen169::from_bits(expected(code)).to_f32();
    assert_eq!([number(0x7C00), number(0xFC00), number(0x7E00)], [65536.0, -65536.0, 98304.0]);
}

#[test]
fn an_arriving_bfloat16_is_no_further_out_than_the_largest_number() {
    check(BFloat16, Sen169Fp16, Specials::Arriving, |code| {
        let value = f32::from_bits(u32::from(code) << 16);
        let largest = Sen169::MAX.to_f32();
        if value.is_nan() {
            return 0x7FFF | code & 0x8000;
        }
        Sen169::from_f32(value.clamp(-largest, largest)).to_bits()
    });
}

#[test]
fn an_arriving_single_is_no_further_out_than_the_largest_number() {
    let arriving = |value| single(Specials::Arriving, value);
    assert_eq!(arriving(f32::INFINITY), 0x7FFE);
    assert_eq!(arriving(f32::NEG_INFINITY), 0xFFFE);
    assert_eq!(arriving(f32::MIN), 0xFFFE);
    assert_eq!(arriving(8_573_157_376.0), 0x7FFE);
    assert_eq!(arriving(-65504.0), 0xDE00);
    assert_eq!(arriving(f32::NAN), 0x7FFF);

    let mut code = [0; 2];
    let double = converter(IeeeFp64, Sen169Fp16, Tier::detected(), Specials::Arriving);
    double.convert(&f64::NEG_INFINITY.to_le_bytes(), &mut code).expect("one");
    assert_eq!(u16::from_le_bytes(code), 0xFFFE);
}

#[test]
fn the_special_is_past_every_number_of_its_sign() {
    let value = |code: u16| match code & 0x7FFF {
        0x7FFF if code == 0x7FFF => f32::INFINITY,
        0x7FFF => f32::NEG_INFINITY,
        _ => Sen169::from_bits(code).to_f32(),
    };
    for specials in [Specials::Arriving, Specials::Ordered] {
        check(Sen169Fp16, IeeeFp16, specials, |code| half::f16::from_f32(value(code)).to_bits());
        check(Sen169Fp16, BFloat16, specials, |code| half::bf16::from_f32(value(code)).to_bits());
    }
    let source: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for tier in tiers() {
        let mut singles = vec![0; 2 * source.len()];
        let converter = converter(Sen169Fp16, IeeeFp32, tier, Specials::Ordered);
        converter.convert(&source, &mut singles).expect("as many");
        for (code, given) in (0..=u16::MAX).zip(singles.chunks(4)) {
            assert_eq!(given, value(code).to_le_bytes(), "{code:#06x} with {tier}");
        }
    }
}

#[test]
fn results_that_are_infinite_too_large_or_no_number_are_stored_as_the_special() {
    let stored = |value| single(Specials::Ordered, value);
    assert_eq!(stored(f32::INFINITY), 0x7FFF);
    assert_eq!(stored(f32::NEG_INFINITY), 0xFFFF);
    assert_eq!(stored(-1e38), 0xFFFF);
    assert_eq!([stored(f32::NAN), stored(-f32::NAN)], [0x7FFF, 0x7FFF]);
    assert_eq!(stored(f32::from_bits(0x4FFF_9FFF)), 0x7FFE);
    check(BFloat16, Sen169Fp16, Specials::Ordered, |code| {
        let value = f32::from_bits(u32::from(code) << 16);
        Sen169::from_f32(if value.is_nan() { f32::NAN } else { value }).to_bits()
    });
    check(IeeeFp16, Sen169Fp16, Specials::Ordered, |code| {
        let value = half::f16::from_bits(code).to_f32();
        Sen169::from_f32(if value.is_nan() { f32::NAN } else { value }).to_bits()
    });
}
