//! The kernels of steps. Parameters and what they have beside them are computed in single, or in double
//! if one of them is; corrections of whole steps in double.

use spyre_artifact::Lane;
use spyre_numerics::DType;

use crate::dtypes::lane;
use crate::generated::{Generated, Text};

/// Option of a step that the plain one does not have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flag {
    /// The rate is a tensor.
    Rate,
    /// Gradients are scaled: they are brought back, and stored so.
    Scaled,
    /// A tensor says whether to leave everything as it is.
    Checked,
    /// Parameters go up.
    Maximize,
    /// Parameters decay.
    Decays,
    /// They do so beside their gradients, not by them.
    Decoupled,
    /// The largest squares so far are kept.
    Largest,
    /// Gradients have momentum.
    Momentum,
    /// Momentum is of Nesterov's kind.
    Nesterov,
    /// Momentum is what the first gradients are.
    First,
}

impl Flag {
    pub(super) fn if_(self, is_set: bool) -> u32 {
        u32::from(is_set) << self as u32
    }
}

/// A kernel's text while it is written.
struct Lines<'a> {
    kernel: &'a Generated,
    text: Text,
    dims: Vec<String>,
    own: Lane,
    next: usize,
    has_singles: bool,
    /// Names that are written at the end, and the lanes that they are stored from.
    stores: Vec<(&'static str, Lane)>,
}

impl<'a> Lines<'a> {
    fn of(kernel: &'a Generated) -> Self {
        let mut text = Text::default();
        let dims = text.dims("i", kernel.numbers[0] as usize);
        let wide = &kernel.dtypes[..kernel.numbers[2] as usize];
        let own = if wide.contains(&DType::Float64) { Lane::F64 } else { Lane::F32 };
        Self { kernel, text, dims, own, next: 0, has_singles: false, stores: Vec::new() }
    }

    fn has(&self, flag: Flag) -> bool {
        self.kernel.numbers[1] & flag.if_(true) != 0
    }

    fn dtype(&mut self) -> DType {
        let dtype = self.kernel.dtypes[self.next];
        self.next += 1;
        dtype
    }

    /// A tensor of the parameters' shape; what is written is stored from a value with a `1` behind its
    /// name.
    fn wide(&mut self, name: &'static str, is_written: bool) {
        let dtype = self.dtype();
        let role = if is_written { "inout" } else { "in" };
        self.text.operand(role, &format!("{name}_"), dtype, &self.dims);
        if is_written {
            self.stores.push((name, lane(dtype).unwrap_or(self.own)));
        }
    }

    fn single(&mut self, role: &str, name: &str) {
        let dtype = self.dtype();
        if !std::mem::replace(&mut self.has_singles, true) {
            self.text.named("one");
        }
        self.text.operand(role, &format!("{name}_"), dtype, &["one".to_owned()]);
    }

    fn scalars(&mut self, names: &[&str]) {
        for name in names {
            self.text.line(format_args!("scalar {name}: f64"));
        }
    }

    fn line(&mut self, line: &str) {
        let line = line.replace("{own}", self.own.name());
        self.text.line(format_args!("{line}"));
    }

    /// A value that a step has with a flag; without it, that is another one.
    fn value_if(&mut self, flag: Flag, line: &str, otherwise: &str) -> String {
        self.value_when(self.has(flag), line, otherwise)
    }

    fn value_when(&mut self, is_so: bool, line: &str, otherwise: &str) -> String {
        if !is_so {
            return otherwise.to_owned();
        }
        self.line(line);
        line.split(" = ").next().unwrap_or_default().to_owned()
    }

    /// The tensors of one element that steps may have.
    fn singles(&mut self, has_step: bool) {
        if has_step {
            self.single("in", "step");
        }
        for (flag, name) in
            [(Flag::Scaled, "scale"), (Flag::Checked, "found"), (Flag::Rate, "rate")]
        {
            if self.has(flag) {
                self.single("in", name);
            }
        }
    }

    /// Tensors as values of their names.
    fn sources(&mut self, names: &[&str]) {
        for name in names {
            self.line(&format!("{name} = {{own}}({name}_)"));
        }
    }

    /// The gradient as it is stored, and as parameters follow it.
    fn gradient(&mut self) -> [String; 2] {
        let stored = self.value_if(Flag::Scaled, "unscaled = g / {own}(scale_[0])", "g");
        let followed = self.value_if(Flag::Maximize, &format!("up = -{stored}"), &stored);
        [stored, followed]
    }

    fn rate(&mut self) -> String {
        self.value_if(Flag::Rate, "lr = f64(rate_[0])", "rate")
    }

    /// Stores these values, unless a tensor says that everything is to be left as it is.
    fn finish(mut self, values: &[(&str, &str)]) -> String {
        let keeps = self.value_if(Flag::Checked, "keeps = found_[0] != 0", "");
        for (name, lane) in std::mem::take(&mut self.stores) {
            let Some((_, value)) = values.iter().find(|(known, _)| *known == name) else {
                continue;
            };
            // Gradients are brought back in any case.
            let value = if keeps.is_empty() || name == "g" {
                (*value).to_owned()
            } else {
                format!("where({keeps}, {name}, {value})")
            };
            self.line(&format!("{name}_ = {lane}({value})"));
        }
        self.text.kernel(self.kernel.name)
    }
}

pub(super) fn write_adam(kernel: &Generated) -> String {
    let mut lines = Lines::of(kernel);
    let is_scaled = lines.has(Flag::Scaled);
    let has_largest = lines.has(Flag::Largest);
    let decays = lines.has(Flag::Decays);
    let is_decoupled = lines.has(Flag::Decoupled);
    for (name, is_written) in [("p", true), ("g", is_scaled), ("m", true), ("v", true)] {
        lines.wide(name, is_written);
    }
    if has_largest {
        lines.wide("x", true);
    }
    lines.singles(true);
    lines.scalars(&["rate", "beta1", "beta2", "decay", "epsilon"]);
    lines.sources(if has_largest { &["p", "g", "m", "v", "x"] } else { &["p", "g", "m", "v"] });
    let [stored, up] = lines.gradient();
    let lr = lines.rate();
    let d = format!("d = {up} + p * {{own}}(decay)");
    let d = lines.value_when(decays && !is_decoupled, &d, &up);
    let q = format!("q = p - {{own}}({lr} * decay) * p");
    let q = lines.value_when(decays && is_decoupled, &q, "p");
    lines.line(&format!("mean = m + ({d} - m) * {{own}}(1 - beta1)"));
    lines.line(&format!("square = v * {{own}}(beta2) + {d} * {d} * {{own}}(1 - beta2)"));
    let largest = lines.value_if(Flag::Largest, "largest = max(x, square)", "square");
    lines.line("taken = f64(step_[0])");
    lines.line(&format!("size1 = {{own}}({lr} / (1 - pow(beta1, taken)))"));
    lines.line("root = {own}(sqrt(1 - pow(beta2, taken)))");
    lines.line(&format!(
        "next = {q} - size1 * (mean / (sqrt({largest}) / root + {{own}}(epsilon)))"
    ));
    lines.finish(&[("p", "next"), ("g", &stored), ("m", "mean"), ("v", "square"), ("x", "largest")])
}

pub(super) fn write_sgd(kernel: &Generated) -> String {
    let mut lines = Lines::of(kernel);
    let is_scaled = lines.has(Flag::Scaled);
    let has_momentum = lines.has(Flag::Momentum);
    lines.wide("p", true);
    lines.wide("g", is_scaled);
    if has_momentum {
        lines.wide("m", true);
    }
    lines.singles(false);
    lines.scalars(&["rate", "decay", "momentum", "dampening"]);
    lines.sources(if has_momentum { &["p", "g", "m"] } else { &["p", "g"] });
    let [stored, up] = lines.gradient();
    let lr = lines.rate();
    let d = lines.value_if(Flag::Decays, &format!("d = {up} + p * {{own}}(decay)"), &up);
    let goes_on = has_momentum && !lines.has(Flag::First);
    let moved = format!("moved = m * {{own}}(momentum) + {d} * {{own}}(1 - dampening)");
    let moved = lines.value_when(goes_on, &moved, &d);
    let ahead = format!("ahead = {d} + {moved} * {{own}}(momentum)");
    let ahead = lines.value_if(Flag::Nesterov, &ahead, &moved);
    lines.line(&format!("next = p - {{own}}({lr}) * {ahead}"));
    lines.finish(&[("p", "next"), ("g", &stored), ("m", &moved)])
}

pub(super) fn write_adagrad(kernel: &Generated) -> String {
    let mut lines = Lines::of(kernel);
    let is_scaled = lines.has(Flag::Scaled);
    for (name, is_written) in [("p", true), ("g", is_scaled), ("s", true)] {
        lines.wide(name, is_written);
    }
    lines.singles(true);
    lines.scalars(&["rate", "slower", "decay", "epsilon"]);
    lines.sources(&["p", "g", "s"]);
    let [stored, up] = lines.gradient();
    let lr = lines.rate();
    let d = lines.value_if(Flag::Decays, &format!("d = {up} + p * {{own}}(decay)"), &up);
    lines.line(&format!("total = s + {d} * {d}"));
    lines.line(&format!("now = {{own}}({lr} / (1 + (f64(step_[0]) - 1) * slower))"));
    lines.line(&format!("next = p - now * ({d} / (sqrt(total) + {{own}}(epsilon)))"));
    lines.finish(&[("p", "next"), ("g", &stored), ("s", "total")])
}

pub(super) fn write_unscale(kernel: &Generated) -> String {
    let mut lines = Lines::of(kernel);
    lines.wide("g", true);
    lines.single("inout", "found");
    lines.single("in", "scale");
    lines.sources(&["g"]);
    // What is infinite or no number is no zero when it is taken off itself.
    let dims = lines.dims.join(", ");
    lines.line(&format!("bad = max<{dims}>(where(g - g == 0, 0f32, 1f32))"));
    lines.line("found_[0] = max(found_[0], bad)");
    lines.line("unscaled = g * {own}(scale_[0])");
    lines.finish(&[("g", "unscaled")])
}

pub(super) fn write_scale(kernel: &Generated) -> String {
    let mut lines = Lines::of(kernel);
    let scale = lines.dtype();
    let tracker = lines.dtype();
    let own = lines.dims.clone();
    lines.text.operand("inout", "scale", scale, &own);
    lines.text.operand("inout", "tracker", tracker, &own);
    let found = lines.dtype();
    lines.text.operand("in", "found", found, &own);
    lines.scalars(&["growth", "backoff", "interval"]);
    lines.line("is_bad = found != 0");
    lines.line("is_due = tracker + 1 == i64(interval)");
    lines.line("grown = f32(f64(scale) * growth)");
    lines.line("shrunk = f32(f64(scale) * backoff)");
    lines.line("right = where(is_due & (grown - grown == 0), grown, scale)");
    lines.line("scale = where(is_bad, shrunk, right)");
    lines.line("tracker = where(is_bad | is_due, 0, tracker + 1)");
    lines.finish(&[])
}
