use std::collections::BTreeMap;
use std::ffi::OsString;

/// Number of software cards.
pub(crate) const WORLD_SIZE: &str = "AIU_WORLD_SIZE";
/// Processes on this machine, as launchers such as torchrun set it for each of them.
pub(crate) const LOCAL_WORLD_SIZE: &str = "LOCAL_WORLD_SIZE";
/// Cards that are exposed.
pub(crate) const DEVICES: &str = "SPYRE_DEVICES";
/// Memory mode of the cards.
pub(crate) const MODE: &str = "FLEX_DEVICE";
/// Memory that they may use together.
pub(crate) const MEMORY_LIMIT: &str = "SPYRE_MEMORY_LIMIT";
/// Number of regions of memory that each has.
pub(crate) const REGIONS: &str = "SPYRE_REGIONS";
/// Length of each region.
pub(crate) const REGION_SIZE: &str = "SPYRE_REGION_SIZE";

/// The environment variables that say something about cards.
///
/// ```
/// use spyre_flex::{Devices, Environment};
///
/// let environment = Environment::from_iter([("AIU_WORLD_SIZE", "2"), ("SPYRE_MEMORY_LIMIT", "4G")]);
/// let devices = Devices::from_environment(&environment)?;
/// assert_eq!(devices.visible, [0, 1]);
/// assert_eq!(devices.memory_limit_bytes, 4 << 30);
/// # Ok::<(), spyre_flex::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    values: BTreeMap<&'static str, OsString>,
}

impl Environment {
    /// The variables that are read. Others are ignored.
    pub const VARIABLES: [&str; 7] =
        [WORLD_SIZE, LOCAL_WORLD_SIZE, DEVICES, MODE, MEMORY_LIMIT, REGIONS, REGION_SIZE];

    /// Variables of this process, as they are now.
    pub fn of_process() -> Self {
        let set = |name| std::env::var_os(name).map(|value| (name, value));
        Self { values: Self::VARIABLES.into_iter().filter_map(set).collect() }
    }

    /// The value of a variable, if it is set.
    pub(crate) fn value(&self, name: &'static str) -> Result<Option<&str>, EnvironmentError> {
        let Some(value) = self.values.get(name) else { return Ok(None) };
        match value.to_str() {
            Some(text) => Ok(Some(text)),
            None => {
                let value = value.to_string_lossy().into_owned();
                Err(EnvironmentError::NotUnicode { variable: name, value })
            }
        }
    }
}

impl<N: AsRef<str>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    /// Names and values as given; of a name that comes twice, the last one counts.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let known = |(name, value): (N, V)| {
            let name = Self::VARIABLES.into_iter().find(|known| *known == name.as_ref())?;
            Some((name, value.into()))
        };
        Self { values: pairs.into_iter().filter_map(known).collect() }
    }
}

/// A variable whose value does not say what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum EnvironmentError {
    /// The bytes of a value are no text.
    #[error("{variable} is {value:?}, which is not Unicode: give it plain text, or unset it")]
    NotUnicode { variable: &'static str, value: String },

    /// `AIU_WORLD_SIZE`.
    #[error("AIU_WORLD_SIZE is {value:?}: give a number of cards from 1 to 8, or unset it for 1")]
    WorldSize { value: String },

    /// `LOCAL_WORLD_SIZE`.
    #[error(
        "LOCAL_WORLD_SIZE is {value:?}: give the number of processes on this machine, as torchrun \
         does, or unset it for 1"
    )]
    LocalWorldSize { value: String },

    /// An entry of `SPYRE_DEVICES`.
    #[error(
        "SPYRE_DEVICES is {value:?}, and its entry {entry:?} is not a number: give indices of \
         cards with commas between them, such as 0,1"
    )]
    DeviceEntry { value: String, entry: String },

    /// `FLEX_DEVICE`.
    #[error("FLEX_DEVICE is {value:?}: give PF, VF or MOCK, or unset it for VF")]
    Mode { value: String },

    /// `SPYRE_MEMORY_LIMIT`.
    #[error(
        "SPYRE_MEMORY_LIMIT is {value:?}: give whole bytes such as 8589934592, 8G or 512MiB, or \
         a share of the available memory from 1% to 100%"
    )]
    MemoryLimit { value: String },

    /// `SPYRE_REGIONS`.
    #[error("SPYRE_REGIONS is {value:?}: give a number of regions from 1 to 64, or unset it for 8")]
    Regions { value: String },

    /// `SPYRE_REGION_SIZE`.
    #[error(
        "SPYRE_REGION_SIZE is {value:?}: give whole bytes from 1M to 1T, such as 4G or 512MiB, or \
         unset it for 12G"
    )]
    RegionSize { value: String },

    /// The host does not say how much memory it has left.
    #[error(
        "cannot tell how much memory is available, as /proc/meminfo says nothing of it: set \
         SPYRE_MEMORY_LIMIT to a number of bytes such as 8G"
    )]
    MemoryUnknown,
}
