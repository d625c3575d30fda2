use std::ops::Range;

use super::EntryFlaw;

/// The most files of an archive, and bytes of a name: what is beyond is no archive of ours.
const MOST_FILES: u32 = 1 << 20;
const MOST_NAME_BYTES: u32 = 256;

/// Named bytes behind one another: a count, and for each the lengths of its name and of its bytes,
/// its name, its bytes. Little-endian.
#[derive(Clone, Debug)]
pub(super) struct Archive<'a> {
    bytes: &'a [u8],
    files: Vec<(&'a str, Range<usize>)>,
}

impl<'a> Archive<'a> {
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, EntryFlaw> {
        let mut rest = bytes;
        let count = number(&mut rest)?;
        if count > MOST_FILES {
            return Err(EntryFlaw::Form);
        }
        let mut files = Vec::new();
        for _ in 0..count {
            let name = number(&mut rest)?;
            let length = number(&mut rest)?;
            if name > MOST_NAME_BYTES {
                return Err(EntryFlaw::Form);
            }
            let name = str::from_utf8(take(&mut rest, name as usize)?);
            let length = take(&mut rest, length as usize)?.len();
            let end = bytes.len() - rest.len();
            files.push((name.map_err(|_| EntryFlaw::Form)?, end - length..end));
        }
        if rest.is_empty() { Ok(Self { bytes, files }) } else { Err(EntryFlaw::Form) }
    }

    pub(super) fn file(&self, name: &str) -> Option<&'a [u8]> {
        let (_, place) = self.files.iter().find(|(known, _)| *known == name)?;
        self.bytes.get(place.clone())
    }

    /// All names, and where their bytes are in those of the archive.
    pub(super) fn files(&self) -> &[(&'a str, Range<usize>)] {
        &self.files
    }
}

/// Adds an archive of these files to `bytes`.
pub(super) fn encode<N: AsRef<str>, B: AsRef<[u8]>>(bytes: &mut Vec<u8>, files: &[(N, B)]) {
    let mut put = |number: usize| bytes.extend_from_slice(&(number as u32).to_le_bytes());
    put(files.len());
    for (name, content) in files {
        let name = name.as_ref().as_bytes();
        let content = content.as_ref();
        for number in [name.len(), content.len()] {
            bytes.extend_from_slice(&(number as u32).to_le_bytes());
        }
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(content);
    }
}

fn number(rest: &mut &[u8]) -> Result<u32, EntryFlaw> {
    let (bytes, left) = rest.split_first_chunk().ok_or(EntryFlaw::Truncated)?;
    *rest = left;
    Ok(u32::from_le_bytes(*bytes))
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], EntryFlaw> {
    let (taken, left) = rest.split_at_checked(bytes).ok_or(EntryFlaw::Truncated)?;
    *rest = left;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back_and_every_cut_is_noticed() {
        let mut bytes = Vec::new();
        encode(&mut bytes, &[("a", &b"one"[..]), ("empty", b"")]);
        let archive = Archive::decode(&bytes).expect("it is whole");
        assert_eq!(archive.files().len(), 2);
        assert_eq!((archive.file("a"), archive.file("b")), (Some(&b"one"[..]), None));
        assert_eq!(archive.file("empty"), Some(&[][..]));
        for length in 0..bytes.len() {
            assert_eq!(Archive::decode(&bytes[..length]).err(), Some(EntryFlaw::Truncated));
        }
        bytes.push(0);
        assert_eq!(Archive::decode(&bytes).err(), Some(EntryFlaw::Form));
    }

    #[test]
    fn lengths_beyond_all_bounds_take_no_memory() {
        assert_eq!(Archive::decode(&[0xff; 64]).err(), Some(EntryFlaw::Form));
        let many = [&1_000_000_u32.to_le_bytes()[..], &[0; 8]].concat();
        assert_eq!(Archive::decode(&many).err(), Some(EntryFlaw::Truncated));
    }
}
