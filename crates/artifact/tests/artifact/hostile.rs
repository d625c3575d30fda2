//! Damaged bytes and noise for every decoder, a million times and more per run. What decodes at all
//! must encode to the same bytes, so each form has one spelling.
//!
//! `SPYRE_HOSTILE_RUNS=100` makes it a hundred times as long. Memory is bounded by construction:
//! the reader hands out slices of what is there, and lists are collected from those.

use spyre_artifact::*;

use crate::samples;

const INPUTS_PER_FORM: usize = 250_000;

/// A small, fast generator: the inputs are the same in every run.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

fn runs() -> usize {
    std::env::var("SPYRE_HOSTILE_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1)
}

/// Damages a copy in one to four places.
fn mutate(random: &mut Random, sample: &[u8]) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => bytes.extend(vec![random.next() as u8; random.below(300)]),
            2 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            3 if !bytes.is_empty() => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)],
            4 if bytes.len() >= 8 => {
                let at = random.below(bytes.len() / 4 - 1) * 4;
                let edges = [0, 1, u32::MAX, 1 << 31, 65536, 65537, 128];
                bytes[at..at + 4].copy_from_slice(&edges[random.below(7)].to_le_bytes());
            }
            5 if bytes.len() >= 32 => {
                let units = bytes.len() / 16;
                let from = random.below(units) * 16;
                let to = random.below(units) * 16;
                bytes.copy_within(from..from + 16, to);
            }
            _ if !bytes.is_empty() => bytes[at] = random.next() as u8,
            _ => bytes.extend(random.next().to_le_bytes()),
        }
    }
    bytes
}

/// Noise of up to 512 bytes, half of it behind an honest beginning.
fn noise(random: &mut Random, sample: &[u8]) -> Vec<u8> {
    let honest = random.below(2) * random.below(sample.len());
    let tail = (0..random.below(512)).map(|_| random.next() as u8);
    sample[..honest].iter().copied().chain(tail).collect()
}

/// Feeds damaged samples to `decode`, which gives back what it understood, encoded again.
fn attack(
    seed: u64,
    samples: &[Vec<u8>],
    repair: impl Fn(&mut [u8]),
    decode: impl Fn(&[u8]) -> Option<Vec<u8>>,
) {
    let mut random = Random(seed);
    let mut accepted = 0;
    for input in 0..INPUTS_PER_FORM * runs() {
        let sample = &samples[input % samples.len()];
        let mut bytes = match random.below(8) {
            0 => noise(&mut random, sample),
            _ => mutate(&mut random, sample),
        };
        if random.below(4) > 0 {
            repair(&mut bytes);
        }
        if let Some(encoded) = decode(&bytes) {
            assert!(encoded == bytes, "input {input} of seed {seed}: a second spelling");
            accepted += 1;
        }
    }
    assert!(accepted > INPUTS_PER_FORM / 1000, "only {accepted} reached the end: dull knives");
}

/// Makes checksums right again, so that damage gets past them.
fn seal(bytes: &mut [u8], covered: std::ops::Range<usize>) {
    if bytes.len() >= 128 && covered.end <= bytes.len() && covered.start <= covered.end {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&bytes[..124]);
        hasher.update(&bytes[covered]);
        let crc = hasher.finalize();
        bytes[124..128].copy_from_slice(&crc.to_le_bytes());
    }
}

fn programs() -> Vec<Program> {
    [samples::add(), samples::matmul(), samples::softmax(), samples::causal()]
        .into_iter()
        .map(|program| program.expect("a sound program"))
        .collect()
}

fn corrections() -> Vec<CorrectionProgram> {
    let full = |program| CompilerOutput::full_correction(program).expect("a sound one").0;
    let patch = |word| Patch { source_word: word, target_word: 2 * word, words: 1 };
    let scattered = CorrectionProgram::new(9, 40, (0..9).map(patch).collect());
    programs().iter().map(full).chain([scattered.expect("a sound one")]).collect()
}

#[test]
fn hostile_programs_do_no_harm() {
    let samples: Vec<Vec<u8>> = programs().iter().map(Program::encode).collect();
    attack(1, &samples, |_| {}, |bytes| Program::decode(bytes).ok().map(|read| read.encode()));
}

#[test]
fn hostile_corrections_do_no_harm() {
    let samples: Vec<Vec<u8>> = corrections().iter().map(CorrectionProgram::encode).collect();
    let decode = |bytes: &[u8]| CorrectionProgram::decode(bytes).ok().map(|read| read.encode());
    attack(2, &samples, |_| {}, decode);
}

#[test]
fn hostile_code_images_do_no_harm() {
    let computes = programs().into_iter().map(Code::Compute);
    let codes = computes.chain(corrections().into_iter().map(Code::Correction));
    let image = |code| CodeImage::new(code, vec![7; 5]).expect("small").encode();
    let samples: Vec<Vec<u8>> = codes.map(image).collect();
    let repair = |bytes: &mut [u8]| seal(bytes, 128..bytes.len().max(128));
    attack(3, &samples, repair, |bytes| CodeImage::decode(bytes).ok().map(|read| read.encode()));
}

#[test]
fn hostile_entry_images_do_no_harm() {
    let image = |program: &Program| {
        let handle = HandleWords([1, 2, 3]);
        EntryImage::new(handle, program.table_shape(), 64).expect("small").encode()
    };
    let samples: Vec<Vec<u8>> = programs().iter().map(image).collect();
    let decode = |bytes: &[u8]| {
        let entry = EntryImage::decode(bytes).ok()?;
        for operand in 0..=32 {
            if let Some(Ok(words)) = entry.operand(Operand(operand)) {
                let _ = words.layout(words.format);
            }
        }
        Some(entry.encode())
    };
    attack(4, &samples, |bytes| seal(bytes, 0..0), decode);
}

#[test]
fn hostile_correction_images_do_no_harm() {
    let image = |program| CorrectionImage::new(HandleWords([1, 2, 3]), program).encode();
    let samples: Vec<Vec<u8>> = corrections().into_iter().map(image).collect();
    let repair = |bytes: &mut [u8]| {
        if let Some(&[a, b, c, d]) = bytes.get(56..60).and_then(|field| field.as_array()) {
            seal(bytes, u32::from_le_bytes([a, b, c, d]) as usize..bytes.len());
        }
    };
    let decode = |bytes: &[u8]| match Image::decode(bytes).ok()? {
        Image::Correction(image) => Some(image.encode()),
        Image::Code(_) | Image::Entry(_) => None,
    };
    attack(5, &samples, repair, decode);
}

#[test]
fn hostile_operand_words_do_no_harm() {
    let mut random = Random(6);
    for _ in 0..INPUTS_PER_FORM * runs() {
        let edges = [0, 1, u64::MAX, 1 << 63, 64, 1 << 32];
        let mut words = [0; OPERAND_WORDS].map(|_: u64| match random.below(3) {
            0 => random.next(),
            _ => edges[random.below(6)],
        });
        words[13] = (random.below(10) | random.below(44) << 8 | random.below(5) << 16) as u64;
        if let Ok(operand) = OperandWords::decode(&words) {
            assert_eq!(operand.encode(), words);
            let _ = operand.layout(operand.format);
        }
    }
}

#[test]
fn an_announced_length_takes_no_memory() {
    let mut bytes = ProgramBuilder::new().build().expect("empty").encode();
    bytes[8..12].copy_from_slice(&65536_u32.to_le_bytes());
    let error = Program::decode(&bytes).expect_err("nothing is there").to_string();
    assert_eq!(error, "program, byte 16: instructions needs 1048576 bytes, found 0");
    assert!(size_of::<Instruction>() <= 2 * INSTRUCTION_BYTES);
}
