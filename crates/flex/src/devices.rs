mod dropped;
mod host_memory;
mod memory_limit;

use std::num::IntErrorKind;

use spyre_hal::MemoryMode;

use crate::environment::{DEVICES, MEMORY_LIMIT, MODE, WORLD_SIZE};
use crate::{Environment, EnvironmentError, Error};
use dropped::{Dropped, Why};
pub use host_memory::HostMemory;
use memory_limit::MemoryLimit;

/// The most software cards that a process has.
const MOST_CARDS: u64 = 8;

/// How many cards this process can see: the documents' `flex::getNumDevices`.
///
/// Only what says which cards there are is read: a bad memory limit is for whoever opens a card.
pub fn num_devices() -> Result<usize, Error> {
    let (visible, _) = visible(&Environment::of_process())?;
    Ok(visible.len())
}

/// What the environment says about the cards of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Devices {
    /// The cards that are exposed, in their order: what is device 0 to a program may be card 3.
    pub visible: Vec<u16>,
    /// How they give out memory.
    pub mode: MemoryMode,
    /// Bytes that all of them together may commit.
    pub memory_limit_bytes: u64,
    dropped: Vec<Dropped>,
}

impl Devices {
    /// Reads the environment, and where it says nothing of memory, the host.
    pub fn from_environment(environment: &Environment) -> Result<Self, Error> {
        Self::on_host(environment, &HostMemory::default())
    }

    /// The same, where the memory that is available is read from elsewhere.
    pub fn on_host(environment: &Environment, host: &HostMemory) -> Result<Self, Error> {
        let (visible, dropped) = visible(environment)?;
        let mode = mode(environment)?;
        let memory_limit_bytes = memory_limit_bytes(environment, host)?;
        Ok(Self { visible, mode, memory_limit_bytes, dropped })
    }

    /// One text about all entries of `SPYRE_DEVICES` that were dropped, to be shown once.
    pub fn warning(&self) -> Option<String> {
        let entries: Vec<String> = self.dropped.iter().map(ToString::to_string).collect();
        let listed = entries.join(", ");
        (!entries.is_empty()).then(|| format!("SPYRE_DEVICES: ignored {listed}"))
    }
}

pub(crate) fn memory_limit_bytes(
    environment: &Environment,
    host: &HostMemory,
) -> Result<u64, EnvironmentError> {
    let limit = environment.value(MEMORY_LIMIT)?.map(str::parse).transpose()?;
    match limit.unwrap_or_default() {
        MemoryLimit::Bytes(bytes) => Ok(bytes),
        MemoryLimit::Percent(percent) => {
            let available = host.available_bytes().ok_or(EnvironmentError::MemoryUnknown)?;
            Ok((u128::from(available) * u128::from(percent) / 100) as u64)
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

fn world_size(environment: &Environment) -> Result<u16, EnvironmentError> {
    let Some(value) = environment.value(WORLD_SIZE)? else { return Ok(1) };
    match number(value) {
        Some(cards @ 1..) => Ok(cards.min(MOST_CARDS as i64) as u16),
        _ => Err(EnvironmentError::WorldSize { value: value.to_owned() }),
    }
}

/// The cards that are exposed, and the entries that name none.
fn visible(environment: &Environment) -> Result<(Vec<u16>, Vec<Dropped>), EnvironmentError> {
    let cards = world_size(environment)?;
    let Some(value) = environment.value(DEVICES)? else {
        return Ok(((0..cards).collect(), Vec::new()));
    };
    let (mut visible, mut dropped) = (Vec::new(), Vec::new());
    for (entry, index) in entries(value)? {
        match u16::try_from(index).ok().filter(|&card| card < cards) {
            None => dropped.push(Dropped::new(entry, Why::NoSuchCard { cards })),
            Some(card) if visible.contains(&card) => {
                dropped.push(Dropped::new(entry, Why::Duplicate));
            }
            Some(card) => visible.push(card),
        }
    }
    Ok((visible, dropped))
}

/// The entries of a list and their numbers. Nothing but blanks is a list of none.
fn entries(value: &str) -> Result<Vec<(&str, i64)>, EnvironmentError> {
    if value.trim().is_empty() {
        return Ok(Vec::new());
    }
    let numbered = |entry| match number(entry) {
        Some(index) => Ok((entry, index)),
        None => {
            let (value, entry) = (value.to_owned(), entry.to_owned());
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
