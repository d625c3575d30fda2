//! The numbers that a plan's programs are given at launch, as words.

use anyhow::{Context, Result, ensure};
use spyre::artifact::{
    CompilerOutput, Constant, CorrectionWord, Instruction, Lane, Program, ScalarWord,
};

use crate::reports::text;

/// The words of `--scalar`, in the order that launches take them: step by step.
pub(crate) fn parse(plan: &CompilerOutput, texts: &[String]) -> Result<Vec<u64>> {
    let mut lanes = Vec::new();
    for (step, metadata) in plan.steps.iter().zip(&plan.correction_metadata) {
        let program = plan.program(step.compute).context("a step without a program")?;
        for word in &metadata.words {
            if let CorrectionWord::Scalar(scalar) = *word {
                lanes.push((step.name.as_str(), scalar, lane(program, scalar)));
            }
        }
    }
    ensure!(
        lanes.len() == texts.len(),
        "the plan takes {}, and {} were given: give each with --scalar N",
        text::count(lanes.len(), "scalar"),
        texts.len()
    );
    let word = |((step, scalar, lane), text): (&(&str, ScalarWord, Lane), &String)| {
        let what = || format!("--scalar {text}: {scalar} of step {step:?} is {}", kind(*lane));
        constant(*lane, text).map(Constant::word).with_context(what)
    };
    lanes.iter().zip(texts).map(word).collect()
}

/// Lane that a program reads the word as; words that only skips read are truth values.
fn lane(program: &Program, wanted: ScalarWord) -> Lane {
    let reads = program.instructions().iter().find_map(|instruction| match *instruction {
        Instruction::Scalar { target, scalar } if scalar == wanted => {
            Some(program.register(target).lane)
        }
        _ => None,
    });
    reads.unwrap_or(Lane::Bool)
}

fn constant(lane: Lane, text: &str) -> Option<Constant> {
    match (lane, text) {
        (Lane::I64, _) => text.parse().ok().map(Constant::Int),
        (Lane::Bool, "true" | "1") => Some(Constant::Bool(true)),
        (Lane::Bool, "false" | "0") => Some(Constant::Bool(false)),
        (Lane::Bool, _) => None,
        _ => text.parse().ok().map(Constant::Float),
    }
}

fn kind(lane: Lane) -> &'static str {
    match lane {
        Lane::I64 => "a whole number",
        Lane::Bool => "0 or 1",
        _ => "a number",
    }
}
