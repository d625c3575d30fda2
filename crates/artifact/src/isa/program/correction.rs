use std::fmt;

use super::{Refusal, decode_instructions};
use crate::Error;
use crate::isa::wire::Reader;
use crate::isa::{INSTRUCTION_BYTES, Instruction, MAX_TABLE_WORDS};

/// More patches than table words would write some word twice.
const MAX_PATCHES: usize = MAX_TABLE_WORDS;

/// One copy of words from the input area into the word table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Patch {
    /// The first word in the input area.
    pub source_word: u32,
    /// The first word in the table.
    pub target_word: u32,
    /// Number of words.
    pub words: u32,
}

/// A verified correction program: it fills the word table of a compute program's instance from an
/// input area, in device memory. Rule 12 of [`Program`](super::Program) holds for every patch.
///
/// ```
/// use spyre_artifact::{CorrectionProgram, Patch};
///
/// let patches = vec![Patch { source_word: 0, target_word: 3, words: 2 }];
/// let correction = CorrectionProgram::new(2, 34, patches)?;
/// assert_eq!(correction.to_string(), "input 2 words, table 34 words
/// patch 2 words from input 0 to table 3
/// ");
/// let mut table = [0; 34];
/// correction.apply(&[7, 8], &mut table);
/// assert_eq!(table[3..5], [7, 8]);
/// # Ok::<(), spyre_artifact::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorrectionProgram {
    input_words: u32,
    table_words: u32,
    patches: Vec<Patch>,
}

impl CorrectionProgram {
    /// A correction; refused if a patch leaves the input area or the table.
    pub fn new(input_words: u32, table_words: u32, patches: Vec<Patch>) -> Result<Self, Error> {
        let most = MAX_TABLE_WORDS;
        for (what, given) in [("input words", input_words), ("table words", table_words)] {
            let given = given as usize;
            if given > most {
                return Err(Error::Program(Refusal::TooMany { what, given, most }));
            }
        }
        if patches.len() > MAX_PATCHES {
            return Err(Error::Program(Refusal::TooMany {
                what: "patches",
                given: patches.len(),
                most: MAX_PATCHES,
            }));
        }
        let correction = Self { input_words, table_words, patches };
        correction.check_patches()?;
        Ok(correction)
    }

    /// Words of the input area.
    pub fn input_words(&self) -> u32 {
        self.input_words
    }

    /// Words of the table that it was made for.
    pub fn table_words(&self) -> u32 {
        self.table_words
    }

    /// Patches that it copies, in order.
    pub fn patches(&self) -> &[Patch] {
        &self.patches
    }

    /// Copies words of `input` into `table`: what the device does.
    ///
    /// # Panics
    /// If a slice is shorter than the words that this program was made for.
    pub fn apply(&self, input: &[u64], table: &mut [u64]) {
        for patch in &self.patches {
            let source = patch.source_word as usize;
            let target = patch.target_word as usize;
            let words = patch.words as usize;
            table[target..target + words].copy_from_slice(&input[source..source + words]);
        }
    }

    /// Its bytes: counts, instructions.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((1 + self.patches.len()) * INSTRUCTION_BYTES);
        for count in [self.input_words, self.table_words, self.patches.len() as u32, 0] {
            bytes.extend(count.to_le_bytes());
        }
        bytes.extend(self.instructions().flat_map(|patch| patch.encode()));
        bytes
    }

    /// The correction program in these bytes: decoded, then verified.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        Self::decode_at(bytes, 0)
    }

    /// `base` is where the bytes begin in the image around them, for errors.
    pub(in crate::isa) fn decode_at(bytes: &[u8], base: usize) -> Result<Self, Error> {
        let mut reader = Reader::new("correction program", bytes, base);
        let input_words = reader.u32("input words")?;
        let table_words = reader.u32("table words")?;
        let count = reader.u32_up_to("instructions", MAX_PATCHES)?;
        reader.zeros(4)?;
        let instructions = decode_instructions(&mut reader, count, base)?;
        reader.finish()?;
        let patches = instructions.iter().enumerate().map(|(at, code)| patch(at, code));
        Self::new(input_words, table_words, patches.collect::<Result<_, _>>()?)
    }

    fn instructions(&self) -> impl Iterator<Item = Instruction> {
        self.patches.iter().map(|&patch| patch.into())
    }

    fn check_patches(&self) -> Result<(), Error> {
        let mut patched = vec![false; self.table_words as usize];
        for (at, instruction) in self.instructions().enumerate() {
            let checked = self.check_patch(self.patches[at]);
            let claimed = checked.and_then(|()| claim(&mut patched, self.patches[at]));
            claimed.map_err(|refusal| Error::Instruction {
                at,
                instruction: instruction.to_string(),
                refusal,
            })?;
        }
        Ok(())
    }

    fn check_patch(&self, patch: Patch) -> Result<(), Refusal> {
        let Patch { source_word, target_word, words } = patch;
        let ends =
            [("source", source_word, self.input_words), ("target", target_word, self.table_words)];
        for (what, start, most) in ends {
            let end = u64::from(start) + u64::from(words);
            if end > most.into() {
                return Err(Refusal::PatchOutside { what, end, words: most });
            }
        }
        if words == 0 { Err(Refusal::PatchNothing) } else { Ok(()) }
    }
}

impl From<Patch> for Instruction {
    fn from(patch: Patch) -> Self {
        let Patch { source_word, target_word, words } = patch;
        Self::Patch { source_word, target_word, words }
    }
}

impl fmt::Display for CorrectionProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "input {} words, table {} words", self.input_words, self.table_words)?;
        self.instructions().try_for_each(|patch| writeln!(f, "{patch}"))
    }
}

/// Marks the words that a patch writes; none may be marked already.
fn claim(patched: &mut [bool], patch: Patch) -> Result<(), Refusal> {
    for word in patch.target_word..patch.target_word + patch.words {
        if std::mem::replace(&mut patched[word as usize], true) {
            return Err(Refusal::PatchTwice { word });
        }
    }
    Ok(())
}

fn patch(at: usize, instruction: &Instruction) -> Result<Patch, Error> {
    match *instruction {
        Instruction::Patch { source_word, target_word, words } => {
            Ok(Patch { source_word, target_word, words })
        }
        _ => Err(Error::Instruction {
            at,
            instruction: instruction.to_string(),
            refusal: Refusal::NotAPatch,
        }),
    }
}
