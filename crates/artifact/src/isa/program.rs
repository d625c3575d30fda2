//! A program: its rules, its builder, its verifier and its text.

mod builder;
mod correction;
mod disassembly;
mod refusal;
mod verify;

use std::fmt;

use spyre_numerics::DataFormat;

pub use builder::ProgramBuilder;
pub use correction::{CorrectionProgram, Patch};
pub use refusal::Refusal;

use super::instruction::format_from_code;
use super::wire::{Reader, pad};
use super::{
    INSTRUCTION_BYTES, Instruction, Lane, MAX_DIMS, MAX_INSTRUCTIONS, MAX_OPERANDS, MAX_REGISTERS,
    MAX_SCALARS, Operand, Register, Span, TableShape,
};
use crate::{Error, Expected};

/// A verified program. Where one exists, these rules hold:
///
/// 1. **Sizes.** At most 16 dims, 64 registers, 32 operands, 256 scalars and 65,536 instructions.
///    Spans name the program's dims only, operands span at most 8 of them, and every operand's format has a [`Lane`].
/// 2. **Names.** Every dim, register, operand and scalar that an instruction names is declared.
///    `Patch` appears in correction programs only.
/// 3. **Loops.** `Begin` and `End` pair up. A nest opens each dim once, so it is at most 16 deep;
///    loops beside each other may open the same dim again, with another tile.
/// 4. **Skips.** A skip covers at least one instruction, stays inside the innermost loop and skip
///    around it, and covers whole loops only. Skips nest at most 8 deep. The condition of one is a
///    `bool` register.
/// 5. **Open dims.** A register or operand is touched only where all dims that it spans are open:
///    elsewhere its tile has no size.
/// 6. **Written before read.** On every path a register is written before it is read, so no program
///    sees what another left in LX. A loop may run zero times and a skip may be taken, so what they
///    write counts inside them only. `Reduce`, `Dot` and `Multiply` read their target, `Scan` its
///    carry, `Seek` both of its results.
/// 7. **Loads and stores.** They respect the operand's [`Access`] and need a lane that
///    [fits](Lane::fits) its format. A load's register spans at least what the operand does, and
///    broadcasts along the rest. A store's register spans at most what the operand does, and is
///    repeated along the rest. A dim that an operand does not span never moves it: its stride is 0.
/// 8. **Elementwise.** The target spans exactly the union of its inputs, and lanes are what the
///    operation takes and gives. `Constant` and `Scalar` may span anything that is open; the target
///    of `Index` is `i64` over exactly its dim, that of `Extent` `i64` over none. `Random` takes and
///    gives `i64`, and its word is one of four.
/// 9. **Reductions.** Target and source have one lane that the operation takes; the target spans
///    strictly less than the source. What goes along a dim has a source that spans it. The target of
///    `Scan` is of its source's type; the carry spans all but the dim, in the source's lane or, for
///    an `f32` source, in `f64`. The value of `Seek` has the source's lane and its place is `i64`,
///    both over all but the dim. The places of `Order` are `i64` and its values of the source's
///    lane, both over all of its span; the loop over the dim is one whole tile.
/// 10. **Products.** `Dot`: both operands are readable, of formats that the `f32` or `f64` target
///     [multiplies](Lane::multiplies), and span `k`; the target spans their other dims, but for those
///     that are summed over like `k`, which both operands span. `Multiply`: all three registers have
///     one lane, `f32`, `f64` or `i64`; the target spans all dims of both sides but at least one
///     that is summed over, which both sides span.
/// 11. **Parallel loops.** Inside one, no register is written that held a value when the loop began,
///     and every operand that is stored spans its dim: tiles can then run in any order, each with
///     its own registers.
/// 12. **Patches** stay inside the input area and the word table, move at least one word, and write
///     no table word twice: their order does not matter.
/// 13. **Coordinates.** `Gather` and `Scatter` have `i64` registers for some of the operand's dims,
///     one for each; these dims need not be open. The register that is filled or stored spans at
///     least the operand's other dims and all that coordinates and mask span. A gather that keeps
///     what is outside reads its target; a scatter that combines needs an operand that is read, too.
///     For parallel loops, the part of an operand that is scattered to is that of its other dims, and
///     what is gathered along the loop's dim is stored nowhere inside of it.
///
/// The text form is stable: declarations, then one instruction per line.
///
/// ```
/// use spyre_artifact::{Access, Program, ProgramBuilder};
/// use spyre_numerics::DataFormat::IeeeFp16;
///
/// let mut code = ProgramBuilder::new();
/// let i = code.dim();
/// let a = code.operand(IeeeFp16, Access::Read, [i]);
/// let b = code.operand(IeeeFp16, Access::Read, [i]);
/// let c = code.operand(IeeeFp16, Access::Write, [i]);
/// code.each_parallel(i, 4096, |code| {
///     let (left, right) = (code.load(a), code.load(b));
///     let sum = code.add(left, right);
///     code.store(c, sum);
/// });
/// let program = code.build()?;
/// assert_eq!(
///     program.to_string(),
///     "dims 1, scalars 0
/// o0: read IEEE_FP16 [d0]
/// o1: read IEEE_FP16 [d0]
/// o2: write IEEE_FP16 [d0]
/// r0: f32 [d0]
/// r1: f32 [d0]
/// r2: f32 [d0]
/// begin d0 tile 4096 parallel
///   r0 = load o0
///   r1 = load o1
///   r2 = add r0 r1
///   store o2 r2
/// end
/// "
/// );
/// assert_eq!(Program::decode(&program.encode())?, program);
/// # Ok::<(), spyre_artifact::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(Draft);

/// A program before it was verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// Number of dims that it walks over.
    pub dims: usize,
    /// Its tile buffers.
    pub registers: Vec<RegisterType>,
    /// Its tensors.
    pub operands: Vec<OperandType>,
    /// Number of patched words that it reads.
    pub scalars: usize,
    /// Its code.
    pub instructions: Vec<Instruction>,
}

/// Type of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegisterType {
    /// Type of one element.
    pub lane: Lane,
    /// The dims along which it holds more than one.
    pub span: Span,
}

/// Type of an operand: what is known of a tensor before launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandType {
    /// Format of its elements in memory.
    pub format: DataFormat,
    /// Access of the program to it.
    pub access: Access,
    /// The dims that move it. It has a patched stride for each, lowest dim first; the rest is 0.
    pub span: Span,
}

/// Access of a program to a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Access {
    /// Loads only.
    Read = 1,
    /// Stores only.
    Write = 2,
    /// Loads and stores.
    Both = 3,
}

impl Access {
    /// Returns true if loads are allowed.
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// Returns true if stores are allowed.
    pub fn writes(self) -> bool {
        self != Self::Read
    }

    /// The name that disassembly gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Both => "both",
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        [Self::Read, Self::Write, Self::Both].into_iter().find(|&access| access as u8 == code)
    }
}

impl Program {
    /// The program in these bytes: decoded, then verified.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        Draft::decode(bytes, 0)?.verify()
    }

    /// Its bytes: counts, register types, operand types, instructions.
    pub fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    /// Number of dims that it walks over.
    pub fn dims(&self) -> usize {
        self.0.dims
    }

    /// Its tile buffers; [`Register`]s are places in this list.
    pub fn registers(&self) -> &[RegisterType] {
        &self.0.registers
    }

    /// Its tensors; [`Operand`]s are places in this list.
    pub fn operands(&self) -> &[OperandType] {
        &self.0.operands
    }

    /// Number of patched words that it reads.
    pub fn scalars(&self) -> usize {
        self.0.scalars
    }

    /// Its code.
    pub fn instructions(&self) -> &[Instruction] {
        &self.0.instructions
    }

    /// The type of one of its registers.
    ///
    /// # Panics
    /// If the register belongs to another program.
    pub fn register(&self, register: Register) -> RegisterType {
        self.0.registers[register.index()]
    }

    /// The type of one of its operands.
    ///
    /// # Panics
    /// If the operand belongs to another program.
    pub fn operand(&self, operand: Operand) -> OperandType {
        self.0.operands[operand.index()]
    }

    /// The word table that its instances need.
    pub fn table_shape(&self) -> TableShape {
        TableShape { operands: self.0.operands.len(), scalars: self.0.scalars }
    }
}

impl Draft {
    /// The program, if it follows all rules.
    pub fn verify(self) -> Result<Program, Error> {
        verify::check(&self)?;
        Ok(Program(self))
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.encode_counts().to_vec();
        for register in &self.registers {
            let [low, high] = register.span.bits().to_le_bytes();
            bytes.extend([register.lane as u8, 0, low, high]);
        }
        for operand in &self.operands {
            let format = operand.format as u8;
            let access = operand.access as u8;
            let [low, high] = operand.span.bits().to_le_bytes();
            bytes.extend([format, access, low, high]);
        }
        pad(&mut bytes, INSTRUCTION_BYTES);
        bytes.extend(self.instructions.iter().flat_map(Instruction::encode));
        bytes
    }

    fn encode_counts(&self) -> [u8; INSTRUCTION_BYTES] {
        let mut bytes = [0; INSTRUCTION_BYTES];
        bytes[0] = self.dims as u8;
        bytes[1] = self.registers.len() as u8;
        bytes[2] = self.operands.len() as u8;
        bytes[4..6].copy_from_slice(&(self.scalars as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.instructions.len() as u32).to_le_bytes());
        bytes
    }

    /// `base` is where the bytes begin in the image around them, for errors.
    pub(super) fn decode(bytes: &[u8], base: usize) -> Result<Self, Error> {
        let mut reader = Reader::new("program", bytes, base);
        let dims = count(&mut reader, "dims", MAX_DIMS)?;
        let registers = count(&mut reader, "registers", MAX_REGISTERS)?;
        let operands = count(&mut reader, "operands", MAX_OPERANDS)?;
        reader.zeros(1)?;
        let scalars = usize::from(reader.u16("scalars")?);
        if scalars > MAX_SCALARS {
            let most = Expected::AtMost(MAX_SCALARS as u64);
            return Err(reader.unexpected("scalars", 2, scalars as u64, most));
        }
        reader.zeros(2)?;
        let instructions = reader.u32_up_to("instructions", MAX_INSTRUCTIONS)?;
        reader.zeros(4)?;
        let registers =
            (0..registers).map(|_| register_type(&mut reader)).collect::<Result<_, _>>()?;
        let operands =
            (0..operands).map(|_| operand_type(&mut reader)).collect::<Result<_, _>>()?;
        reader.pad_to(INSTRUCTION_BYTES)?;
        let instructions = decode_instructions(&mut reader, instructions, base)?;
        reader.finish()?;
        Ok(Self { dims, registers, operands, scalars, instructions })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        disassembly::write(&self.0, f)
    }
}

fn count(reader: &mut Reader<'_>, field: &'static str, most: usize) -> Result<usize, Error> {
    match usize::from(reader.u8(field)?) {
        found if found <= most => Ok(found),
        found => Err(reader.unexpected(field, 1, found as u64, Expected::AtMost(most as u64))),
    }
}

fn register_type(reader: &mut Reader<'_>) -> Result<RegisterType, Error> {
    let lane = known(reader, "register lane", "1 to 4", Lane::from_code)?;
    reader.zeros(1)?;
    Ok(RegisterType { lane, span: Span::from_bits(reader.u16("register span")?) })
}

fn operand_type(reader: &mut Reader<'_>) -> Result<OperandType, Error> {
    let format = known(reader, "operand format", "a known format", format_from_code)?;
    let access = known(reader, "operand access", "1 to 3", Access::from_code)?;
    let span = Span::from_bits(reader.u16("operand span")?);
    Ok(OperandType { format, access, span })
}

fn known<T>(
    reader: &mut Reader<'_>,
    field: &'static str,
    expected: &'static str,
    meaning: impl Fn(u8) -> Option<T>,
) -> Result<T, Error> {
    let code = reader.u8(field)?;
    meaning(code).ok_or_else(|| reader.unexpected(field, 1, code.into(), Expected::Kind(expected)))
}

/// `count` instructions; memory is taken only for those that are there.
fn decode_instructions(
    reader: &mut Reader<'_>,
    count: usize,
    base: usize,
) -> Result<Vec<Instruction>, Error> {
    let start = base + reader.position();
    let items = reader.items("instructions", count, INSTRUCTION_BYTES)?;
    let decode = |(at, bytes): (usize, &[u8])| {
        let mut fixed = [0; INSTRUCTION_BYTES];
        fixed.copy_from_slice(bytes);
        Instruction::decode(&fixed, start + at * INSTRUCTION_BYTES)
    };
    items.enumerate().map(decode).collect()
}
