//! A plan and what it was made from, as bytes: in a file of the folder, and in bundles.

use sha2::{Digest, Sha256};
use spyre_artifact::CompilerOutput;

use super::archive::{self, Archive};
use super::source::Source;

const MAGIC: &[u8; 8] = b"SPYRPLAN";
const VERSION: u32 = 1;
const SOURCE_FILE: &str = "source";
const DIGEST_BYTES: usize = 32;
/// Magic, version, length of the archive, digest of the archive.
const HEADER_BYTES: usize = MAGIC.len() + 4 + 4 + DIGEST_BYTES;

/// Reason why an entry is not used. The user need not do anything: the plan is made again.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryFlaw {
    /// It ends before what it announces.
    #[error("it is cut off")]
    Truncated,
    /// It is something else, or of another version.
    #[error("it has another form")]
    Form,
    /// Its bytes are not those that were written.
    #[error("its digest is another one")]
    Digest,
    /// It is in the place of another plan.
    #[error("it is the plan of another kernel")]
    Source,
    /// The plan in it is refused.
    #[error("{0}")]
    Plan(#[from] spyre_artifact::Error),
}

/// An entry whose bytes are as they were written.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    archive: Archive<'a>,
    source: Source,
    marks: usize,
}

impl<'a> Entry<'a> {
    /// Reads an entry, and how many marks have been left behind it.
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, EntryFlaw> {
        let (header, rest) =
            bytes.split_first_chunk::<HEADER_BYTES>().ok_or(EntryFlaw::Truncated)?;
        let (magic, header) = header.split_at(MAGIC.len());
        let (numbers, digest) = header.split_at(8);
        if magic != MAGIC || numbers[..4] != VERSION.to_le_bytes() {
            return Err(EntryFlaw::Form);
        }
        let length = u32::from_le_bytes([numbers[4], numbers[5], numbers[6], numbers[7]]) as usize;
        let (archive, marks) = rest.split_at_checked(length).ok_or(EntryFlaw::Truncated)?;
        if Sha256::digest(archive)[..] != *digest {
            return Err(EntryFlaw::Digest);
        }
        let archive = Archive::decode(archive)?;
        let source = archive.file(SOURCE_FILE).ok_or(EntryFlaw::Form)?;
        let source = Source::of_text(str::from_utf8(source).map_err(|_| EntryFlaw::Form)?);
        Ok(Self { archive, source, marks: marks.len() })
    }

    /// The plan, decoded and checked: bytes are not trusted because their digest is right.
    pub(super) fn plan(&self, expected: &Source) -> Result<CompilerOutput, EntryFlaw> {
        if self.source == *expected {
            Ok(CompilerOutput::from_files(|name| self.archive.file(name))?)
        } else {
            Err(EntryFlaw::Source)
        }
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// Bytes behind the entry: one for each time that it was found.
    pub(super) fn marks(&self) -> usize {
        self.marks
    }
}

/// A plan and what it was made from.
pub(super) fn encode(
    source: &Source,
    plan: &CompilerOutput,
) -> Result<Vec<u8>, spyre_artifact::Error> {
    let mut files = vec![(SOURCE_FILE.to_owned(), source.text().as_bytes().to_vec())];
    files.extend(plan.to_files()?);
    let mut bytes = vec![0; HEADER_BYTES];
    archive::encode(&mut bytes, &files);
    let length = (bytes.len() - HEADER_BYTES) as u32;
    let digest = Sha256::digest(&bytes[HEADER_BYTES..]);
    let header = [&MAGIC[..], &VERSION.to_le_bytes(), &length.to_le_bytes(), &digest].concat();
    bytes[..HEADER_BYTES].copy_from_slice(&header);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use spyre_compiler::{CompileOptions, Kernel};

    use super::*;

    fn entry() -> (Source, CompilerOutput, Vec<u8>) {
        let text = "kernel double(i) {\n in x: float32[i]\n out y: float32[i]\n y = x * 2\n}";
        let kernel: Kernel = text.parse().expect("a kernel");
        let options = CompileOptions::default();
        let source = Source::new(&kernel, &options);
        let plan = kernel.compile(&options).expect("a plan");
        let bytes = encode(&source, &plan).expect("bytes");
        (source, plan, bytes)
    }

    #[test]
    fn a_plan_comes_back_with_what_it_was_made_from() {
        let (source, plan, mut bytes) = entry();
        bytes.extend_from_slice(b"...");
        let entry = Entry::decode(&bytes).expect("it is whole");
        assert_eq!((entry.source(), entry.marks()), (&source, 3));
        assert_eq!(entry.source().name(), Some("double"));
        assert_eq!(entry.plan(&source), Ok(plan));
        let other = Source::of_text("another one");
        assert_eq!(entry.plan(&other), Err(EntryFlaw::Source));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_noticed() {
        let (.., bytes) = entry();
        for length in 0..bytes.len() {
            assert_eq!(Entry::decode(&bytes[..length]).err(), Some(EntryFlaw::Truncated));
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Entry::decode(&changed).is_err(), "byte {at}");
        }
    }
}
