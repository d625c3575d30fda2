//! `make bench`: prints every ratio; with `--check`, fails if one misses its bar.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::process::ExitCode;

use clap::Parser;
use spyre_bench::{Effort, Report, allocations, card, copies, kernels, launches, plans};
use spyre_layout::{Crew, Solo};

/// Ratios against the best peer, measured in the same run.
#[derive(Parser)]
struct Arguments {
    /// Exit with 1 if a ratio misses its bar in two of three tries.
    #[arg(long)]
    check: bool,
    /// A few pairs only.
    #[arg(long)]
    short: bool,
    /// Only benchmarks whose name contains this.
    #[arg(long, default_value = "")]
    filter: String,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let effort = if arguments.short { Effort::Short } else { Effort::Full };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
    let crews: [&dyn Crew; 2] = [&Solo, &pool];
    let mut report = Report::default();
    println!("{}", Report::header());
    let fixed = copies::fixed_costs().into_iter().chain(launches::all());
    let fixed = fixed.chain(plans::all()).chain(allocations::all());
    for mut benchmark in fixed {
        if benchmark.name().contains(&arguments.filter) {
            println!("{}", report.add(&mut benchmark, effort));
        }
    }
    for crew in crews {
        for mut benchmark in card::all(crew, &arguments.filter) {
            println!("{}", report.add(&mut benchmark, effort));
        }
        for mut benchmark in kernels::all(crew, &arguments.filter) {
            println!("{}", report.add(&mut benchmark, effort));
        }
    }
    for copy in copies::table() {
        for crew in crews {
            if copy.name().contains(&arguments.filter) {
                println!("{}", report.add(&mut copy.benchmark(crew), effort));
            }
        }
    }
    let missed = report.missed().len();
    println!("{} of {} reached their bar", report.total() - missed, report.total());
    if arguments.check && missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
