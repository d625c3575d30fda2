//! Words that mean something.

use spyre_artifact::{BinaryOp, CompareOp, Lane, OrderOp, ReduceOp, ScanOp, UnaryOp};

use super::composed::composed;
use crate::Seek;
use crate::ir::sort_name;

const KEYWORDS: [&str; 13] = [
    "kernel", "in", "out", "inout", "scalar", "if", "else", "where", "size", "true", "false",
    "round", "random",
];

/// Floats that have no digits, and the same with a lane.
pub(super) fn is_float_word(word: &str) -> bool {
    let rest = word.strip_prefix("inf").or_else(|| word.strip_prefix("nan"));
    rest.is_some_and(|rest| rest.is_empty() || lane(rest).is_some_and(Lane::is_float))
}

/// Returns true if a word can be a name.
pub(crate) fn is_name(word: &str) -> bool {
    let mut letters = word.chars();
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    letters.next().is_some_and(is_letter)
        && letters.all(|letter| is_letter(letter) || letter.is_ascii_digit())
        && !is_reserved(word)
}

/// Returns true if kernels have a function of values with this name.
pub fn is_function(word: &str) -> bool {
    unary(word).is_some() || binary(word).is_some() || composed(word).is_some()
}

/// Returns true if it is a word of the language.
fn is_reserved(word: &str) -> bool {
    KEYWORDS.contains(&word)
        || is_float_word(word)
        || unary(word).is_some()
        || binary(word).is_some()
        || compare(word).is_some()
        || reduce(word).is_some()
        || scan(word).is_some()
        || seek(word).is_some()
        || sort(word).is_some()
        || lane(word).is_some()
}

pub(super) fn unary(word: &str) -> Option<UnaryOp> {
    UnaryOp::ALL.iter().copied().find(|op| op.name() == word)
}

pub(super) fn binary(word: &str) -> Option<BinaryOp> {
    BinaryOp::ALL.iter().copied().find(|op| op.name() == word)
}

fn compare(word: &str) -> Option<CompareOp> {
    CompareOp::ALL.iter().copied().find(|op| op.name() == word)
}

pub(super) fn reduce(word: &str) -> Option<ReduceOp> {
    ReduceOp::ALL.iter().copied().find(|op| op.name() == word)
}

pub(super) fn scan(word: &str) -> Option<ScanOp> {
    ScanOp::ALL.iter().copied().find(|op| op.name() == word)
}

pub(super) fn seek(word: &str) -> Option<Seek> {
    Seek::ALL.into_iter().find(|seek| seek.name() == word)
}

pub(super) fn sort(word: &str) -> Option<OrderOp> {
    OrderOp::ALL.iter().copied().find(|&op| sort_name(op) == word)
}

pub(super) fn lane(word: &str) -> Option<Lane> {
    Lane::ALL.into_iter().find(|lane| lane.name() == word)
}

/// An operation that is written between its sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Infix {
    Binary(BinaryOp),
    Compare(CompareOp),
}

/// Signs between two sides, and how tightly they bind.
pub(super) const INFIX: [(&str, u8, Infix); 17] = [
    ("|", 1, Infix::Binary(BinaryOp::Or)),
    ("^", 2, Infix::Binary(BinaryOp::Xor)),
    ("&", 3, Infix::Binary(BinaryOp::And)),
    ("==", 4, Infix::Compare(CompareOp::Equal)),
    ("!=", 4, Infix::Compare(CompareOp::NotEqual)),
    ("<=", 4, Infix::Compare(CompareOp::LessEqual)),
    (">=", 4, Infix::Compare(CompareOp::GreaterEqual)),
    ("<", 4, Infix::Compare(CompareOp::Less)),
    (">", 4, Infix::Compare(CompareOp::Greater)),
    ("<<", 5, Infix::Binary(BinaryOp::ShiftLeft)),
    (">>", 5, Infix::Binary(BinaryOp::ShiftRight)),
    ("+", 6, Infix::Binary(BinaryOp::Add)),
    ("-", 6, Infix::Binary(BinaryOp::Sub)),
    ("*", 7, Infix::Binary(BinaryOp::Mul)),
    ("/", 7, Infix::Binary(BinaryOp::Div)),
    ("//", 7, Infix::Binary(BinaryOp::FloorDiv)),
    ("%", 7, Infix::Binary(BinaryOp::Modulo)),
];

/// Strength with which a sign before its side binds.
pub(super) const PREFIX_STRENGTH: u8 = 8;

/// Signs before their side.
pub(super) const PREFIX: [(&str, UnaryOp); 3] =
    [("-", UnaryOp::Neg), ("!", UnaryOp::Not), ("~", UnaryOp::BitNot)];
