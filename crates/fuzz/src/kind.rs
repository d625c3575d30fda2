use std::fmt;

/// Kind of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Kind {
    /// The text of a plan, and the files beside it.
    Manifests,
    /// Program images in device memory, launched.
    Images,
    /// Whole plans, loaded and launched with tensors.
    Plans,
    /// Words that a correction writes into the table of a good program.
    Words,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Manifests, Self::Images, Self::Plans, Self::Words];

    /// Number of inputs of this kind, of twenty.
    pub(crate) fn share(self) -> u64 {
        match self {
            Self::Manifests | Self::Words => 6,
            Self::Images | Self::Plans => 4,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Manifests => "manifests",
            Self::Images => "images",
            Self::Plans => "plans",
            Self::Words => "words",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
