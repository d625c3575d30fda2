pub(crate) mod budget;
mod environment;
mod host_memory;
mod ignored_entry;
mod memory_limit;
mod memory_size;

use std::num::IntErrorKind;
use std::ops::RangeInclusive;

use spyre_hal::MemoryMode;

use crate::Error;
pub use budget::Budget;
use environment::{
    DEVICES, LOCAL_WORLD_SIZE, MEMORY_LIMIT, MODE, REGION_SIZE, REGIONS, WORLD_SIZE,
};
pub use environment::{Environment, EnvironmentError};
pub use host_memory::HostMemory;
use ignored_entry::{IgnoreReason, IgnoredEntry};
use memory_limit::MemoryLimit;
pub use memory_size::parse_bytes;

/// The most software cards that a process has.
const MOST_CARDS: i64 = 8;

/// The most regions of a card.
const MOST_REGIONS: i64 = 64;
/// The sizes that a region may have: 1 MiB to 1 TiB.
const REGION_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 40;

/// Number of cards this process can see: the documents' `flex::getNumDevices`.
///
/// Only what says which cards there are is read: a bad memory limit is an error when a card is
/// opened.
pub fn num_devices() -> Result<usize, Error> {
    let cards = Cards::from_environment(&Environment::of_process())?;
    Ok(cards.visible.len())
}

/// Cards of this process, as the environment describes them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Devices {
    /// The cards that are exposed, in their order: what is device 0 to a program may be card 3.
    pub visible: Vec<u16>,
    /// Memory mode: how they give out memory.
    pub mode: MemoryMode,
    /// Bytes that all of them together may commit.
    pub memory_limit_bytes: u64,
    /// Number of regions of memory that each has.
    pub regions: u16,
    /// Length of each region.
    pub region_bytes: u64,
    ignored: Vec<String>,
}

impl Devices {
    /// Reads the environment, and where it says nothing of memory, the host.
    pub fn from_environment(environment: &Environment) -> Result<Self, Error> {
        Self::on_host(environment, &HostMemory::default())
    }

    /// Like [`from_environment`](Self::from_environment), with `host` as the source of the memory
    /// that is available.
    pub fn on_host(environment: &Environment, host: &HostMemory) -> Result<Self, Error> {
        let Cards { visible, ignored } = Cards::from_environment(environment)?;
        Ok(Self {
            visible,
            mode: mode(environment)?,
            memory_limit_bytes: memory_limit_bytes(environment, host)?,
            regions: regions(environment)?,
            region_bytes: region_bytes(environment)?,
            ignored,
        })
    }

    /// Bytes of all regions of a card.
    ///
    /// ```
    /// use spyre_flex::{Devices, Environment};
    ///
    /// let small = [("SPYRE_REGIONS", "2"), ("SPYRE_REGION_SIZE", "1G")];
    /// let devices = Devices::from_environment(&Environment::from_iter(small))?;
    /// assert_eq!(devices.card_bytes(), 2 << 30);
    /// # Ok::<(), spyre_flex::Error>(())
    /// ```
    pub fn card_bytes(&self) -> u64 {
        u64::from(self.regions) * self.region_bytes
    }

    /// One text about all that the environment asks for and does not get, to be shown once.
    pub fn warning(&self) -> Option<String> {
        (!self.ignored.is_empty()).then(|| self.ignored.join("; "))
    }
}

pub(crate) fn memory_limit_bytes(
    environment: &Environment,
    host: &HostMemory,
) -> Result<u64, EnvironmentError> {
    let limit = environment.value(MEMORY_LIMIT)?.map(str::parse).transpose()?;
    // By default, processes of one launcher share what there is.
    let processes = match limit {
        None => local_world_size(environment)?.unwrap_or(1),
        Some(_) => 1,
    };
    match limit.unwrap_or_default() {
        MemoryLimit::Bytes(bytes) => Ok(bytes),
        MemoryLimit::Percent(percent) => {
            let available = host.available_bytes().ok_or(EnvironmentError::MemoryUnknown)?;
            Ok((u128::from(available) * u128::from(percent) / 100 / processes as u128) as u64)
        }
    }
}

fn mode(environment: &Environment) -> Result<MemoryMode, EnvironmentError> {
    match environment.value(MODE)? {
        None => Ok(MemoryMode::default()),
        Some(value) if value.trim().eq_ignore_ascii_case("PF") => Ok(MemoryMode::Pf),
        Some(value) if value.trim().eq_ignore_ascii_case("VF") => Ok(MemoryMode::Vf),
        // The documents' name for a card that is none, which all of these are.
        Some(value) if value.trim().eq_ignore_ascii_case("MOCK") => Ok(MemoryMode::default()),
        Some(value) => Err(EnvironmentError::Mode { value: value.to_owned() }),
    }
}

/// The cards that are exposed.
#[derive(Debug)]
struct Cards {
    visible: Vec<u16>,
    /// Entries that were asked for in vain, and why.
    ignored: Vec<String>,
}

impl Cards {
    fn from_environment(environment: &Environment) -> Result<Self, EnvironmentError> {
        let asked = world_size(environment)?;
        let count = asked.min(MOST_CARDS) as u16;
        let mut ignored = Vec::new();
        if asked > MOST_CARDS {
            ignored.push(format!("{WORLD_SIZE} is {asked}: there are at most {MOST_CARDS} cards"));
        }
        let Some(value) = environment.value(DEVICES)? else {
            return Ok(Self { visible: (0..count).collect(), ignored });
        };
        let mut visible = Vec::new();
        let mut unexposed = Vec::new();
        for (entry, index) in entries(value)? {
            match u16::try_from(index).ok().filter(|&card| card < count) {
                None => unexposed
                    .push(IgnoredEntry::new(entry, IgnoreReason::NoSuchCard { cards: count })),
                Some(card) if visible.contains(&card) => {
                    unexposed.push(IgnoredEntry::new(entry, IgnoreReason::Duplicate));
                }
                Some(card) => visible.push(card),
            }
        }
        if !unexposed.is_empty() {
            let listed: Vec<String> = unexposed.iter().map(ToString::to_string).collect();
            ignored.push(format!("{DEVICES}: ignored {}", listed.join(", ")));
        }
        Ok(Self { visible, ignored })
    }
}

/// Cards that were asked for: where no number is given, each of a launcher's processes has one.
fn world_size(environment: &Environment) -> Result<i64, EnvironmentError> {
    let Some(value) = environment.value(WORLD_SIZE)? else {
        return Ok(local_world_size(environment)?.unwrap_or(1).min(MOST_CARDS));
    };
    let cards = number(value).filter(|&cards| cards >= 1);
    cards.ok_or_else(|| EnvironmentError::WorldSize { value: value.to_owned() })
}

/// Processes on this machine, if a launcher started them. torchrun says -1 where there are none.
fn local_world_size(environment: &Environment) -> Result<Option<i64>, EnvironmentError> {
    match environment.value(LOCAL_WORLD_SIZE)?.map(|value| (value, number(value))) {
        None | Some((_, Some(-1))) => Ok(None),
        Some((value, None)) if value.trim().is_empty() => Ok(None),
        Some((_, Some(processes))) if processes >= 1 => Ok(Some(processes)),
        Some((value, _)) => Err(EnvironmentError::LocalWorldSize { value: value.to_owned() }),
    }
}

fn regions(environment: &Environment) -> Result<u16, EnvironmentError> {
    let Some(value) = environment.value(REGIONS)? else { return Ok(8) };
    let regions = number(value).filter(|regions| (1..=MOST_REGIONS).contains(regions));
    regions
        .map(|regions| regions as u16)
        .ok_or_else(|| EnvironmentError::Regions { value: value.to_owned() })
}

fn region_bytes(environment: &Environment) -> Result<u64, EnvironmentError> {
    let Some(value) = environment.value(REGION_SIZE)? else { return Ok(12 << 30) };
    let bytes = parse_bytes(value).filter(|bytes| REGION_BYTES.contains(bytes));
    bytes.ok_or_else(|| EnvironmentError::RegionSize { value: value.to_owned() })
}

/// The entries of a list and their numbers. Nothing but blanks is a list of none.
fn entries(value: &str) -> Result<Vec<(&str, i64)>, EnvironmentError> {
    if value.trim().is_empty() {
        return Ok(Vec::new());
    }
    let numbered = |entry| match number(entry) {
        Some(index) => Ok((entry, index)),
        None => {
            let value = value.to_owned();
            let entry = entry.to_owned();
            Err(EnvironmentError::DeviceEntry { value, entry })
        }
    };
    value.split(',').map(str::trim).map(numbered).collect()
}

/// A number; one past all bounds is the last one, which is as far out of range.
fn number(text: &str) -> Option<i64> {
    match text.trim().parse::<i64>() {
        Ok(number) => Some(number),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Some(i64::MAX),
        Err(error) if *error.kind() == IntErrorKind::NegOverflow => Some(i64::MIN),
        Err(_) => None,
    }
}
