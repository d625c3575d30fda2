use std::fmt;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde::Serialize;
use spyre::plans::{CacheFolder, CacheSettings, KeptPlan};

use crate::reports::text;

/// Digits of a key that people are shown: enough to tell the plans of any real cache apart.
const SHOWN_DIGITS: usize = 12;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Action {
    /// Shows the plans, the one that was used last first.
    List,
    /// Removes all plans.
    Clear,
}

pub(crate) fn report(arguments: &Arguments) -> Result<Report> {
    let settings = CacheSettings::from_environment()?;
    let Some(path) = settings.folder else { return Ok(Report::default()) };
    let folder = CacheFolder::new(path, settings.most_bytes);
    let name = folder.path().display().to_string();
    let cleared = match arguments.action.unwrap_or(Action::List) {
        Action::List => None,
        Action::Clear => Some(folder.clear().with_context(|| name.clone())?),
    };
    let plans = folder.plans().with_context(|| name.clone())?;
    let plans: Vec<PlanReport> = plans.iter().map(PlanReport::new).collect();
    Ok(Report {
        folder: Some(name),
        most_bytes: settings.most_bytes,
        bytes: plans.iter().map(|plan| plan.bytes).sum(),
        cleared_plans: cleared.map(|cleared| cleared.plans),
        cleared_bytes: cleared.map(|cleared| cleared.bytes),
        plans,
    })
}

/// Report of `spyre cache`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// `None`: plans are kept in memory only.
    folder: Option<String>,
    bytes: u64,
    most_bytes: u64,
    cleared_plans: Option<usize>,
    cleared_bytes: Option<u64>,
    plans: Vec<PlanReport>,
}

#[derive(Debug, Serialize)]
struct PlanReport {
    /// `None`: the file is broken.
    kernel: Option<String>,
    key: String,
    profile: Option<String>,
    /// True if this build of the compiler finds it.
    is_current: bool,
    bytes: u64,
    unused_seconds: u64,
    hits: usize,
}

impl PlanReport {
    fn new(plan: &KeptPlan) -> Self {
        let unused = SystemTime::now().duration_since(plan.used_at).unwrap_or(Duration::ZERO);
        let made_from = plan.made_from.as_ref();
        Self {
            kernel: made_from.map(|made_from| made_from.kernel.clone()),
            key: plan.key.to_string(),
            profile: made_from.map(|made_from| made_from.profile.clone()),
            is_current: made_from
                .is_some_and(|made_from| made_from.compiler == spyre::compiler::VERSION),
            bytes: plan.bytes,
            unused_seconds: unused.as_secs(),
            hits: plan.hits,
        }
    }

    fn row(&self) -> Vec<String> {
        let kernel = self.kernel.clone().unwrap_or_else(|| "(broken)".to_owned());
        let about = match (&self.profile, self.is_current) {
            (Some(profile), true) => profile.clone(),
            (Some(profile), false) => format!("{profile}, of another compiler"),
            (None, _) => "-".to_owned(),
        };
        vec![
            kernel,
            self.key[..SHOWN_DIGITS].to_owned(),
            about,
            text::bytes(self.bytes),
            text::count(self.hits, "hit"),
            format!("used {} ago", text::age(self.unused_seconds)),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(folder) = &self.folder else {
            return writeln!(f, "plans are kept in memory only: there is no folder for them");
        };
        if let (Some(plans), Some(bytes)) = (self.cleared_plans, self.cleared_bytes) {
            let plans = text::count(plans, "plan");
            return writeln!(f, "{folder}: removed {plans}, {}", text::bytes(bytes));
        }
        let plans = text::count(self.plans.len(), "plan");
        let bytes = text::bytes(self.bytes);
        let most = text::bytes(self.most_bytes);
        writeln!(f, "{folder}: {plans}, {bytes} of {most}")?;
        let rows: Vec<_> = self.plans.iter().map(PlanReport::row).collect();
        f.write_str(&text::columns(&rows))
    }
}
