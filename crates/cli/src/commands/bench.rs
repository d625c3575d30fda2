use std::process::ExitCode;

use anyhow::Result;
use indicatif::ProgressBar;
use serde::Serialize;
use spyre_bench::{Bar, Options, Outcome, Report};

use crate::reports::screen::Screen;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
}

/// Measurement of one benchmark.
#[derive(Debug, Serialize)]
struct Measured {
    name: String,
    peer: String,
    bound: &'static str,
    bar: f64,
    ratio: f64,
    passed: bool,
    ours_nanoseconds: u64,
    peer_nanoseconds: u64,
    pairs: usize,
}

#[derive(Debug, Serialize)]
struct Document {
    version: &'static str,
    total: usize,
    reached: usize,
    benchmarks: Vec<Measured>,
}

/// Runs the benchmarks, and shows each as it is done; a JSON document comes at the end.
pub(crate) fn run(arguments: &Arguments, screen: &Screen) -> Result<ExitCode> {
    let bar = ProgressBar::new_spinner(); // drawn on terminals only
    let mut shown = Ok(());
    let report = arguments.options.run(|line| {
        bar.tick();
        if !screen.is_json() && shown.is_ok() {
            shown = bar.suspend(|| screen.line(line));
        }
        shown.is_ok()
    });
    bar.finish_and_clear();
    shown?;
    if screen.is_json() {
        screen.line(&serde_json::to_string_pretty(&document(&report))?)?;
    }
    let is_missed = arguments.options.check && !report.missed().is_empty();
    Ok(if is_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn document(report: &Report) -> Document {
    let total = report.total();
    Document {
        version: env!("CARGO_PKG_VERSION"),
        total,
        reached: total - report.missed().len(),
        benchmarks: report.outcomes().iter().map(measured).collect(),
    }
}

fn measured(outcome: &Outcome) -> Measured {
    let (bound, bar) = match outcome.bar {
        Bar::AtLeast(bar) => ("at_least", bar),
        Bar::AtMost(bar) => ("at_most", bar),
    };
    let nanoseconds = |time: std::time::Duration| time.as_nanos() as u64;
    Measured {
        name: outcome.name.clone(),
        peer: outcome.peer_name.clone(),
        bound,
        bar,
        ratio: outcome.ratio,
        passed: outcome.passed(),
        ours_nanoseconds: nanoseconds(outcome.ours),
        peer_nanoseconds: nanoseconds(outcome.peer),
        pairs: outcome.pairs,
    }
}
