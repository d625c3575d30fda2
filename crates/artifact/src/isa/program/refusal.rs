use spyre_numerics::DataFormat;

use crate::isa::{Dim, Lane, MAX_SKIP_DEPTH, Operand, Register, ScalarWord, Span};

/// Reason why a program is refused. The numbers in front are those of the rules on
/// [`Program`](super::Program).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Refusal {
    #[error("rule 1: {given} {what}, at most {most}")]
    TooMany { what: &'static str, given: usize, most: usize },
    #[error("rule 1: {operand} holds {format}, which no lane computes")]
    OperandFormat { operand: Operand, format: DataFormat },
    #[error("rule 1: {what} spans {span}, but the program has {dims} dims")]
    SpanOutside { what: String, span: Span, dims: usize },

    #[error("rule 2: {dim} is not one of the program's {dims} dims")]
    NoSuchDim { dim: Dim, dims: usize },
    #[error("rule 2: {register} is not one of the program's {registers} registers")]
    NoSuchRegister { register: Register, registers: usize },
    #[error("rule 2: {operand} is not one of the program's {operands} operands")]
    NoSuchOperand { operand: Operand, operands: usize },
    #[error("rule 2: {scalar} is not one of the program's {scalars} scalars")]
    NoSuchScalar { scalar: ScalarWord, scalars: usize },
    #[error("rule 2: patches belong in correction programs")]
    PatchInProgram,
    #[error("rule 2: a correction program holds patches only")]
    NotAPatch,

    #[error("rule 3: there is no loop to end")]
    EndWithoutBegin,
    #[error("rule 3: {open} loops are still open at the end; add as many `end`")]
    BeginWithoutEnd { open: usize },
    #[error("rule 3: {dim} is already open; a nest cuts each dim once")]
    DimOpenTwice { dim: Dim },

    #[error("rule 4: a skip of nothing; leave it out")]
    SkipNothing,
    #[error("rule 4: the skip reaches instruction {to}, past the end of its block")]
    SkipLeavesBlock { to: usize },
    #[error("rule 4: skips nest deeper than {MAX_SKIP_DEPTH}")]
    SkipsTooDeep,

    #[error("rule 5: {what} spans {span}, but only {open} is open here")]
    NotOpen { what: String, span: Span, open: Span },
    #[error("rule 6: {register} is read before every path has written it")]
    ReadBeforeWrite { register: Register },

    #[error("rule 7: {operand} is declared as {access}")]
    Access { operand: Operand, access: &'static str },
    #[error("rule 7: {operand} spans {operand_span}, which does not fit {register} over {span}")]
    TransferSpan { operand: Operand, operand_span: Span, register: Register, span: Span },
    #[error("rule 7: {register} of lane {lane} cannot carry {format}")]
    TransferLane { register: Register, lane: Lane, format: DataFormat },

    #[error("rule 8: {target} spans {span}, but its inputs span {expected} together")]
    Span { target: Register, span: Span, expected: Span },
    #[error("rule 8: {register} has lane {lane}, expected {expected}")]
    Lane { register: Register, lane: Lane, expected: &'static str },

    #[error("rule 9: {target} spans {span}, expected some but not all dims of {source_span}")]
    ReduceSpan { target: Register, span: Span, source_span: Span },

    #[error("rule 8: a counter gives 4 words, not one more at {word}")]
    RandomWord { word: u8 },

    #[error("rule 9: {source_register} spans {span}, so nothing goes along {dim}")]
    NotAlong { source_register: Register, span: Span, dim: Dim },
    #[error("rule 9: {register} spans {span}, expected {expected}")]
    AlongSpan { register: Register, span: Span, expected: Span },
    #[error("rule 9: {register} would hold two results at once")]
    SameRegister { register: Register },
    #[error("rule 9: the loop over {dim} cuts what is sorted along it: its tile must be `all`")]
    NotWhole { dim: Dim },

    #[error("rule 10: {k} is not spanned by both {left} and {right}")]
    DotDim { k: Dim, left: Operand, right: Operand },
    #[error(
        "rule 10: {target} spans {span}, expected all dims of {left} over {} and {right} over {} but some that both span",
        .spans[0], .spans[1]
    )]
    MultiplySpan { target: Register, span: Span, left: Register, right: Register, spans: [Span; 2] },

    #[error("rule 13: {operand} spans {span}, and {dim} is not part of it or has two coordinates")]
    CoordinateDim { operand: Operand, span: Span, dim: Dim },
    #[error("rule 13: {register} spans {span}, which is not all of the {needed} that it needs")]
    CoordinateSpan { register: Register, span: Span, needed: Span },
    #[error(
        "rule 13: tiles of the parallel loop over {dim} would read what others write of {operand}"
    )]
    ParallelGather { operand: Operand, dim: Dim },

    #[error("rule 11: {register} held a value before the parallel loop over {dim}")]
    ParallelWrite { register: Register, dim: Dim },
    #[error("rule 11: tiles of the parallel loop over {dim} would all write one part of {operand}")]
    ParallelStore { operand: Operand, dim: Dim },

    #[error("rule 12: the patch's {what} ends at word {end}, past {words}")]
    PatchOutside { what: &'static str, end: u64, words: u32 },
    #[error("rule 12: a patch of no words; leave it out")]
    PatchNothing,
    #[error("rule 12: table word {word} is patched twice")]
    PatchTwice { word: u32 },
}
