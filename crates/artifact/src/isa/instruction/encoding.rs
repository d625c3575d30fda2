//! Instructions as 16 bytes each: opcode, a, b, c, d (32 bits), e (64 bits), little-endian.
//!
//! Opcodes leave room between families: 0x01 control, 0x10 memory, 0x18 sources, 0x20 elementwise,
//! 0x30 reductions, 0x40 correction. 0x00 and 0xFF never get a meaning, so that empty and erased
//! memory is refused. Every field without a meaning must be zero: an instruction has one encoding.

use spyre_numerics::DataFormat;

use super::{
    BinaryOp, CompareOp, Constant, Coordinates, Dim, INSTRUCTION_BYTES, Instruction, Operand,
    OrderOp, ReduceOp, Register, ScalarWord, ScanOp, ScatterOp, SeekOp, Tile, UnaryOp,
};
use crate::isa::wire::Reader;
use crate::{Error, Expected};

const BEGIN: u8 = 0x01;
const END: u8 = 0x02;
const SKIP_UNLESS: u8 = 0x03;
const SKIP_UNLESS_ANY: u8 = 0x04;
const LOAD: u8 = 0x10;
const STORE: u8 = 0x11;
const GATHER: u8 = 0x12;
const SCATTER: u8 = 0x13;
const CONSTANT: u8 = 0x18;
const SCALAR: u8 = 0x19;
const INDEX: u8 = 0x1A;
const EXTENT: u8 = 0x1B;
const RANDOM: u8 = 0x1C;
const UNARY: u8 = 0x20;
const BINARY: u8 = 0x21;
const COMPARE: u8 = 0x22;
const SELECT: u8 = 0x23;
const CONVERT: u8 = 0x24;
const ROUND: u8 = 0x25;
const REDUCE: u8 = 0x30;
const DOT: u8 = 0x31;
const SCAN: u8 = 0x32;
const SEEK: u8 = 0x33;
const ORDER: u8 = 0x34;
const MULTIPLY: u8 = 0x35;
const PATCH: u8 = 0x40;

/// Coordinates take c, most of d and most of e. This is where what else there is to say begins: how
/// it is done, in d; and one more than the mask's register, in e.
const HOW_BIT: u32 = 28;
const MASK_BIT: u32 = 56;

/// The fields of one encoded instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fields {
    opcode: u8,
    a: u8,
    b: u8,
    c: u8,
    d: u32,
    e: u64,
}

impl Instruction {
    /// Its 16 bytes.
    pub fn encode(&self) -> [u8; INSTRUCTION_BYTES] {
        self.fields().bytes()
    }

    /// The instruction in 16 bytes. `offset` is where they begin, for errors.
    pub fn decode(bytes: &[u8; INSTRUCTION_BYTES], offset: usize) -> Result<Self, Error> {
        let fields = Fields::read(bytes)?;
        let instruction = fields.instruction(offset)?;
        fields.check_spare(instruction.fields(), offset)?;
        Ok(instruction)
    }

    fn fields(&self) -> Fields {
        let zero = Fields::default();
        match *self {
            Self::Begin { dim, tile, is_parallel } => Fields {
                opcode: BEGIN,
                a: dim.0,
                b: is_parallel.into(),
                d: tile.elements(),
                ..zero
            },
            Self::End => Fields { opcode: END, ..zero },
            Self::SkipUnless { scalar, instructions } => {
                Fields { opcode: SKIP_UNLESS, a: scalar.0, d: instructions, ..zero }
            }
            Self::SkipUnlessAny { condition, instructions } => {
                Fields { opcode: SKIP_UNLESS_ANY, a: condition.code(), d: instructions, ..zero }
            }
            Self::Load { target, source } => {
                Fields { opcode: LOAD, a: target.code(), b: source.0, ..zero }
            }
            Self::Store { target, source } => {
                Fields { opcode: STORE, a: target.0, b: source.code(), ..zero }
            }
            Self::Gather { target, source, at, keeps_outside } => {
                let (c, dims, e) = at.fields();
                let d = dims | u32::from(keeps_outside) << HOW_BIT;
                Fields { opcode: GATHER, a: target.code(), b: source.0, c, d, e }
            }
            Self::Scatter { op, target, source, at, mask } => {
                let (c, dims, registers) = at.fields();
                let d = dims | (op as u32) << HOW_BIT;
                let mask = mask.map_or(0, |mask| u64::from(mask.code().saturating_add(1)));
                let e = registers | mask << MASK_BIT;
                Fields { opcode: SCATTER, a: target.0, b: source.code(), c, d, e }
            }
            Self::Constant { target, value } => Fields {
                opcode: CONSTANT,
                a: target.code(),
                b: value.code(),
                e: value.word(),
                ..zero
            },
            Self::Scalar { target, scalar } => {
                Fields { opcode: SCALAR, a: target.code(), b: scalar.0, ..zero }
            }
            Self::Index { target, dim } => {
                Fields { opcode: INDEX, a: target.code(), b: dim.0, ..zero }
            }
            Self::Extent { target, dim } => {
                Fields { opcode: EXTENT, a: target.code(), b: dim.0, ..zero }
            }
            Self::Random { word, target, seed, offset, index } => Fields {
                opcode: RANDOM,
                a: target.code(),
                b: seed.code(),
                c: offset.code(),
                d: word.into(),
                e: index.code().into(),
            },
            Self::Unary { op, target, source } => {
                Fields { opcode: UNARY, a: target.code(), b: source.code(), d: op as u32, ..zero }
            }
            Self::Binary { op, target, left, right } => Fields {
                opcode: BINARY,
                a: target.code(),
                b: left.code(),
                c: right.code(),
                d: op as u32,
                e: 0,
            },
            Self::Compare { op, target, left, right } => Fields {
                opcode: COMPARE,
                a: target.code(),
                b: left.code(),
                c: right.code(),
                d: op as u32,
                e: 0,
            },
            Self::Select { target, condition, yes, no } => {
                let d = no.code().into();
                Fields {
                    opcode: SELECT,
                    a: target.code(),
                    b: condition.code(),
                    c: yes.code(),
                    d,
                    e: 0,
                }
            }
            Self::Convert { target, source } => {
                Fields { opcode: CONVERT, a: target.code(), b: source.code(), ..zero }
            }
            Self::Round { target, source, format } => Fields {
                opcode: ROUND,
                a: target.code(),
                b: source.code(),
                d: format as u32,
                ..zero
            },
            Self::Reduce { op, target, source } => {
                Fields { opcode: REDUCE, a: target.code(), b: source.code(), d: op as u32, ..zero }
            }
            Self::Dot { target, left, right, k } => {
                Fields { opcode: DOT, a: target.code(), b: left.0, c: right.0, d: k.0.into(), e: 0 }
            }
            Self::Scan { op, target, source, carry, dim } => Fields {
                opcode: SCAN,
                a: target.code(),
                b: source.code(),
                c: carry.code(),
                d: op as u32,
                e: dim.0.into(),
            },
            Self::Seek { op, value, place, source, dim } => Fields {
                opcode: SEEK,
                a: value.code(),
                b: place.code(),
                c: source.code(),
                d: op as u32,
                e: dim.0.into(),
            },
            Self::Order { op, places, values, source, dim } => Fields {
                opcode: ORDER,
                a: places.code(),
                b: values.code(),
                c: source.code(),
                d: op as u32,
                e: dim.0.into(),
            },
            Self::Multiply { target, left, right } => Fields {
                opcode: MULTIPLY,
                a: target.code(),
                b: left.code(),
                c: right.code(),
                ..zero
            },
            Self::Patch { source_word, target_word, words } => {
                let e = u64::from(words) << 32 | u64::from(target_word);
                Fields { opcode: PATCH, d: source_word, e, ..zero }
            }
        }
    }
}

impl Fields {
    fn read(bytes: &[u8; INSTRUCTION_BYTES]) -> Result<Self, Error> {
        let mut reader = Reader::new("instruction", bytes, 0);
        Ok(Self {
            opcode: reader.u8("opcode")?,
            a: reader.u8("a")?,
            b: reader.u8("b")?,
            c: reader.u8("c")?,
            d: reader.u32("d")?,
            e: reader.u64("e")?,
        })
    }

    fn bytes(self) -> [u8; INSTRUCTION_BYTES] {
        let mut bytes = [self.opcode, self.a, self.b, self.c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes[4..8].copy_from_slice(&self.d.to_le_bytes());
        bytes[8..].copy_from_slice(&self.e.to_le_bytes());
        bytes
    }

    fn instruction(self, offset: usize) -> Result<Instruction, Error> {
        let Self { opcode, a, b, c, d, e } = self;
        let [target, source, third] = [a, b, c].map(|code| Register(code.into()));
        let left = source;
        let right = third;
        Ok(match opcode {
            BEGIN => Instruction::Begin {
                dim: Dim(a),
                tile: Tile::from(d),
                is_parallel: self.flag(offset)?,
            },
            END => Instruction::End,
            SKIP_UNLESS => Instruction::SkipUnless { scalar: ScalarWord(a), instructions: d },
            SKIP_UNLESS_ANY => Instruction::SkipUnlessAny { condition: target, instructions: d },
            LOAD => Instruction::Load { target, source: Operand(b) },
            STORE => Instruction::Store { target: Operand(a), source },
            GATHER => {
                let (at, how) = self.coordinates(offset)?;
                let keeps_outside = how == 1;
                Instruction::Gather { target, source: Operand(b), at, keeps_outside }
            }
            SCATTER => {
                let (at, how) = self.coordinates(offset)?;
                let unknown = || refuse("scatter", offset + 7, how.into(), "a known code");
                let op = ScatterOp::from_code(how).ok_or_else(unknown)?;
                let mask = ((e >> MASK_BIT) as u8).checked_sub(1).map(|mask| Register(mask.into()));
                Instruction::Scatter { op, target: Operand(a), source, at, mask }
            }
            CONSTANT => Instruction::Constant { target, value: self.constant(offset)? },
            SCALAR => Instruction::Scalar { target, scalar: ScalarWord(b) },
            INDEX => Instruction::Index { target, dim: Dim(b) },
            EXTENT => Instruction::Extent { target, dim: Dim(b) },
            RANDOM => Instruction::Random {
                word: self.code("word", Some, offset)?,
                target,
                seed: source,
                offset: third,
                index: Register(self.last("register", offset)?.into()),
            },
            UNARY => {
                let op = self.code("unary operation", UnaryOp::from_code, offset)?;
                Instruction::Unary { op, target, source }
            }
            BINARY => {
                let op = self.code("binary operation", BinaryOp::from_code, offset)?;
                Instruction::Binary { op, target, left, right }
            }
            COMPARE => {
                let op = self.code("comparison", CompareOp::from_code, offset)?;
                Instruction::Compare { op, target, left, right }
            }
            SELECT => {
                let no = self.code("register", |code| Some(Register(code.into())), offset)?;
                Instruction::Select { target, condition: source, yes: third, no }
            }
            CONVERT => Instruction::Convert { target, source },
            ROUND => {
                let format = self.code("format", format_from_code, offset)?;
                Instruction::Round { target, source, format }
            }
            REDUCE => {
                let op = self.code("reduction", ReduceOp::from_code, offset)?;
                Instruction::Reduce { op, target, source }
            }
            DOT => {
                let k = self.code("dim", |code| Some(Dim(code)), offset)?;
                Instruction::Dot { target, left: Operand(b), right: Operand(c), k }
            }
            SCAN => {
                let op = self.code("scan", ScanOp::from_code, offset)?;
                let dim = Dim(self.last("dim", offset)?);
                Instruction::Scan { op, target, source, carry: third, dim }
            }
            SEEK => {
                let op = self.code("seek", SeekOp::from_code, offset)?;
                let dim = Dim(self.last("dim", offset)?);
                Instruction::Seek { op, value: target, place: source, source: third, dim }
            }
            ORDER => {
                let op = self.code("order", OrderOp::from_code, offset)?;
                let places = target;
                let values = source;
                let dim = Dim(self.last("dim", offset)?);
                Instruction::Order { op, places, values, source: third, dim }
            }
            MULTIPLY => Instruction::Multiply { target, left, right },
            PATCH => Instruction::Patch {
                source_word: d,
                target_word: e as u32,
                words: (e >> 32) as u32,
            },
            _ => return Err(refuse("opcode", offset, opcode.into(), "a known opcode")),
        })
    }

    fn flag(self, offset: usize) -> Result<bool, Error> {
        match self.b {
            0 | 1 => Ok(self.b == 1),
            found => Err(refuse("loop flags", offset + 2, found.into(), "0 or 1 (parallel)")),
        }
    }

    /// Coordinates that registers give, and the mode of the gather or scatter.
    fn coordinates(self, offset: usize) -> Result<(Coordinates, u8), Error> {
        let dims = self.d & ((1 << HOW_BIT) - 1);
        let registers = self.e & ((1 << MASK_BIT) - 1);
        let at = Coordinates::from_fields(self.c, dims, registers);
        let at = at.ok_or_else(|| refuse("axes", offset + 3, self.c.into(), "at most 7 axes"))?;
        Ok((at, (self.d >> HOW_BIT) as u8))
    }

    fn constant(self, offset: usize) -> Result<Constant, Error> {
        let wanted = "0 (float), 1 (integer) or 2 (truth value, its word 0 or 1)";
        Constant::from_code(self.b, self.e)
            .ok_or_else(|| refuse("constant kind", offset + 2, self.b.into(), wanted))
    }

    /// The meaning of field d, which holds one byte in most instructions.
    fn code<T>(
        self,
        field: &'static str,
        meaning: impl Fn(u8) -> Option<T>,
        offset: usize,
    ) -> Result<T, Error> {
        let known = u8::try_from(self.d).ok().and_then(meaning);
        known.ok_or_else(|| refuse(field, offset + 4, self.d.into(), "a known code"))
    }

    /// Field e, where it holds one byte.
    fn last(self, field: &'static str, offset: usize) -> Result<u8, Error> {
        u8::try_from(self.e).map_err(|_| refuse(field, offset + 8, self.e, "a known code"))
    }

    /// Refuses bits that the instruction does not use.
    fn check_spare(self, used: Self, offset: usize) -> Result<(), Error> {
        let found = self.bytes();
        let used = used.bytes();
        match (0..INSTRUCTION_BYTES).find(|&at| found[at] != used[at]) {
            None => Ok(()),
            Some(at) => Err(Error::Unexpected {
                part: "instruction",
                offset: offset + at,
                field: "unused byte",
                found: found[at].into(),
                expected: Expected::Exactly(used[at].into()),
            }),
        }
    }
}

fn refuse(field: &'static str, offset: usize, found: u64, expected: &'static str) -> Error {
    let expected = Expected::Kind(expected);
    Error::Unexpected { part: "instruction", offset, field, found, expected }
}

/// The format of this code.
pub(in crate::isa) fn format_from_code(code: u8) -> Option<DataFormat> {
    DataFormat::ALL.into_iter().find(|&format| format as u8 == code)
}
