//! Kernels that are written from a few lines of IR, once the dtypes and the dims of a call are known.

use std::fmt::Write;
use std::hash::{Hash, Hasher};

use smallvec::SmallVec;
use spyre_artifact::Lane;
use spyre_numerics::DType;

use crate::dtypes::lane;

/// A kernel that a family of ops shares.
#[derive(Debug)]
pub(crate) struct Template {
    /// Name of its kernels.
    pub(crate) name: &'static str,
    /// The names of its dims, where they are always the same ones.
    pub(crate) dims: Option<&'static str>,
    /// Its tensors, in order.
    pub(crate) operands: &'static [TemplateOperand],
    /// Numbers that a launch gives it, and their lanes; without one, the one that it computes in.
    pub(crate) scalars: &'static [(&'static str, Option<Lane>)],
    /// Lines that it computes. `<R>` stands for the dims that it reduces. Without any, a reduction is
    /// its source.
    pub(crate) body: &'static str,
}

/// A tensor of a template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TemplateOperand {
    pub(crate) name: &'static str,
    pub(crate) is_written: bool,
    pub(crate) spans: Spans,
    /// The lane that the body wants it in, if not the one that is computed in.
    pub(crate) lane: Option<Lane>,
}

/// Dims along which a tensor differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Spans {
    All,
    Kept,
    Reduced,
    /// These dims, of a template that names its dims.
    Named(&'static str),
}

impl Spans {
    pub(crate) fn includes(self, is_reduced: bool) -> bool {
        match self {
            Self::All | Self::Named(_) => true,
            Self::Kept => !is_reduced,
            Self::Reduced => is_reduced,
        }
    }
}

impl TemplateOperand {
    /// A tensor that is read, in the lane that is computed in.
    pub(crate) const fn read(name: &'static str, spans: Spans) -> Self {
        Self { name, is_written: false, spans, lane: None }
    }

    /// A tensor that is written.
    pub(crate) const fn written(name: &'static str, spans: Spans) -> Self {
        Self { name, is_written: true, spans, lane: None }
    }
}

/// A template, and what it is written for.
#[derive(Clone, Debug)]
pub struct Written {
    pub(crate) template: &'static Template,
    /// Dtype that it computes in.
    pub(crate) compute: DType,
    /// Dtypes of its tensors.
    pub(crate) dtypes: SmallVec<[DType; 6]>,
    /// Its dims from the outermost: whether each is reduced.
    pub(crate) reduced: SmallVec<[bool; 8]>,
}

impl PartialEq for Written {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.template, other.template)
            && self.compute == other.compute
            && self.dtypes == other.dtypes
            && self.reduced == other.reduced
    }
}

impl Eq for Written {}

impl Hash for Written {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.template).hash(state);
        (self.compute, &self.dtypes, &self.reduced).hash(state);
    }
}

impl Written {
    /// The axis that an operand's dim is; `None` if the template names its dims.
    pub(crate) fn axis_of(&self, operand: usize, dim: usize) -> Option<usize> {
        (0..self.reduced.len()).find(|&axis| self.dim_of(operand, axis) == Some(dim))
    }

    /// The dim that an operand has along an axis.
    pub(crate) fn dim_of(&self, operand: usize, axis: usize) -> Option<usize> {
        let spans = self.template.operands.get(operand)?.spans;
        if self.template.dims.is_some() || matches!(spans, Spans::Named(_)) {
            return None;
        }
        let is_own = |axis: &usize| spans.includes(self.reduced[*axis]);
        is_own(&axis).then(|| (0..axis).filter(is_own).count())
    }

    /// The kernel with an axis as two.
    pub(crate) fn with_axis_again(&self, axis: usize) -> Self {
        let mut kernel = self.clone();
        kernel.reduced.insert(axis, self.reduced[axis]);
        kernel
    }

    /// The kernel's text.
    pub(crate) fn text(&self) -> String {
        let own = lane(self.compute).unwrap_or(Lane::F32);
        let mut text =
            format!("kernel aten_{}({}) {{\n", self.template.name, self.dims(Spans::All));
        let mut casts = String::new();
        for (operand, &dtype) in self.template.operands.iter().zip(&self.dtypes) {
            let name = operand.name;
            let wanted = operand.lane.unwrap_or(own);
            let dims = self.dims(operand.spans);
            let is_cast = !operand.is_written && lane(dtype).ok() != Some(wanted);
            let role = if operand.is_written { "out" } else { "in" };
            let tail = if is_cast { "_" } else { "" };
            put(&mut text, format_args!("    {role} {name}{tail}: {dtype}[{dims}]\n"));
            if is_cast {
                put(&mut casts, format_args!("    {name} = {wanted}({name}_)\n"));
            }
        }
        for (name, lane) in self.template.scalars {
            put(&mut text, format_args!("    scalar {name}: {}\n", lane.unwrap_or(own)));
        }
        text + &casts + &self.body() + "}\n"
    }

    fn body(&self) -> String {
        let reduced = self.dims(Spans::Reduced);
        let is_unreduced = reduced.is_empty() && self.template.dims.is_none();
        let body = self.template.body.trim().lines().map(str::trim);
        let mut text = String::new();
        for line in body {
            let line = if is_unreduced {
                unreduced(line)
            } else {
                line.replace("<R>", &format!("<{reduced}>"))
            };
            put(&mut text, format_args!("    {}\n", self.stored(&line)));
        }
        text
    }

    /// A line, with what it stores in a lane that it can be stored from.
    fn stored(&self, line: &str) -> String {
        let Some((name, value)) = line.split_once(" = ") else { return line.to_owned() };
        let operands = self.template.operands.iter().zip(&self.dtypes);
        let mut written = operands.filter(|(operand, _)| operand.is_written);
        let Some((_, &dtype)) = written.find(|(operand, _)| operand.name == name) else {
            return line.to_owned();
        };
        match lane(dtype) {
            Ok(lane) => format!("{name} = {lane}({value})"),
            Err(_) => line.to_owned(),
        }
    }

    fn dims(&self, spans: Spans) -> String {
        if let Spans::Named(dims) = spans {
            return dims.to_owned();
        }
        if let (Some(dims), Spans::All) = (self.template.dims, spans) {
            return dims.to_owned();
        }
        let mut counts = [0; 2];
        let names = self.reduced.iter().filter_map(|&is_reduced| {
            let count = &mut counts[usize::from(is_reduced)];
            *count += 1;
            let name = format!("{}{}", if is_reduced { "r" } else { "k" }, *count - 1);
            spans.includes(is_reduced).then_some(name)
        });
        names.collect::<Vec<_>>().join(", ")
    }
}

/// A line in which nothing is reduced: what was is in parentheses already.
fn unreduced(line: &str) -> String {
    let mut text = line.to_owned();
    for op in ["argmax<R>", "argmin<R>"] {
        // The one coordinate that there is.
        while let Some(at) = text.find(op) {
            let end = closing(&text, at + op.len());
            text.replace_range(at..end, "0i64");
        }
    }
    for op in ["sum", "product", "max", "min", "any", "all"] {
        text = text.replace(&format!("{op}<R>"), "");
    }
    text
}

/// Behind the parenthesis that closes the one at `open`.
fn closing(text: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, letter) in text[open..].char_indices() {
        depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth == 0 {
            return open + at + 1;
        }
    }
    text.len()
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(line);
}
