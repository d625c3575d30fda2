use super::{HEADER_BYTES, MAX_IMAGE_BYTES, header};
use crate::isa::wire::{ALIGN_BYTES, Reader, pad};
use crate::isa::{CorrectionProgram, Draft, MAX_INSTRUCTIONS, Program};
use crate::{Error, Expected};

const PART: &str = "code image";
const COMPUTE_KIND: u32 = 1;
const CORRECTION_KIND: u32 = 2;

/// Code in device memory: immutable, shared by all instances.
///
/// | bytes | what |
/// |---|---|
/// | 0 to 23 | magic `SPYRCODE`, version, kind (1 compute, 2 correction), image bytes |
/// | 24, 28 | where the program begins (128), its bytes |
/// | 32, 36 | where constants begin (0 if none), their bytes |
/// | 40 to 59 | dims, registers, operands, scalars, instructions |
/// | 124 | CRC-32 of everything else |
///
/// ```
/// use spyre_artifact::{Code, CodeImage, ProgramBuilder};
///
/// let image = CodeImage::new(Code::Compute(ProgramBuilder::new().build()?), Vec::new())?;
/// assert_eq!(image.encode().len(), 256);
/// assert_eq!(CodeImage::decode(&image.encode())?, image);
/// # Ok::<(), spyre_artifact::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeImage {
    code: Code,
    constants: Vec<u8>,
}

/// Program that a code image holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// It computes.
    Compute(Program),
    /// It fills word tables.
    Correction(CorrectionProgram),
}

impl CodeImage {
    /// An image; refused if it would be larger than any may be.
    pub fn new(code: Code, constants: Vec<u8>) -> Result<Self, Error> {
        let most = MAX_IMAGE_BYTES - 2 * (HEADER_BYTES + MAX_INSTRUCTIONS * 16);
        if constants.len() > most {
            let found = constants.len() as u64;
            let expected = Expected::AtMost(most as u64);
            let field = "constants bytes";
            return Err(Error::Unexpected { part: PART, offset: 36, field, found, expected });
        }
        Ok(Self { code, constants })
    }

    /// Its code.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// The compute program, if it holds one.
    pub fn program(&self) -> Option<&Program> {
        match &self.code {
            Code::Compute(program) => Some(program),
            Code::Correction(_) => None,
        }
    }

    /// The correction program, if it holds one.
    pub fn correction(&self) -> Option<&CorrectionProgram> {
        match &self.code {
            Code::Correction(correction) => Some(correction),
            Code::Compute(_) => None,
        }
    }

    /// Bytes that the program may refer to.
    pub fn constants(&self) -> &[u8] {
        &self.constants
    }

    /// Its bytes in device memory.
    pub fn encode(&self) -> Vec<u8> {
        let program = self.code.encode();
        let parts = Parts { program: program.len(), constants: self.constants.len() };
        let mut bytes = header::begin(header::CODE, self.code.kind(), parts.image_bytes());
        for field in parts.fields().into_iter().chain(self.code.counts()) {
            bytes.extend(field.to_le_bytes());
        }
        for part in [&[], &program[..], &self.constants] {
            bytes.extend(part);
            pad(&mut bytes, ALIGN_BYTES);
        }
        let covered = HEADER_BYTES..bytes.len();
        header::seal(&mut bytes, covered);
        bytes
    }

    /// The image in these bytes, and in all of them.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (mut reader, kind, image_bytes) = header::open(PART, bytes, header::CODE)?;
        let parts = Parts::read(&mut reader)?;
        header::check_bytes(PART, bytes, image_bytes, parts.image_bytes())?;
        header::check(PART, bytes, HEADER_BYTES..bytes.len())?;
        let mut body = Reader::new(PART, &bytes[HEADER_BYTES..], HEADER_BYTES);
        let code = Code::decode(kind, body.take("program", parts.program)?)?;
        body.pad_to(ALIGN_BYTES)?;
        for expected in code.counts() {
            reader.expect_u32("counts", expected)?;
        }
        header::close(&mut reader)?;
        let constants = body.take("constants", parts.constants)?.to_vec();
        body.pad_to(ALIGN_BYTES)?;
        Self::new(code, constants)
    }
}

impl Code {
    fn kind(&self) -> u32 {
        match self {
            Self::Compute(_) => COMPUTE_KIND,
            Self::Correction(_) => CORRECTION_KIND,
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Compute(program) => program.encode(),
            Self::Correction(correction) => correction.encode(),
        }
    }

    fn decode(kind: u32, bytes: &[u8]) -> Result<Self, Error> {
        match kind {
            COMPUTE_KIND => Draft::decode(bytes, HEADER_BYTES)?.verify().map(Self::Compute),
            CORRECTION_KIND => {
                CorrectionProgram::decode_at(bytes, HEADER_BYTES).map(Self::Correction)
            }
            _ => {
                let expected = Expected::Kind("1 (compute) or 2 (correction)");
                let found = kind.into();
                Err(Error::Unexpected { part: PART, offset: 12, field: "kind", found, expected })
            }
        }
    }

    /// Counts that the header repeats, so that memory can be planned without decoding.
    fn counts(&self) -> [u32; 5] {
        let counts = match self {
            Self::Compute(program) => [
                program.dims(),
                program.registers().len(),
                program.operands().len(),
                program.scalars(),
                program.instructions().len(),
            ],
            Self::Correction(correction) => [0, 0, 0, 0, correction.patches().len()],
        };
        counts.map(|count| count as u32)
    }
}

/// Bytes of each part.
#[derive(Clone, Copy, Debug)]
struct Parts {
    program: usize,
    constants: usize,
}

impl Parts {
    fn image_bytes(self) -> usize {
        HEADER_BYTES + header::padded(self.program) + header::padded(self.constants)
    }

    fn fields(self) -> [u32; 4] {
        let constants_at = match self.constants {
            0 => 0,
            _ => HEADER_BYTES + header::padded(self.program),
        };
        [HEADER_BYTES, self.program, constants_at, self.constants].map(|bytes| bytes as u32)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        reader.expect_u32("program offset", HEADER_BYTES as u32)?;
        let program = reader.u32_up_to("program bytes", MAX_IMAGE_BYTES)?;
        let constants_at = reader.u32("constants offset")?;
        let constants = reader.u32_up_to("constants bytes", MAX_IMAGE_BYTES)?;
        let parts = Self { program, constants };
        match parts.fields()[2] {
            expected if expected == constants_at => Ok(parts),
            expected => {
                let expected = Expected::Exactly(expected.into());
                Err(reader.unexpected("constants offset", 8, constants_at.into(), expected))
            }
        }
    }
}
