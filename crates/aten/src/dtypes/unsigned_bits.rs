//! Expressions of 64-bit integers without a sign, in kernels whose integers have one.

/// The number that bits without a sign stand for, in a lane of floats. Of a large one, half is taken
/// and doubled; its last bit stays, so that it is rounded once.
pub(crate) fn as_float(operand: &str, lane: impl std::fmt::Display) -> String {
    let half = format!("(({operand} >> 1) & {}) | ({operand} & 1)", i64::MAX);
    format!("where({operand} < 0, {lane}({half}) * 2, {lane}({operand}))")
}

/// A number with a sign that has the order of one without.
pub(crate) fn as_ordered(operand: &str) -> String {
    format!("({operand} ^ (-{} - 1))", i64::MAX)
}
