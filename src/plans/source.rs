use spyre_artifact::{FORMAT_VERSION, IMAGE_VERSION};
use spyre_compiler::{CompileOptions, Kernel, VERSION};
use spyre_numerics::Profile;

use super::key::PlanKey;

/// All that a plan depends on, as a text: a few lines about the compiler, and the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source(String);

impl Source {
    pub(super) fn new(kernel: &Kernel, options: &CompileOptions) -> Self {
        let CompileOptions { profile, max_tile } = options;
        let profile = match profile {
            Profile::Open => "open",
            Profile::Card => "card",
        };
        let tile = max_tile.map_or(0, u32::from); // none
        Self(format!(
            "compiler {VERSION}\nform {FORMAT_VERSION}.{IMAGE_VERSION}\nprofile {profile}\ntile {tile}\n{kernel}"
        ))
    }

    /// The source that an entry says it was made from.
    pub(super) fn of_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    pub(super) fn key(&self) -> PlanKey {
        PlanKey::of_bytes(self.0.as_bytes())
    }

    /// The kernel's name.
    pub(super) fn name(&self) -> Option<&str> {
        let name = self.line("kernel ")?;
        name.split('(').next()
    }

    pub(super) fn compiler(&self) -> Option<&str> {
        self.line("compiler ")
    }

    pub(super) fn profile(&self) -> Option<&str> {
        self.line("profile ")
    }

    fn line(&self, start: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(start))
    }
}
