use std::fmt;

use serde::Serialize;
use spyre::artifact::{Binding, CompilerOutput, CorrectionWord, OperandType, Step};

use crate::reports::text;

/// One step of a plan, with what its operands are and what its correction is given.
#[derive(Debug, Serialize)]
pub(super) struct StepReport {
    step: usize,
    name: String,
    compute_image: u32,
    correction_image: Option<u32>,
    dims: Vec<String>,
    scratch_bytes: u64,
    operands: Vec<OperandReport>,
    correction_bytes: u64,
    correction_words: Vec<WordRun>,
}

#[derive(Debug, Serialize)]
struct OperandReport {
    operand: String,
    access: &'static str,
    format: &'static str,
    dims: Vec<String>,
    is: &'static str,
    name: String,
}

/// Words of a correction's input that follow each other as they do in the table.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct WordRun {
    word: usize,
    words: usize,
    first: String,
    last: String,
}

impl StepReport {
    pub(super) fn new(plan: &CompilerOutput, at: usize) -> Self {
        let step = &plan.steps[at];
        let metadata = &plan.correction_metadata[at];
        let operands = plan.program(step.compute).map_or(&[][..], |program| program.operands());
        let operands = operands.iter().zip(&step.bindings).enumerate();
        let operand = |(nth, (operand, binding)): (usize, (&OperandType, &Binding))| {
            OperandReport::new(plan, step, nth, *operand, *binding)
        };
        Self {
            step: at,
            name: step.name.clone(),
            compute_image: step.compute.0,
            correction_image: step.correction.map(|image| image.0),
            dims: step.dims.clone(),
            scratch_bytes: step.scratch_bytes,
            operands: operands.map(operand).collect(),
            correction_bytes: metadata.input_bytes,
            correction_words: runs(&metadata.words),
        }
    }
}

impl OperandReport {
    fn new(
        plan: &CompilerOutput,
        step: &Step,
        nth: usize,
        operand: OperandType,
        binding: Binding,
    ) -> Self {
        let (is, name) = match binding {
            Binding::Tensor(at) => {
                ("tensor", plan.tensor_input_metadata.get(at as usize).map(|known| &known.name))
            }
            Binding::Intermediate(at) => {
                ("intermediate", plan.intermediates.get(at as usize).map(|known| &known.name))
            }
        };
        let dim = |dim: spyre::artifact::Dim| {
            step.dims.get(dim.index()).cloned().unwrap_or_else(|| dim.to_string())
        };
        Self {
            operand: format!("o{nth}"),
            access: operand.access.name(),
            format: operand.format.name(),
            dims: operand.span.dims().map(dim).collect(),
            is,
            name: name.cloned().unwrap_or_default(),
        }
    }

    fn row(&self) -> Vec<String> {
        let Self { operand, access, format, dims, is, name } = self;
        let dims = format!("[{}]", dims.join(" "));
        let is = format!("{is} {name}");
        vec![operand.clone(), is, (*access).to_owned(), (*format).to_owned(), dims]
    }
}

fn runs(words: &[CorrectionWord]) -> Vec<WordRun> {
    let mut runs = Vec::new();
    let mut word = 0;
    for run in words.chunk_by(|left, right| follows(*left, *right)) {
        let first = run[0].to_string();
        let last = run[run.len() - 1].to_string();
        runs.push(WordRun { word, words: run.len(), first, last });
        word += run.len();
    }
    runs
}

fn follows(left: CorrectionWord, right: CorrectionWord) -> bool {
    use CorrectionWord::{Extent, Operand, Scalar};
    match (left, right) {
        (Operand(left, before), Operand(right, after)) => {
            left == right && before.word() + 1 == after.word()
        }
        (Extent(left), Extent(right)) => left.index() + 1 == right.index(),
        (Scalar(left), Scalar(right)) => left.index() + 1 == right.index(),
        _ => false,
    }
}

impl WordRun {
    fn row(&self) -> Vec<String> {
        let Self { word, words, first, last } = self;
        match words {
            1 => vec![format!("  word {word}"), first.clone()],
            _ => {
                vec![
                    format!("  words {word} to {}", word + words - 1),
                    format!("{first} to {last}"),
                ]
            }
        }
    }
}

impl fmt::Display for StepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, name, compute_image, dims, scratch_bytes, .. } = self;
        let numbered = dims.iter().enumerate().map(|(at, name)| format!("d{at}={name}"));
        let dims = numbered.collect::<Vec<_>>().join(" ");
        write!(f, "step {step} {name}: image {compute_image}, dims {dims}")?;
        match scratch_bytes {
            0 => writeln!(f)?,
            _ => writeln!(f, ", {scratch_bytes} bytes of scratch")?,
        }
        let rows: Vec<Vec<String>> = self.operands.iter().map(OperandReport::row).collect();
        write!(f, "{}", text::columns(&rows))?;
        match self.correction_image {
            None => writeln!(f, "  no correction"),
            Some(image) => {
                writeln!(f, "  correction: image {image}, {} bytes", self.correction_bytes)?;
                let rows: Vec<_> = self.correction_words.iter().map(WordRun::row).collect();
                write!(f, "{}", text::columns(&rows))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use spyre::artifact::{Dim, Operand, OperandField, ScalarWord, TileFlag};

    use super::*;

    #[test]
    fn words_that_follow_each_other_are_one_run() {
        let operand =
            |at| OperandField::all().map(move |field| CorrectionWord::Operand(Operand(at), field));
        let others = [
            CorrectionWord::Extent(Dim(0)),
            CorrectionWord::Extent(Dim(1)),
            CorrectionWord::Extent(Dim(3)),
            CorrectionWord::Scalar(ScalarWord(0)),
            CorrectionWord::Flag(Dim(2), TileFlag::Last),
        ];
        let words: Vec<_> = operand(0).chain(operand(1)).chain(others).collect();
        let found: Vec<_> = runs(&words).into_iter().map(|run| (run.word, run.words)).collect();
        assert_eq!(found, [(0, 26), (26, 26), (52, 2), (54, 1), (55, 1), (56, 1)]);
        assert!(runs(&[]).is_empty());
    }
}
