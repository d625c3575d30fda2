use serde::{Deserialize, Serialize};

/// Index of one of the plan's images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ImageId(pub u32);

/// One compute of a plan, with the correction that has to come before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Human-readable name, for errors, traces and profiles.
    pub name: String,
    /// The compute program.
    pub compute: ImageId,
    /// The correction program; a step without one has its whole table in init packets.
    pub correction: Option<ImageId>,
    /// The name of each dim that the program walks over. Tensors give the extents, by these names.
    pub dims: Vec<String>,
    /// Binding of each of the program's operands.
    pub bindings: Vec<Binding>,
    /// Memory that each instance needs behind its word table.
    pub scratch_bytes: u64,
}

/// Tensor or intermediate that an operand stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// A tensor that the launch is given: its place in `tensor_input_metadata`.
    Tensor(u32),
    /// Memory of the plan's own: its place in `intermediates`.
    Intermediate(u32),
}
