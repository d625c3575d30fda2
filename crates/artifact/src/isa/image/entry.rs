use super::{HEADER_BYTES, header};
use crate::isa::wire::{ALIGN_BYTES, Reader, pad, put_words, words};
use crate::isa::{
    Dim, HandleWords, MAX_DIMS, MAX_OPERANDS, MAX_SCALARS, OPERAND_WORDS, Operand, OperandWords,
    Program, TableShape,
};
use crate::{Error, Expected};

const PART: &str = "entry image";
const KIND: u32 = 3;
/// Scratch of one instance: far past what LX can use, and far below what overflows.
const MAX_SCRATCH_BYTES: u64 = 1 << 40;

/// One stream's instance of a compute program: it names the shared code and holds the word table
/// that correction patches. Scratch memory follows the image in the same allocation.
///
/// | bytes | what |
/// |---|---|
/// | 0 to 23 | magic `SPYRENTR`, version, kind (3), image bytes |
/// | 24 to 47 | the code image's handle |
/// | 48, 52 | operands, scalars |
/// | 56, 60 | where the table begins (128), its words |
/// | 64 | scratch bytes |
/// | 124 | CRC-32 of the header: the table is patched |
///
/// ```
/// use spyre_artifact::{EntryImage, HandleWords, TableShape};
///
/// let shape = TableShape { operands: 3, scalars: 0 };
/// let entry = EntryImage::new(HandleWords([7, 0, 1]), shape, 4096)?;
/// assert_eq!(entry.encode().len(), 128 + 768);
/// assert_eq!(entry.header().allocation_bytes(), 128 + 768 + 4096);
/// assert_eq!(EntryImage::decode(&entry.encode())?, entry);
/// # Ok::<(), spyre_artifact::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryImage {
    header: EntryHeader,
    table: Vec<u64>,
}

/// The part of an entry image that no correction changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHeader {
    /// Handle of the code image.
    pub code: HandleWords,
    /// Shape of the word table.
    pub shape: TableShape,
    /// Memory behind the image that belongs to the instance.
    pub scratch_bytes: u64,
}

impl EntryHeader {
    /// Bytes of header and table.
    pub fn image_bytes(&self) -> usize {
        HEADER_BYTES + header::padded(self.shape.bytes())
    }

    /// Byte offset of the table.
    pub fn table_offset(&self) -> usize {
        HEADER_BYTES
    }

    /// Bytes of header, table and scratch.
    pub fn allocation_bytes(&self) -> u64 {
        self.image_bytes() as u64 + self.scratch_bytes.next_multiple_of(ALIGN_BYTES as u64)
    }

    /// Refuses a program that needs another table.
    pub fn check_program(&self, program: &Program) -> Result<(), Error> {
        let found = self.shape;
        let expected = program.table_shape();
        let pairs = [
            ("operands of the word table", found.operands, expected.operands),
            ("scalars of the word table", found.scalars, expected.scalars),
        ];
        match pairs.into_iter().find(|(_, found, expected)| found != expected) {
            None => Ok(()),
            Some((what, found, expected)) => {
                Err(Error::Mismatch { what, found: found as u64, expected: expected as u64 })
            }
        }
    }

    /// The header at the front of these bytes; the table may be missing.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (mut reader, kind, image_bytes) = header::open(PART, bytes, header::ENTRY)?;
        if kind != KIND {
            let expected = Expected::Exactly(KIND.into());
            let found = kind.into();
            return Err(Error::Unexpected {
                part: PART,
                offset: 12,
                field: "kind",
                found,
                expected,
            });
        }
        let code = HandleWords::read(&mut reader, "code handle")?;
        let operands = reader.u32_up_to("operands", MAX_OPERANDS)?;
        let scalars = reader.u32_up_to("scalars", MAX_SCALARS)?;
        let shape = TableShape { operands, scalars };
        reader.expect_u32("table offset", HEADER_BYTES as u32)?;
        reader.expect_u32("table words", shape.words() as u32)?;
        let scratch_bytes = reader.u64("scratch bytes")?;
        if scratch_bytes > MAX_SCRATCH_BYTES {
            let most = Expected::AtMost(MAX_SCRATCH_BYTES);
            return Err(reader.unexpected("scratch bytes", 8, scratch_bytes, most));
        }
        header::close(&mut reader)?;
        header::check(PART, bytes, 0..0)?;
        let header = Self { code, shape, scratch_bytes };
        let needed = header.image_bytes();
        if image_bytes == needed {
            Ok(header)
        } else {
            let found = image_bytes as u64;
            let expected = Expected::Exactly(needed as u64);
            let field = "image bytes";
            Err(Error::Unexpected { part: PART, offset: 16, field, found, expected })
        }
    }

    /// Its 128 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = header::begin(header::ENTRY, KIND, self.image_bytes());
        put_words(&mut bytes, &self.code.0);
        let TableShape { operands, scalars } = self.shape;
        for field in [operands, scalars, HEADER_BYTES, self.shape.words()] {
            bytes.extend((field as u32).to_le_bytes());
        }
        put_words(&mut bytes, &[self.scratch_bytes]);
        pad(&mut bytes, HEADER_BYTES);
        header::seal(&mut bytes, 0..0);
        bytes
    }
}

impl EntryImage {
    /// An instance whose table is not filled yet.
    pub fn new(code: HandleWords, shape: TableShape, scratch_bytes: u64) -> Result<Self, Error> {
        let limits = [
            ("operands", 48, shape.operands as u64, MAX_OPERANDS as u64),
            ("scalars", 52, shape.scalars as u64, MAX_SCALARS as u64),
            ("scratch bytes", 64, scratch_bytes, MAX_SCRATCH_BYTES),
        ];
        for (field, offset, found, most) in limits {
            if found > most {
                let expected = Expected::AtMost(most);
                return Err(Error::Unexpected { part: PART, offset, field, found, expected });
            }
        }
        let table = vec![0; shape.words()];
        Ok(Self { header: EntryHeader { code, shape, scratch_bytes }, table })
    }

    /// The part that no correction changes.
    pub fn header(&self) -> &EntryHeader {
        &self.header
    }

    /// The word table; [`TableShape`] says what is where.
    pub fn table(&self) -> &[u64] {
        &self.table
    }

    /// The word table, to be filled.
    pub fn table_mut(&mut self) -> &mut [u64] {
        &mut self.table
    }

    /// One operand's words; `None` if there is no such operand.
    pub fn operand(&self, operand: Operand) -> Option<Result<OperandWords, Error>> {
        if operand.index() >= self.header.shape.operands {
            return None;
        }
        let words = &self.table[self.header.shape.operand_words(operand)];
        words.first_chunk::<OPERAND_WORDS>().map(OperandWords::decode)
    }

    /// The extent of a dim; 0 for dims that no program can have.
    pub fn extent(&self, dim: Dim) -> u64 {
        if dim.index() < MAX_DIMS { self.table[self.header.shape.extent_word(dim)] } else { 0 }
    }

    /// Its bytes in device memory; scratch is not among them.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.header.encode();
        put_words(&mut bytes, &self.table);
        pad(&mut bytes, ALIGN_BYTES);
        bytes
    }

    /// The image in these bytes, and in all of them.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let header = EntryHeader::decode(bytes)?;
        let needed = header.image_bytes();
        header::check_bytes(PART, bytes, needed, needed)?;
        let mut reader = Reader::new(PART, &bytes[HEADER_BYTES..], HEADER_BYTES);
        let table = words(reader.take("table", header.shape.bytes())?).collect();
        reader.pad_to(ALIGN_BYTES)?;
        Ok(Self { header, table })
    }
}
