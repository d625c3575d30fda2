use super::entry::{Domain, Entry, Outcome};
use super::parameter::Parameter;

/// A row of the table: names of overloads, and words for their parameters.
pub(super) fn row(names: &'static str, parameters: &'static str) -> Entry {
    Entry {
        names: names.split_whitespace().collect(),
        parameters: parameters.split_whitespace().map(Parameter::read).collect(),
        domain: Domain::Promoted,
        outcome: Outcome::Computed,
        float: None,
        int: None,
        boolean: None,
        unsigned: None,
        complex: None,
        is_double: false,
        is_wide: false,
        is_strict: false,
        number: 0,
    }
}

impl Entry {
    pub(super) fn float(self, expression: &'static str) -> Self {
        Self { float: Some(expression), ..self }
    }

    /// Floats of at least 32 bits alone.
    pub(super) fn wide(self, expression: &'static str) -> Self {
        Self { is_wide: true, ..self.float(expression) }
    }

    pub(super) fn int(self, expression: &'static str) -> Self {
        Self { int: Some(expression), ..self }
    }

    pub(super) fn boolean(self, expression: &'static str) -> Self {
        Self { boolean: Some(expression), ..self }
    }

    pub(super) fn unsigned(self, expression: &'static str) -> Self {
        Self { unsigned: Some(expression), ..self }
    }

    /// Uses the expression of integers also for unsigned ones: their bits are the same.
    pub(super) fn wraps(self) -> Self {
        Self { unsigned: self.int, ..self }
    }

    /// Uses one expression for floats and integers.
    pub(super) fn number(self, expression: &'static str) -> Self {
        self.float(expression).int(expression)
    }

    /// Integers are computed as floats.
    pub(super) fn in_float(self, expression: &'static str) -> Self {
        Self { domain: Domain::Float, ..self.float(expression) }
    }

    /// A result of another dtype is refused.
    pub(super) fn strict(self) -> Self {
        Self { is_strict: true, ..self }
    }

    /// Its results are booleans.
    pub(super) fn asks(self) -> Self {
        Self { outcome: Outcome::Bool, ..self }
    }
}
