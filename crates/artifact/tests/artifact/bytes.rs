//! The forms are a contract: these bytes never change within a version.

use spyre_artifact::*;
use spyre_numerics::DataFormat;

use crate::samples;

#[test]
fn instructions_are_these_bytes() {
    let select = Instruction::Select {
        target: Register(1),
        condition: Register(2),
        yes: Register(3),
        no: Register(4),
    };
    let target = Register(1);
    let source = Register(2);
    let dim = Dim(3);
    let one =
        |axis, dim, register| Coordinate { axis, dim: Dim(dim), register: Register(register) };
    let at = Coordinates::new(&[one(0, 15, 6), one(2, 1, 7)]).expect("two axes");
    let scatter = Instruction::Scatter {
        op: ScatterOp::Max,
        target: Operand(3),
        source,
        at,
        mask: Some(target),
    };
    let pins: [(Instruction, [u8; 16]); 13] = [
        (
            Instruction::Gather { target, source: Operand(3), at, keeps_outside: true },
            [0x12, 1, 3, 5, 0x1F, 0, 0, 0x10, 6, 7, 0, 0, 0, 0, 0, 0],
        ),
        (scatter, [0x13, 3, 2, 5, 0x1F, 0, 0, 0x40, 6, 7, 0, 0, 0, 0, 0, 2]),
        (
            Instruction::Begin { dim: Dim(7), tile: Tile::from(0x0102_0304), is_parallel: true },
            [1, 7, 1, 0, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        (Instruction::End, [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (
            Instruction::Constant { target: Register(5), value: Constant::Float(1.0) },
            [0x18, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F],
        ),
        (select, [0x23, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (
            Instruction::Round {
                target: Register(1),
                source: Register(2),
                format: DataFormat::IeeeFp64,
            },
            [0x25, 1, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        (Instruction::Extent { target, dim }, [0x1B, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (
            Instruction::Random {
                word: 3,
                target,
                seed: source,
                offset: Register(4),
                index: Register(5),
            },
            [0x1C, 1, 2, 4, 3, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0],
        ),
        (
            Instruction::Scan { op: ScanOp::Max, target, source, carry: Register(4), dim },
            [0x32, 1, 2, 4, 3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0],
        ),
        (
            Instruction::Seek { op: SeekOp::ArgMax, value: target, place: source, source, dim },
            [0x33, 1, 2, 2, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0],
        ),
        (
            Instruction::Order {
                op: OrderOp::Descending,
                places: target,
                values: source,
                source: Register(4),
                dim,
            },
            [0x34, 1, 2, 4, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0],
        ),
        (
            Instruction::Patch { source_word: 1, target_word: 2, words: 3 },
            [0x40, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0],
        ),
    ];
    for (instruction, bytes) in pins {
        assert_eq!(instruction.encode(), bytes, "{instruction}");
        assert_eq!(Instruction::decode(&bytes, 0), Ok(instruction));
    }
}

#[test]
fn a_code_image_is_these_bytes() -> Result<(), Error> {
    let image = CodeImage::new(Code::Compute(samples::add()?), vec![0xC0, 0xDE])?;
    let bytes = image.encode();
    assert_eq!(bytes.len(), 128 + 256 + 128);
    assert_eq!(&bytes[..8], b"SPYRCODE");
    let field =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let fields: Vec<u32> = (8..60).step_by(4).map(field).collect();
    // version, kind, image bytes (two halves), program, constants, counts
    assert_eq!(fields, [2, 1, 512, 0, 128, 144, 384, 2, 1, 3, 3, 0, 6]);
    assert!(bytes[60..124].iter().all(|&byte| byte == 0));

    #[rustfmt::skip]
    let program = [
        1, 3, 3, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, // counts
        1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, // three f32 registers over d0
        15, 1, 1, 0, 15, 1, 1, 0, 15, 2, 1, 0, // two halves to read, one to write
        0, 0, 0, 0, 0, 0, 0, 0,
        0x01, 0, 1, 0, 0x00, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // begin d0 tile 4096 parallel
        0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // r0 = load o0
        0x10, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // r1 = load o1
        0x21, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // r2 = add r0 r1
        0x11, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // store o2 r2
        0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // end
    ];
    assert_eq!(bytes[128..128 + 144], program);
    assert_eq!(bytes[384..388], [0xC0, 0xDE, 0, 0]);
    let crc = crc(&[&bytes[..124], &bytes[128..]]);
    assert_eq!(bytes[124..128], crc.to_le_bytes());
    Ok(())
}

#[test]
fn an_entry_image_is_these_bytes() -> Result<(), Error> {
    let handle = HandleWords([0x11, 0x2200, 0x33_0000]);
    let mut entry = EntryImage::new(handle, TableShape { operands: 1, scalars: 1 }, 0x1000)?;
    *entry.table_mut().last_mut().expect("a scalar") = 0x0807_0605_0403_0201;
    let bytes = entry.encode();
    assert_eq!(bytes.len(), 128 + 384); // 43 words
    assert_eq!(&bytes[..8], b"SPYRENTR");
    assert_eq!(bytes[8..16], [2, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(bytes[16..24], 512_u64.to_le_bytes());
    assert_eq!(
        bytes[24..48],
        [0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0x22, 0, 0, 0, 0, 0, 0, 0, 0, 0x33, 0, 0, 0, 0, 0]
    );
    assert_eq!(bytes[48..64], [1, 0, 0, 0, 1, 0, 0, 0, 128, 0, 0, 0, 43, 0, 0, 0]);
    assert_eq!(bytes[64..72], 0x1000_u64.to_le_bytes());
    assert_eq!(bytes[128 + 42 * 8..128 + 43 * 8], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bytes[124..128], crc(&[&bytes[..124]]).to_le_bytes());
    Ok(())
}

/// CRC-32 as zip has it, one bit at a time: the plain reference.
pub(crate) fn crc(parts: &[&[u8]]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    };
    !parts.iter().flat_map(|part| part.iter()).fold(!0, step)
}
