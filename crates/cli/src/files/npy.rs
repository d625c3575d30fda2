//! NumPy's `.npy` files: one array each, little-endian, in C or Fortran order.

use std::io::Read;

use anyhow::{Context, Result, bail, ensure};
use spyre::numerics::DType;
use spyre::runtime::CPUTensor;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Far past any header that describes one plain array.
const MOST_HEADER_BYTES: usize = 64 << 10;
/// Most dimensions of an array, as in NumPy.
const MOST_DIMS: usize = 64;

/// The names of dtypes that files can hold.
const NAMES: [(&str, DType); 14] = [
    ("b1", DType::Bool),
    ("u1", DType::UInt8),
    ("u2", DType::UInt16),
    ("u4", DType::UInt32),
    ("u8", DType::UInt64),
    ("i1", DType::Int8),
    ("i2", DType::Int16),
    ("i4", DType::Int32),
    ("i8", DType::Int64),
    ("f2", DType::Float16),
    ("f4", DType::Float32),
    ("f8", DType::Float64),
    ("c8", DType::Complex64),
    ("c16", DType::Complex128),
];

/// Returns true if arrays of this dtype can be written.
pub(crate) fn can_hold(dtype: DType) -> bool {
    NAMES.iter().any(|(_, known)| *known == dtype)
}

/// The bytes of a file.
pub(crate) fn write(shape: &[usize], dtype: DType, elements: &[u8]) -> Result<Vec<u8>> {
    let Some((name, _)) = NAMES.iter().find(|(_, known)| *known == dtype) else {
        bail!("{dtype} has no .npy form: write a .safetensors file");
    };
    let order = if element_bytes(dtype) == 1 { '|' } else { '<' };
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    // One size keeps its comma, as Python wants it: (3,) but (3, 4).
    let sizes = if shape.len() == 1 { sizes.trim_end() } else { sizes.trim_end_matches(", ") };
    let mut header =
        format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({sizes}), }}");
    let prefix = MAGIC.len() + 4;
    while !(prefix + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).context("more dimensions than a header holds")?;
    Ok([MAGIC, &[1, 0], &length.to_le_bytes(), header.as_bytes(), elements].concat())
}

/// The array in a file of which nothing is trusted.
pub(crate) fn read(mut file: impl Read) -> Result<CPUTensor> {
    let header = Header::read(&mut file)?;
    let elements = header.shape.iter().try_fold(1_usize, |all, &size| all.checked_mul(size));
    let bytes = elements.and_then(|elements| elements.checked_mul(element_bytes(header.dtype)));
    let Some(expected) = bytes.filter(|&bytes| bytes <= isize::MAX as usize) else {
        bail!("its shape {:?} is larger than any memory", header.shape);
    };
    let mut bytes = Vec::new(); // which grows with what is there, whatever the header says
    file.take(expected as u64 + 1).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() >= expected,
        "it ends after {} of the {expected} bytes that its header announces",
        bytes.len()
    );
    ensure!(bytes.len() == expected, "there is more behind the {expected} bytes of its array");
    if header.is_fortran {
        bytes = row_major(&bytes, &header.shape, element_bytes(header.dtype));
    }
    check_truth(header.dtype, &bytes)?;
    Ok(CPUTensor::from_bytes(&header.shape, header.dtype, bytes)?)
}

/// A truth value is one of two bytes.
pub(crate) fn check_truth(dtype: DType, bytes: &[u8]) -> Result<()> {
    let odd = bytes.iter().position(|byte| *byte > 1).filter(|_| dtype == DType::Bool);
    match odd {
        None => Ok(()),
        Some(at) => bail!("element {at} of its bools is {}, neither 0 nor 1", bytes[at]),
    }
}

pub(crate) fn element_bytes(dtype: DType) -> usize {
    dtype.host_format().element_bytes().unwrap_or(1)
}

/// Elements whose first dimension runs fastest, as rows.
fn row_major(elements: &[u8], shape: &[usize], width: usize) -> Vec<u8> {
    let mut strides = Vec::with_capacity(shape.len());
    shape.iter().fold(width, |stride, size| {
        strides.push(stride);
        stride * size
    });
    let mut rows = Vec::with_capacity(elements.len());
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    while rows.len() < elements.len() {
        rows.extend(&elements[at..at + width]);
        for dim in (0..shape.len()).rev() {
            index[dim] += 1;
            at += strides[dim];
            if index[dim] < shape[dim] {
                break;
            }
            at -= strides[dim] * shape[dim];
            index[dim] = 0;
        }
    }
    rows
}

/// Header of a file: the description of its array.
#[derive(Debug, PartialEq)]
struct Header {
    dtype: DType,
    is_fortran: bool,
    shape: Vec<usize>,
}

impl Header {
    fn read(file: &mut impl Read) -> Result<Self> {
        let mut start = [0; 8];
        file.read_exact(&mut start).context("it is too short for an .npy file")?;
        ensure!(start.starts_with(MAGIC), "it does not begin as .npy files do");
        let length = match start[6] {
            1 => {
                let mut length = [0; 2];
                file.read_exact(&mut length).context("it ends in its header")?;
                usize::from(u16::from_le_bytes(length))
            }
            2 | 3 => {
                let mut length = [0; 4];
                file.read_exact(&mut length).context("it ends in its header")?;
                u32::from_le_bytes(length) as usize
            }
            version => bail!("it has version {version} of the .npy form, and 1 to 3 are known"),
        };
        ensure!(
            length <= MOST_HEADER_BYTES,
            "its header has {length} bytes, at most {MOST_HEADER_BYTES} are read"
        );
        let mut text = vec![0; length];
        file.read_exact(&mut text).context("it ends in its header")?;
        let text = String::from_utf8(text).context("its header is no text")?;
        Self::parse(&text).with_context(|| format!("its header is {:?}", text.trim_end()))
    }

    /// Reads a Python dictionary of three entries, in any order.
    fn parse(text: &str) -> Result<Self> {
        let mut words = Words(text);
        let mut dtype = None;
        let mut is_fortran = None;
        let mut shape = None;
        words.expect('{')?;
        while !words.take('}') {
            let key = words.quoted()?;
            words.expect(':')?;
            match key {
                "descr" => dtype = Some(parse_dtype(words.quoted()?)?),
                "fortran_order" => is_fortran = Some(words.truth()?),
                "shape" => shape = Some(words.shape()?),
                _ => bail!("{key:?} is none of descr, fortran_order and shape"),
            }
            if !words.take(',') {
                words.expect('}')?;
                break;
            }
        }
        ensure!(words.rest().is_empty(), "there is more behind its }}");
        match (dtype, is_fortran, shape) {
            (Some(dtype), Some(is_fortran), Some(shape)) => Ok(Self { dtype, is_fortran, shape }),
            _ => bail!("it must say descr, fortran_order and shape"),
        }
    }
}

fn parse_dtype(descr: &str) -> Result<DType> {
    let is_order = |order: char| "<|>=".contains(order);
    let (order, name) = match descr.chars().next().filter(|&order| is_order(order)) {
        Some(order) => (order, &descr[1..]),
        None => ('<', descr),
    };
    let Some((_, dtype)) = NAMES.iter().find(|(known, _)| *known == name) else {
        bail!("elements of type {descr:?} are not known: convert them with astype");
    };
    let is_swapped = order == '>' && element_bytes(*dtype) > 1;
    ensure!(!is_swapped, "{descr:?} is big-endian: convert it with astype('<{name}')");
    Ok(*dtype)
}

/// Rest of a header's text.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn rest(&mut self) -> &'a str {
        self.0 = self.0.trim_start_matches([' ', '\t', '\n', '\r']);
        self.0
    }

    fn take(&mut self, mark: char) -> bool {
        let rest = self.rest();
        self.0 = rest.strip_prefix(mark).unwrap_or(rest);
        self.0.len() < rest.len()
    }

    fn expect(&mut self, mark: char) -> Result<()> {
        let found = self.rest().chars().next();
        ensure!(self.take(mark), "expected {mark:?}, found {found:?}");
        Ok(())
    }

    fn quoted(&mut self) -> Result<&'a str> {
        let mark = if self.take('"') { '"' } else { '\'' };
        if mark == '\'' {
            self.expect(mark)?;
        }
        let (text, rest) = self.0.split_once(mark).context("a quotation does not end")?;
        self.0 = rest;
        Ok(text)
    }

    fn truth(&mut self) -> Result<bool> {
        let rest = self.rest();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = rest.strip_prefix(word) {
                self.0 = rest;
                return Ok(value);
            }
        }
        bail!("fortran_order is neither True nor False")
    }

    fn shape(&mut self) -> Result<Vec<usize>> {
        let mut shape = Vec::new();
        self.expect('(')?;
        while !self.take(')') {
            ensure!(shape.len() < MOST_DIMS, "its shape has more than {MOST_DIMS} dimensions");
            shape.push(self.number()?);
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }

    fn number(&mut self) -> Result<usize> {
        let rest = self.rest();
        let digits =
            rest.len() - rest.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
        let (number, rest) = rest.split_at(digits);
        self.0 = rest.strip_prefix('L').unwrap_or(rest); // as Python 2 wrote it
        number.parse().with_context(|| format!("{number:?} is no size"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, elements: &[u8]) -> Vec<u8> {
        let length = (header.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &length, header.as_bytes(), elements].concat()
    }

    fn values(bytes: &[u8]) -> Vec<u16> {
        read(bytes).expect("an array").values().expect("it is not lent")
    }

    fn refusal(bytes: &[u8]) -> String {
        format!("{:#}", read(bytes).expect_err("no array"))
    }

    #[test]
    fn every_dtype_and_shape_reads_what_it_writes() -> Result<()> {
        for (_, dtype) in NAMES {
            for shape in [vec![], vec![3], vec![2, 3], vec![4, 0, 2], vec![1, 2, 3, 4]] {
                let count = shape.iter().product::<usize>() * element_bytes(dtype);
                let elements: Vec<u8> = (0..count).map(|at| (at % 2) as u8).collect();
                let bytes = write(&shape, dtype, &elements)?;
                let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
                assert!((10 + header).is_multiple_of(64));
                let tensor = read(&bytes[..])?;
                assert_eq!((tensor.shape(), tensor.data_type()), (&shape[..], dtype));
                assert_eq!(tensor.buffer().read()?[..], elements[..]);
            }
        }
        Ok(())
    }

    #[test]
    fn fortran_order_is_turned_into_rows() {
        let header = "{'descr': '<u2', 'fortran_order': True, 'shape': (2, 3), }";
        let columns: Vec<u8> =
            [1_u16, 4, 2, 5, 3, 6].into_iter().flat_map(u16::to_le_bytes).collect();
        assert_eq!(values(&file(header, &columns)), [1, 2, 3, 4, 5, 6]);
        let cube = "{'descr': '<u2', 'fortran_order': True, 'shape': (2, 2, 2)}";
        let columns: Vec<u8> =
            [0_u16, 4, 2, 6, 1, 5, 3, 7].into_iter().flat_map(u16::to_le_bytes).collect();
        assert_eq!(values(&file(cube, &columns)), [0, 1, 2, 3, 4, 5, 6, 7]);
        let empty = "{'descr': '<u2', 'fortran_order': True, 'shape': (2, 0)}";
        assert!(values(&file(empty, &[])).is_empty());
    }

    #[test]
    fn the_second_version_and_other_spellings_are_read() {
        let header = "{\"shape\":(2L,),\"fortran_order\":False,\"descr\":\"u2\"}";
        assert_eq!(values(&file(header, &[1, 0, 2, 0])), [1, 2]);
        let length = (header.len() as u32).to_le_bytes();
        let second = [MAGIC, &[2, 0], &length, header.as_bytes(), &[1, 0, 2, 0]].concat();
        assert_eq!(values(&second), [1, 2]);
    }

    #[test]
    fn what_bfloat16_is_cannot_be_written() {
        let error = write(&[1], DType::BFloat16, &[0, 0]).expect_err("NumPy has none");
        assert_eq!(error.to_string(), "bfloat16 has no .npy form: write a .safetensors file");
    }

    #[test]
    fn hostile_files_are_refused() {
        let header = |descr: &str, shape: &str| {
            file(
                &format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}"),
                &[1; 8],
            )
        };
        for (bytes, expected) in [
            (b"".to_vec(), "too short"),
            (b"\x93NUMPZ\x01\x00".to_vec(), "does not begin"),
            (b"\x93NUMPY\x07\x00".to_vec(), "version 7"),
            (b"\x93NUMPY\x01\x00\xff".to_vec(), "ends in its header"),
            (b"\x93NUMPY\x01\x00\xff\xff{".to_vec(), "ends in its header"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "4294967295 bytes"),
            (b"\x93NUMPY\x01\x00\x02\x00\xff\xff".to_vec(), "no text"),
            (header("<f4", "(3,)"), "ends after 8 of the 12 bytes"),
            (header("<f4", "(1,)"), "more behind the 4 bytes"),
            (header("<f4", "(4294967296, 4294967296)"), "larger than any memory"),
            (header("<f4", "(4611686018427387904,)"), "larger than any memory"),
            (header("<f4", "(1152921504606846976,)"), "ends after 8"),
            (header("<f4", "(99999999999999999999,)"), "is no size"),
            (header("<f4", "(-1,)"), "is no size"),
            (header("<f4", "(1 2)"), "expected ')'"),
            (header("<f4", "("), "is no size"),
            (header(">f4", "(2,)"), "big-endian: convert it with astype('<f4')"),
            (header("<V2", "(4,)"), "not known"),
            (header("|O", "(1,)"), "not known"),
            (header("é", "(1,)"), "not known"),
            (file("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", &[1, 2]), "element 1"),
            (file("{'descr': '<f4'}", &[]), "must say"),
            (file("{'descr': '<f4", &[]), "does not end"),
            (file("{'other': 1}", &[]), "none of"),
            (file("{'fortran_order': None}", &[]), "neither True nor False"),
            (file("", &[]), "expected '{', found None"),
            (header("<f4", &format!("({})", "1,".repeat(65))), "more than 64"),
        ] {
            let refusal = refusal(&bytes);
            assert!(refusal.contains(expected), "{expected:?}: {refusal}");
        }
    }

    #[test]
    fn a_file_that_breaks_off_or_has_a_wrong_bit_never_panics() -> Result<()> {
        let whole = write(&[2, 3], DType::Float32, &[0; 24])?;
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end}");
        }
        for bit in 0..8 * (whole.len() - 24) {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _ = read(&bytes[..]); // whichever
        }
        Ok(())
    }
}
