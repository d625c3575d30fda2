use std::fmt;
use std::thread::available_parallelism;

use anyhow::Result;
use serde::Serialize;
use spyre::artifact::{FORMAT_VERSION, IMAGE_VERSION};
use spyre::flex::{Budget, Policy};
use spyre::numerics::Tier;
use spyre::runtime::StreamId;
use spyre::{NOMINAL_CARD_BYTES, OpenSettings};

use crate::reports::text;

/// The devices of this process. Nothing is opened.
pub(crate) fn report() -> Result<Report> {
    let settings = OpenSettings::from_environment()?;
    let budget = Budget::of_process()?;
    let devices = &settings.devices;
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        devices: devices.visible.len(),
        visible_cards: devices.visible.clone(),
        warning: devices.warning(),
        mode: text::mode(devices.mode),
        regions: devices.regions,
        region_bytes: devices.region_bytes,
        nominal_memory_bytes: NOMINAL_CARD_BYTES,
        total_memory_bytes: budget.limit_bytes().min(devices.card_bytes()),
        limit_bytes: budget.limit_bytes(),
        committed_bytes: budget.committed_bytes(),
        profile: text::profile(settings.profile),
        streams: Streams {
            default: 1,
            low: StreamId::OF_A_PRIORITY,
            high: StreamId::OF_A_PRIORITY,
        },
        engines: settings.engines,
        policy: match settings.scheduler.policy {
            Policy::RoundRobin => "round robin",
            Policy::Priority => "priority",
            Policy::DrainOne => "drain one",
        },
        threads: settings.threads.or_else(|| available_parallelism().ok()).map_or(1, usize::from),
        cpu: Tier::detected().to_string(),
        cpu_tiers: available_tiers(),
        plan_version: FORMAT_VERSION,
        image_version: IMAGE_VERSION,
    })
}

fn available_tiers() -> Vec<String> {
    Tier::ALL.into_iter().filter(|tier| tier.is_available()).map(|tier| tier.to_string()).collect()
}

/// Report of `spyre info`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: &'static str,
    devices: usize,
    visible_cards: Vec<u16>,
    warning: Option<String>,
    mode: &'static str,
    regions: u16,
    region_bytes: u64,
    nominal_memory_bytes: u64,
    total_memory_bytes: u64,
    limit_bytes: u64,
    committed_bytes: u64,
    profile: &'static str,
    streams: Streams,
    engines: u16,
    policy: &'static str,
    threads: usize,
    cpu: String,
    cpu_tiers: Vec<String>,
    plan_version: u32,
    image_version: u32,
}

#[derive(Debug, Serialize)]
struct Streams {
    default: u16,
    low: u16,
    high: u16,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cards: Vec<String> = self.visible_cards.iter().map(ToString::to_string).collect();
        let Streams { default, low, high } = self.streams;
        writeln!(f, "spyre {}", self.version)?;
        match self.devices {
            0 => writeln!(f, "devices   0: SPYRE_DEVICES names none")?,
            1 => writeln!(f, "devices   1: card {}", cards[0])?,
            count => writeln!(f, "devices   {count}: cards {}", cards.join(", "))?,
        }
        if let Some(warning) = &self.warning {
            writeln!(f, "warning   {warning}")?;
        }
        writeln!(
            f,
            "memory    {}, {} regions of {} each; a real card has {}",
            self.mode,
            self.regions,
            text::bytes(self.region_bytes),
            text::bytes(self.nominal_memory_bytes)
        )?;
        let limit = text::bytes(self.limit_bytes);
        let committed = text::bytes(self.committed_bytes);
        writeln!(f, "budget    {committed} committed of {limit}")?;
        writeln!(f, "profile   {}", self.profile)?;
        let streams = default + low + high;
        writeln!(f, "streams   {streams}: {default} default, {low} low, {high} high")?;
        writeln!(f, "engines   {}, {}", self.engines, self.policy)?;
        writeln!(f, "threads   {}", self.threads)?;
        writeln!(f, "cpu       {}", self.cpu)?;
        writeln!(f, "formats   plan {}, image {}", self.plan_version, self.image_version)
    }
}
