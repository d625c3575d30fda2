use std::fmt;

use serde::Serialize;
use spyre::artifact::{Code, CodeImage};

use crate::reports::text;

/// One image of a plan.
#[derive(Debug, Serialize)]
pub(super) struct ImageReport {
    image: usize,
    kind: &'static str,
    bytes: usize,
    constant_bytes: usize,
    #[serde(flatten)]
    counts: Counts,
    disassembly: Option<String>,
    hex: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Counts {
    Compute { dims: usize, operands: usize, registers: usize, scalars: usize, instructions: usize },
    Correction { input_words: u32, table_words: u32, patches: usize },
}

impl ImageReport {
    pub(super) fn new(at: usize, image: &CodeImage, disassemble: bool, hex: bool) -> Self {
        let (kind, counts, disassembly) = match image.code() {
            Code::Compute(program) => {
                let counts = Counts::Compute {
                    dims: program.dims(),
                    operands: program.operands().len(),
                    registers: program.registers().len(),
                    scalars: program.scalars(),
                    instructions: program.instructions().len(),
                };
                ("compute", counts, program.to_string())
            }
            Code::Correction(correction) => {
                let counts = Counts::Correction {
                    input_words: correction.input_words(),
                    table_words: correction.table_words(),
                    patches: correction.patches().len(),
                };
                ("correction", counts, correction.to_string())
            }
        };
        let bytes = image.encode();
        Self {
            image: at,
            kind,
            bytes: bytes.len(),
            constant_bytes: image.constants().len(),
            counts,
            disassembly: disassemble.then_some(disassembly),
            hex: hex.then(|| text::hex_dump(&bytes)),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = match *self {
            Self::Compute { dims, operands, registers, scalars, instructions } => vec![
                text::count(dims, "dim"),
                text::count(operands, "operand"),
                text::count(registers, "register"),
                text::count(scalars, "scalar"),
                text::count(instructions, "instruction"),
            ],
            Self::Correction { input_words, table_words, patches } => vec![
                text::count(input_words as usize, "input word"),
                text::count(table_words as usize, "table word"),
                match patches {
                    1 => "1 patch".to_owned(),
                    _ => format!("{patches} patches"),
                },
            ],
        };
        f.write_str(&counts.join(", "))
    }
}

impl fmt::Display for ImageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { image, kind, bytes, constant_bytes, counts, .. } = self;
        write!(f, "image {image}: {kind}, {bytes} bytes: {counts}")?;
        match constant_bytes {
            0 => writeln!(f)?,
            _ => writeln!(f, ", {constant_bytes} bytes of constants")?,
        }
        for part in [&self.disassembly, &self.hex].into_iter().flatten() {
            part.lines().try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        Ok(())
    }
}
