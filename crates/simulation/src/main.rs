//! Many seeds, one after another: `spyre-simulation --seeds 2000 --operations 10000`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use spyre_simulation::{Report, Settings, Violation, simulate};

/// Runs the runtime under a seeded card and compares everything with a plain model.
#[derive(Parser)]
struct Arguments {
    /// Number of seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Operations of each.
    #[arg(long, default_value_t = 10_000)]
    operations: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Number of seeds that are run twice, to see that both runs are the same.
    #[arg(long, default_value_t = 100)]
    replayed: u64,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok((line, different)) => {
            println!("{line}");
            if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(violation) => {
            eprintln!("{violation}");
            ExitCode::FAILURE
        }
    }
}

/// The last line, and how many seeds were not the same when they were run again.
fn run(arguments: &Arguments) -> Result<(String, u64), Box<Violation>> {
    let start = Instant::now();
    let mut report = Report::default();
    let mut fingerprints = Vec::new();
    for nth in 0..arguments.seeds {
        let run = simulate(&settings(arguments, nth))?;
        report += run.report;
        if nth < arguments.replayed {
            fingerprints.push(run.fingerprint);
        }
        if (nth + 1).is_multiple_of((arguments.seeds / 10).max(1)) {
            println!("{report}: {} operations/s", rate(&report, start));
        }
    }
    let rate = rate(&report, start);
    let different = replay(arguments, &fingerprints)?;
    let seeds = fingerprints.len();
    let replay = match different {
        0 => format!("replay identical ({seeds} seeds twice)"),
        _ => format!("{different} of {seeds} seeds DIFFER when they are replayed"),
    };
    let found = "0 use after free, 0 lost, 0 doubled, 0 reordered, 0 silent results";
    Ok((format!("{report}: {found}, {replay} ({rate} operations/s)"), different))
}

fn replay(arguments: &Arguments, fingerprints: &[u64]) -> Result<u64, Box<Violation>> {
    let mut different = 0;
    for (nth, fingerprint) in (0..).zip(fingerprints) {
        different += u64::from(simulate(&settings(arguments, nth))?.fingerprint != *fingerprint);
    }
    Ok(different)
}

fn settings(arguments: &Arguments, nth: u64) -> Settings {
    Settings::of_seed(arguments.first_seed + nth, arguments.operations)
}

fn rate(report: &Report, start: Instant) -> u64 {
    (report.operations as f64 / start.elapsed().as_secs_f64()) as u64
}
