//! `make bench`: prints every ratio; with `--check`, fails if one misses its bar.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::process::ExitCode;

use clap::Parser;
use spyre_bench::Options;

/// Ratios against the best peer, measured in the same run.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { options } = Arguments::parse();
    let report = options.run(|line| {
        println!("{line}");
        true
    });
    let is_missed = options.check && !report.missed().is_empty();
    if is_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
