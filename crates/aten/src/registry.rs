//! Table of operators: how each overload of PyTorch is carried out, and what its callers have to know of it.

mod aliases;
mod composites;
mod flags;
mod op;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use self::aliases::Alias;
use self::composites::COMPOSITES;
use self::flags::FLAGS;
pub use self::flags::Flag;
pub use self::op::Op;

/// Way in which calls of an overload are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// Kernels: an [`Op`] makes recipes of calls.
    Native(Op),
    /// Other operators, which a function of Python calls: one of `torch_spyre.ops.composites`.
    Composite,
    /// Other operators: PyTorch's own decomposition, if it has one.
    PyTorch,
    /// The CPU's kernel, on copies of the tensors.
    Cpu,
}

impl Way {
    /// Name of the way, as the page of operators has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native(_) => "native",
            Self::Composite => "composite",
            Self::PyTorch => "pytorch",
            Self::Cpu => "cpu",
        }
    }
}

/// Row of the table: an overload, its ways and its flags.
#[derive(Clone, Debug, Default)]
pub struct OperatorRow {
    native: Option<Op>,
    is_composite: bool,
    flags: u32,
}

/// Rows by name. An overload that has none is PyTorch's to decompose, or the CPU's.
static ROWS: LazyLock<BTreeMap<&'static str, OperatorRow>> = LazyLock::new(|| {
    let mut rows = BTreeMap::<&'static str, OperatorRow>::new();
    for op in Op::all() {
        rows.entry(op.name()).or_default().native = Some(op);
    }
    for name in COMPOSITES.iter().flat_map(|(_, names)| names.split_whitespace()) {
        rows.entry(name).or_default().is_composite = true;
    }
    for (flag, names) in FLAGS {
        for name in names.split_whitespace() {
            rows.entry(name).or_default().flags |= flag.bit();
        }
    }
    rows
});

impl OperatorRow {
    /// Every row that names one overload, by name.
    pub fn all() -> impl Iterator<Item = (&'static str, &'static Self)> {
        ROWS.iter().map(|(&name, row)| (name, row)).filter(|(name, _)| !name.ends_with(ANY))
    }

    /// Row of an overload, such as `add.out` or `torchvision::nms`; `aten::` may stand before the name.
    pub fn of(name: &str) -> Option<&'static Self> {
        ROWS.get(name.strip_prefix("aten::").unwrap_or(name))
    }

    /// Ways of an overload, in the order in which they are tried: each takes the calls that the ones
    /// before it decline.
    pub fn ways(&self) -> impl Iterator<Item = Way> + use<> {
        let composite = self.is_composite.then_some(Way::Composite);
        let rest = [Way::PyTorch, Way::Cpu];
        self.native.map(Way::Native).into_iter().chain(composite).chain(rest)
    }
}

/// Ending of a name that stands for all overloads of an operator.
const ANY: &str = ".*";

impl Flag {
    /// Word of the flags that an overload has: those of its own row, and those of all overloads of its
    /// operator.
    pub fn of(name: &str) -> u32 {
        let base = name.split_once('.').map_or(name, |(base, _)| base);
        let flags = |row: Option<&OperatorRow>| row.map_or(0, |row| row.flags);
        flags(OperatorRow::of(name)) | flags(OperatorRow::of(&format!("{base}{ANY}")))
    }

    /// Names that are listed with this flag, in their order in the table.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let lists = FLAGS.iter().filter(move |(flag, _)| *flag == self);
        lists.flat_map(|(_, names)| names.split_whitespace())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_composites_have_one_name() {
        let mut names = HashSet::new();
        let all = COMPOSITES.iter().flat_map(|(_, names)| names.split_whitespace());
        let twice: Vec<_> = all.filter(|&name| !names.insert(name)).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }

    #[test]
    fn calls_that_kernels_decline_go_to_the_next_way() {
        let ways =
            |name| OperatorRow::of(name).map(|row| row.ways().map(Way::name).collect::<Vec<_>>());
        assert_eq!(ways("aten::add.out"), ways("add.out"));
        assert_eq!(ways("normal_"), Some(vec!["native", "composite", "pytorch", "cpu"]));
        assert_eq!(ways("aten::trace"), Some(vec!["composite", "pytorch", "cpu"]));
        assert_eq!(ways("torchvision::nms"), Some(vec!["composite", "pytorch", "cpu"]));
        assert!(OperatorRow::of("no_such_op").is_none());
    }

    #[test]
    fn flags_are_of_an_overload_or_of_all_of_an_operator() {
        let has = |name, flag: Flag| Flag::of(name) & flag.bit() != 0;
        assert!(has("aten::index.Tensor_out", Flag::MixedDevices));
        assert!(has("aten::index", Flag::MixedDevices));
        assert!(!has("aten::index_select", Flag::MixedDevices));
        assert!(has("arange.start_out", Flag::Range));
        assert!(has("cos", Flag::Hot) && !has("cos.out", Flag::Hot));
        assert_eq!(Flag::of("no_such_op"), 0);
    }

    #[test]
    fn a_flag_is_a_bit_of_its_own() {
        let mut seen = 0;
        for flag in Flag::ALL {
            assert_eq!(seen & flag.bit(), 0, "{flag:?}");
            seen |= flag.bit();
        }
    }
}
