use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, OnceLock};

use spyre_card::{SoftwareCard, Threads};
use spyre_compiler::CompileOptions;
use spyre_flex::{Budget, Devices, Environment, Policy, SchedulerSettings, Settings};
use spyre_numerics::Profile;
use spyre_runtime::{Device, DeviceIndex, DeviceSettings};

/// Bytes of a real card's memory; eight of them have 1 TB. A software card has what its regions
/// have, and no more than the host can give.
pub const NOMINAL_CARD_BYTES: u64 = 128 << 30;

/// The most devices of a process: as many as `AIU_WORLD_SIZE` can ask for.
const MOST_DEVICES: usize = 8;

/// The most threads that a process can ask for.
const MOST_THREADS: usize = 1024;

/// Reason why a device is not opened.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum OpenError {
    /// A device that is not there.
    #[error(
        "there is no device {index}: this process has {count}. Set AIU_WORLD_SIZE to the number of \
         software cards, and SPYRE_DEVICES to those that it should see"
    )]
    NoSuchDevice { index: u16, count: usize },

    /// `SPYRE_PROFILE`.
    #[error("SPYRE_PROFILE is {value:?}: give open or card, or unset it for open")]
    Profile { value: String },

    /// `SPYRE_LAUNCH_BLOCKING`.
    #[error("SPYRE_LAUNCH_BLOCKING is {value:?}: give 1 to have launches wait, or 0, or unset it")]
    LaunchBlocking { value: String },

    /// `SPYRE_MAX_TILE`.
    #[error(
        "SPYRE_MAX_TILE is {value:?}: give the most elements of a dim that kernels are compiled for, such as \
         1024, or unset it"
    )]
    MaxTile { value: String },

    /// `SPYRE_NUM_THREADS`.
    #[error(
        "SPYRE_NUM_THREADS is {value:?}: give the number of threads that kernels and copies may use, from 1 to \
         {MOST_THREADS}, or unset it for one on each core of this process"
    )]
    Threads { value: String },

    /// `SPYRE_POLICY`.
    #[error(
        "SPYRE_POLICY is {value:?}: give priority, round-robin or drain-one, or unset it for priority"
    )]
    Policy { value: String },

    /// An error of the runtime.
    #[error(transparent)]
    Runtime(#[from] spyre_runtime::Error),
}

/// Settings that the devices of a process are opened with: from its environment, with defaults for what
/// that leaves out. Fields may be changed before a device is opened.
///
/// ```
/// use spyre::OpenSettings;
///
/// let settings = OpenSettings { engines: 2, ..OpenSettings::from_environment()? };
/// let device = settings.open(0)?;
/// assert_eq!(device.context().hardware().description().engines, 2);
/// # Ok::<(), spyre::OpenError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenSettings {
    /// Cards that the process sees, and the mode and regions of their memory.
    pub devices: Devices,
    /// Number formats that they keep.
    pub profile: Profile,
    /// Number of blocks that each carries out at a time.
    pub engines: u16,
    /// Threads that kernels and copies of all devices of the process use together, as the first one that is opened
    /// says; by default, one for each core.
    pub threads: Option<NonZeroUsize>,
    /// Settings of each scheduler.
    pub scheduler: SchedulerSettings,
    /// The most elements of each dim that kernels are compiled for; larger tensors are launched tile by
    /// tile. By default, what the profile says.
    pub max_tile: Option<NonZeroU32>,
    /// True if launches wait until they are done, so that the call that caused a fault reports it.
    pub launches_wait: bool,
}

impl OpenSettings {
    /// Settings from the environment; the variables are those of [`device`].
    pub fn from_environment() -> Result<Self, OpenError> {
        let devices = Devices::from_environment(&Environment::of_process())
            .map_err(spyre_runtime::Error::from)?;
        Ok(Self {
            devices,
            profile: profile(variable("SPYRE_PROFILE"))?,
            engines: 1,
            threads: threads(variable("SPYRE_NUM_THREADS"))?,
            scheduler: SchedulerSettings {
                policy: policy(variable("SPYRE_POLICY"))?,
                ..SchedulerSettings::default()
            },
            max_tile: max_tile(variable("SPYRE_MAX_TILE"))?,
            launches_wait: launches_wait(variable("SPYRE_LAUNCH_BLOCKING"))?,
        })
    }

    /// Options that kernels are compiled with.
    pub fn compile_options(&self) -> CompileOptions {
        CompileOptions { profile: self.profile, max_tile: self.max_tile }
    }

    /// Opens a device anew, with memory and streams of its own. All share the process's budget.
    pub fn open(&self, index: u16) -> Result<Device, OpenError> {
        self.check(index)?;
        let budget = Budget::of_process().map_err(spyre_runtime::Error::from)?;
        let settings = DeviceSettings {
            index: DeviceIndex(index),
            profile: self.profile,
            memory: self.memory(budget),
            scheduler: self.scheduler.clone(),
            launches_wait: self.launches_wait,
        };
        // Before a card takes those of the process as they are.
        let threads = Threads::of_process(self.threads);
        let card = SoftwareCard::new(self.devices.mode)
            .with_threads(threads)
            .with_engines(self.engines)
            .with_regions(self.devices.regions, self.devices.region_bytes);
        Ok(Device::open_with(Arc::new(card), settings)?)
    }

    /// Regions are asked for as large as the card has them, then smaller.
    fn memory(&self, budget: Arc<Budget>) -> Settings {
        let bytes = self.devices.region_bytes;
        Settings { region_bytes: vec![bytes, bytes / 3 * 2, bytes / 3], budget }
    }

    fn check(&self, index: u16) -> Result<(), OpenError> {
        let count = self.devices.visible.len();
        if usize::from(index) < count {
            Ok(())
        } else {
            Err(OpenError::NoSuchDevice { index, count })
        }
    }
}

/// A device of this process, as its environment describes it: opened when it is first asked for.
///
/// | variable | what it says |
/// |---|---|
/// | `AIU_WORLD_SIZE` | how many software cards there are: 1 to 8, else 1; more are 8, with a warning |
/// | `LOCAL_WORLD_SIZE` | processes of a launcher here: without the former there is a card for each of them |
/// | `SPYRE_DEVICES` | which of them this process sees, such as `0,2` |
/// | `FLEX_DEVICE` | `PF` or `VF`: how they give out memory |
/// | `SPYRE_MEMORY_LIMIT` | how much they may use together |
/// | `SPYRE_REGIONS` | how many regions of memory each has: 1 to 64, else 8 |
/// | `SPYRE_REGION_SIZE` | how large each region is, such as `4G`; else 12 GB |
/// | `SPYRE_PROFILE` | `open` or `card`: which numbers they keep |
/// | `SPYRE_NUM_THREADS` | how many threads kernels and copies use; else one for each core |
/// | `SPYRE_POLICY` | `priority`, `round-robin` or `drain-one`: which stream's block is next |
/// | `SPYRE_MAX_TILE` | the most elements of a dim that kernels are compiled for, such as `1024` |
/// | `SPYRE_LAUNCH_BLOCKING` | `1`: a launch waits until it is done, and tells its own faults |
///
/// ```
/// let device = spyre::device(0)?;
/// assert!(spyre::device(100).is_err());
/// device.synchronize()?;
/// # Ok::<(), spyre::OpenError>(())
/// ```
pub fn device(index: u16) -> Result<Device, OpenError> {
    static OPENED: [OnceLock<Device>; MOST_DEVICES] = [const { OnceLock::new() }; MOST_DEVICES];
    let settings = OpenSettings::from_environment()?;
    settings.check(index)?;
    let count = settings.devices.visible.len();
    let place = OPENED.get(usize::from(index)).ok_or(OpenError::NoSuchDevice { index, count })?;
    if let Some(device) = place.get() {
        return Ok(device.clone());
    }
    let opened = settings.open(index)?;
    Ok(place.get_or_init(|| opened).clone())
}

fn profile(value: Option<String>) -> Result<Profile, OpenError> {
    match value.as_deref().map(str::trim) {
        None | Some("") => Ok(Profile::default()),
        Some(name) if name.eq_ignore_ascii_case("open") => Ok(Profile::Open),
        Some(name) if name.eq_ignore_ascii_case("card") => Ok(Profile::Card),
        Some(_) => Err(OpenError::Profile { value: value.unwrap_or_default() }),
    }
}

/// Value of an environment variable. Bytes that are no text are replaced, so that errors can show the value.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn policy(value: Option<String>) -> Result<Policy, OpenError> {
    let name = value.as_deref().map(|name| name.trim().to_ascii_lowercase().replace('_', "-"));
    match name.as_deref() {
        None | Some("") => Ok(Policy::default()),
        Some("priority") => Ok(Policy::Priority),
        Some("round-robin") => Ok(Policy::RoundRobin),
        Some("drain-one") => Ok(Policy::DrainOne),
        Some(_) => Err(OpenError::Policy { value: value.unwrap_or_default() }),
    }
}

fn max_tile(value: Option<String>) -> Result<Option<NonZeroU32>, OpenError> {
    match value.as_deref().map(str::trim) {
        None | Some("") => Ok(None),
        Some(text) => match text.parse() {
            Ok(tile) => Ok(Some(tile)),
            Err(_) => Err(OpenError::MaxTile { value: value.unwrap_or_default() }),
        },
    }
}

fn threads(value: Option<String>) -> Result<Option<NonZeroUsize>, OpenError> {
    let Some(text) = value.as_deref().map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    match text.parse::<NonZeroUsize>() {
        Ok(threads) if threads.get() <= MOST_THREADS => Ok(Some(threads)),
        _ => Err(OpenError::Threads { value: value.unwrap_or_default() }),
    }
}

fn launches_wait(value: Option<String>) -> Result<bool, OpenError> {
    match value.as_deref().map(str::trim) {
        None | Some("" | "0") => Ok(false),
        Some("1") => Ok(true),
        Some(_) => Err(OpenError::LaunchBlocking { value: value.unwrap_or_default() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_wait_or_not() {
        let of = |value: &str| launches_wait(Some(value.to_owned()));
        assert_eq!((launches_wait(None), of(" 0"), of("1")), (Ok(false), Ok(false), Ok(true)));
        let error = of("yes").expect_err("neither 0 nor 1");
        assert!(error.to_string().contains("\"yes\": give 1"), "{error}");
    }

    #[test]
    fn a_tile_has_elements() {
        let of = |value: &str| max_tile(Some(value.to_owned()));
        assert_eq!((max_tile(None), of(" 64")), (Ok(None), Ok(NonZeroU32::new(64))));
        let error = of("0").expect_err("no tile");
        assert!(error.to_string().contains("\"0\": give the most elements"), "{error}");
    }

    #[test]
    fn threads_are_a_number_that_is_not_zero() {
        let of = |value: &str| threads(Some(value.to_owned()));
        assert_eq!(
            (threads(None), of(" "), of("3 ")),
            (Ok(None), Ok(None), Ok(NonZeroUsize::new(3)))
        );
        for wrong in ["0", "-1", "two", "1025"] {
            let error = of(wrong).expect_err("no number of threads").to_string();
            assert!(error.contains(wrong) && error.contains("from 1 to 1024"), "{error}");
        }
    }

    #[test]
    fn a_policy_is_one_of_three() {
        let of = |value: &str| policy(Some(value.to_owned()));
        assert_eq!((policy(None), of(" ")), (Ok(Policy::Priority), Ok(Policy::Priority)));
        assert_eq!(
            (of("round_robin"), of("Drain-One")),
            (Ok(Policy::RoundRobin), Ok(Policy::DrainOne))
        );
        let error = of("fair").expect_err("no policy");
        assert!(error.to_string().contains("\"fair\": give priority, round-robin"), "{error}");
    }

    #[test]
    fn a_profile_is_open_or_card() {
        let of = |value: &str| profile(Some(value.to_owned()));
        assert_eq!((profile(None), of("")), (Ok(Profile::Open), Ok(Profile::Open)));
        assert_eq!((of("Card"), of(" open ")), (Ok(Profile::Card), Ok(Profile::Open)));
        let error = of("fast").expect_err("no profile");
        assert!(error.to_string().contains("\"fast\": give open or card"), "{error}");
    }
}
