//! SEN169 against the published vectors and checksums, through the public converters.

use sha2::{Digest, Sha256};
use spyre_numerics::{Converter, DataFormat, Sen169, Tier};

/// The result of converting every 16-bit code from `from` to `to`.
fn table(from: DataFormat, to: DataFormat, tier: Tier) -> Vec<u8> {
    let codes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let width = to.element_bytes().expect("addressable");
    let mut results = vec![0; width * 65_536];
    let converter = Converter::with_tier(from, to, tier).expect("available");
    converter.convert(&codes, &mut results).expect("as many elements");
    results
}

#[test]
fn the_five_tables_have_their_published_checksums() {
    use DataFormat::{BFloat16, IeeeFp16, IeeeFp32, Sen169Fp16};
    let published = [
        (IeeeFp16, Sen169Fp16, "cf65c612903e610a"),
        (BFloat16, Sen169Fp16, "092abc85c85b6a27"),
        (Sen169Fp16, IeeeFp32, "557c3e3a038f0118"),
        (Sen169Fp16, IeeeFp16, "7575c1dbfa4cee78"),
        (Sen169Fp16, BFloat16, "277ee5c3e0502314"),
    ];

    for tier in Tier::ALL.into_iter().filter(|tier| tier.is_available()) {
        for (from, to, expected) in published {
            let digest = Sha256::digest(table(from, to, tier));
            let start: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(start, expected, "{from} -> {to} with {tier}");
        }
    }
}

#[test]
fn every_published_vector_holds() {
    let mut rows = 0;
    for line in include_str!("data/dl16_vectors.csv").lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let hex = |text: &str| {
            u32::from_str_radix(text.trim_start_matches("0x"), 16).expect("a hexadecimal number")
        };
        let number = |text| Sen169::from_bits(hex(text) as u16).to_f32();
        let result = match fields[0] {
            "f32_to_dl16" => f32::from_bits(hex(fields[1])),
            "mul" => number(fields[1]) * number(fields[2]),
            "add" => number(fields[1]) + number(fields[2]),
            kind => panic!("unknown kind {kind}"),
        };
        assert_eq!(Sen169::from_f32(result).to_bits(), hex(fields[3]) as u16, "{line}");
        rows += 1;
    }
    assert_eq!(rows, 526);
}

#[test]
fn every_printed_example_holds() {
    let encoded = [
        (0x0000_0000, 0x0000),
        (0x8000_0000, 0x8000),
        (0x3F80_0000, 0x3E00),
        (0xBF80_0000, 0xBE00),
        (0x4000_0000, 0x4000),
        (0x3F00_0000, 0x3C00),
        (0x3F80_1FFF, 0x3E00),
        (0x3F80_2000, 0x3E01),
        (0x3F80_2001, 0x3E01),
        (0x3F80_6000, 0x3E02),
        (0x3FFF_E000, 0x4000),
        (0x3DCC_CCCD, 0x3733),
        (0x3EAA_AAAB, 0x3AAB),
        (0x4049_0FDB, 0x4124),
        (0x402D_F854, 0x40B8),
        (0x477F_E000, 0x5E00),
        (0x4780_0000, 0x5E00),
        (0x43E0_0000, 0x4F80),
        (0xC61C_4000, 0xD871),
        (0x4E6E_6B28, 0x79BA),
        (0x4FFF_8000, 0x7FFE),
        (0x4FFF_9FFF, 0x7FFE),
        (0x4FFF_A000, 0x7FFF),
        (0x5000_0000, 0x7FFF),
        (0x7F7F_FFFF, 0x7FFF),
        (0x7F80_0000, 0x7FFF),
        (0x7FC0_0000, 0x7FFF),
        (0xFF80_0000, 0xFFFF),
        (0x3000_0000, 0x0000),
        (0x3000_2000, 0x0001),
        (0x3000_4000, 0x0001),
        (0x3020_0000, 0x0080),
        (0x3080_0000, 0x0200),
        (0x2FFF_FCB9, 0x0000),
        (0x2EDB_E6FF, 0x0000),
        (0x0000_0001, 0x0000),
        (0x3880_0000, 0x2200),
        (0x3380_0000, 0x0E00),
    ];
    for (single, code) in encoded {
        assert_eq!(Sen169::from_f32(f32::from_bits(single)).to_bits(), code, "{single:#010x}");
    }

    let halves = table(DataFormat::Sen169Fp16, DataFormat::IeeeFp16, Tier::Portable);
    let to_half = |code: usize| u16::from_le_bytes([halves[2 * code], halves[2 * code + 1]]);
    let expected = [
        (0x5DFF, 0x7BFE),
        (0x5E00, 0x7C00),
        (0x21FF, 0x03FF),
        (0x2000, 0x0200),
        (0x0E00, 0x0001),
        (0x0DFF, 0x0001),
        (0x0C00, 0x0000),
        (0x7FFF, 0x7E00),
    ];
    for (code, half) in expected {
        assert_eq!(to_half(code), half, "{code:#06x}");
    }
}
