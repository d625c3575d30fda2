//! The `spyre` command: devices, plans, launches, traces and benchmarks.
//!
//! Above the facade; it knows nothing else of the stack but the benchmarks. Each sub-command is a
//! file in `commands`: it makes a report, which is shown as text, or with `--json` as one JSON
//! document. It exits with 0 if all went well, 1 if something failed and 2 if it was called wrongly.

mod arguments;
mod commands;
mod files;
mod launch;
mod reports;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{bench, bundle, cache, compile, info, inspect, plan, run, trace};
use reports::screen::{self, Screen};

/// An open Spyre stack: devices, plans, launches, traces and benchmarks.
#[derive(Debug, Parser)]
#[command(name = "spyre", version, arg_required_else_help = true)]
struct Command {
    /// One JSON document on standard output rather than text.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The devices of this process, and what they are made of.
    Info,
    /// Writes a sample plan to a folder.
    Plan(plan::Arguments),
    /// Compiles a kernel to a plan.
    Compile(compile::Arguments),
    /// The plans that are kept for later: lists them, or removes them.
    Cache(cache::Arguments),
    /// Compiles the kernels that most programs use to one file, which packages carry.
    Bundle(bundle::Arguments),
    /// Shows what a plan holds.
    Inspect(inspect::Arguments),
    /// Launches a plan.
    Run(run::Arguments),
    /// Launches a plan and writes down what ran when.
    Trace(trace::Arguments),
    /// Every hot path against the best peer, as ratios.
    Bench(bench::Arguments),
}

impl Command {
    fn run(self) -> anyhow::Result<ExitCode> {
        let screen = Screen::new(self.json);
        let done = match self.action {
            Action::Info => screen.show(&info::report()?),
            Action::Plan(arguments) => screen.show(&plan::write(&arguments)?),
            Action::Compile(arguments) => screen.show(&compile::write(&arguments)?),
            Action::Cache(arguments) => screen.show(&cache::report(&arguments)?),
            Action::Bundle(arguments) => screen.show(&bundle::write(&arguments)?),
            Action::Inspect(arguments) => screen.show(&inspect::report(&arguments)?),
            Action::Run(arguments) => screen.show(&run::report(&arguments)?),
            Action::Trace(arguments) => screen.show(&trace::report(&arguments)?),
            Action::Bench(arguments) => return bench::run(&arguments, &screen),
        };
        done.map(|()| ExitCode::SUCCESS)
    }
}

fn main() -> ExitCode {
    match Command::parse().run() {
        Ok(code) => code,
        // The reader of our output has seen enough.
        Err(error) if screen::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            screen::complain("error", &format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Command::command().debug_assert();
    }
}
