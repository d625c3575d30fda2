//! Hostile inputs by the million: `spyre-fuzz --inputs 10000000`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

use std::process::ExitCode;

use clap::Parser;
use spyre_fuzz::{Campaign, Counting, Findings, Kind, Violation};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Hands hostile plans, images and tables to the stack, and looks whether it keeps its promises.
#[derive(Parser)]
struct Arguments {
    /// Number of inputs, of all kinds together.
    #[arg(long, default_value_t = 100_000)]
    inputs: u64,
    /// The first seed of each kind.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One kind alone.
    #[arg(long)]
    kind: Option<Kind>,
    /// Only the input of the seed.
    #[arg(long, requires = "kind")]
    only: bool,
    /// Number of threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(findings) => {
            println!("{}\n{findings}", findings.report);
            ExitCode::SUCCESS
        }
        Err(violation) => {
            eprintln!("{violation}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<Findings, Box<Violation>> {
    let campaign = Campaign {
        kinds: arguments.kind.map_or(Kind::ALL.to_vec(), |kind| vec![kind]),
        first_seed: arguments.seed,
        inputs: if arguments.only { 1 } else { arguments.inputs },
        threads: if arguments.only { 1 } else { arguments.threads },
    };
    campaign.run()
}
