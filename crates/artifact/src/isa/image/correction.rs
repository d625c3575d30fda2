use super::{HEADER_BYTES, header};
use crate::isa::wire::{ALIGN_BYTES, Reader, pad, put_words, words};
use crate::isa::{CorrectionProgram, HandleWords, INSTRUCTION_BYTES, MAX_TABLE_WORDS};
use crate::{Error, Expected};

const PART: &str = "correction image";
const KIND: u32 = 4;
/// Counts and patches.
const MAX_PROGRAM_BYTES: usize = (1 + MAX_TABLE_WORDS) * INSTRUCTION_BYTES;

/// One stream's instance of a correction program: it names the entry image whose table it patches,
/// has an input area that is written before each launch, and the patches.
///
/// | bytes | what |
/// |---|---|
/// | 0 to 23 | magic `SPYRCORR`, version, kind (4), image bytes |
/// | 24 to 47 | the handle of the entry image to patch |
/// | 48, 52 | where the input area begins (128), its words |
/// | 56, 60 | where the program begins, its bytes |
/// | 124 | CRC-32 of header and program: the input area is written |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorrectionImage {
    target: HandleWords,
    program: CorrectionProgram,
    input: Vec<u64>,
}

impl CorrectionImage {
    /// An instance that patches the entry image at `target`; its input is zero.
    pub fn new(target: HandleWords, program: CorrectionProgram) -> Self {
        let input = vec![0; program.input_words() as usize];
        Self { target, program, input }
    }

    /// The entry image that it patches.
    pub fn target(&self) -> HandleWords {
        self.target
    }

    /// Correction program that it holds.
    pub fn program(&self) -> &CorrectionProgram {
        &self.program
    }

    /// The input area.
    pub fn input(&self) -> &[u64] {
        &self.input
    }

    /// The input area, to be filled.
    pub fn input_mut(&mut self) -> &mut [u64] {
        &mut self.input
    }

    /// Byte offset of the input area, which each launch copies to.
    pub fn input_offset(&self) -> usize {
        HEADER_BYTES
    }

    /// Its bytes in device memory.
    pub fn encode(&self) -> Vec<u8> {
        let program = self.program.encode();
        let program_at = program_offset(self.input.len());
        let image_bytes = program_at + header::padded(program.len());
        let mut bytes = header::begin(header::CORRECTION, KIND, image_bytes);
        put_words(&mut bytes, &self.target.0);
        for field in [HEADER_BYTES, self.input.len(), program_at, program.len()] {
            bytes.extend((field as u32).to_le_bytes());
        }
        pad(&mut bytes, HEADER_BYTES);
        put_words(&mut bytes, &self.input);
        pad(&mut bytes, ALIGN_BYTES);
        bytes.extend(program);
        pad(&mut bytes, ALIGN_BYTES);
        header::seal(&mut bytes, program_at..image_bytes);
        bytes
    }

    /// The image in these bytes, and in all of them.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (mut reader, kind, image_bytes) = header::open(PART, bytes, header::CORRECTION)?;
        if kind != KIND {
            let found = kind.into();
            let expected = Expected::Exactly(KIND.into());
            return Err(Error::Unexpected {
                part: PART,
                offset: 12,
                field: "kind",
                found,
                expected,
            });
        }
        let target = HandleWords::read(&mut reader, "target handle")?;
        reader.expect_u32("input offset", HEADER_BYTES as u32)?;
        let input_words = reader.u32_up_to("input words", MAX_TABLE_WORDS)?;
        let program_at = program_offset(input_words);
        reader.expect_u32("program offset", program_at as u32)?;
        let program_bytes = reader.u32_up_to("program bytes", MAX_PROGRAM_BYTES)?;
        header::close(&mut reader)?;
        let needed = program_at + header::padded(program_bytes);
        header::check_bytes(PART, bytes, image_bytes, needed)?;
        header::check(PART, bytes, program_at..needed)?;
        let mut body = Reader::new(PART, &bytes[HEADER_BYTES..], HEADER_BYTES);
        let input = words(body.take("input", input_words * size_of::<u64>())?).collect();
        body.pad_to(ALIGN_BYTES)?;
        let code = body.take("program", program_bytes)?;
        let program = CorrectionProgram::decode_at(code, program_at)?;
        body.pad_to(ALIGN_BYTES)?;
        check_input(input_words, &program)?;
        Ok(Self { target, program, input })
    }
}

fn program_offset(input_words: usize) -> usize {
    HEADER_BYTES + header::padded(input_words * size_of::<u64>())
}

fn check_input(input_words: usize, program: &CorrectionProgram) -> Result<(), Error> {
    let found = input_words as u64;
    let expected = program.input_words().into();
    if found == expected {
        Ok(())
    } else {
        Err(Error::Mismatch { what: "words of the input area", found, expected })
    }
}
