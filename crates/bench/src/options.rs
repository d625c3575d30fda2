use spyre_layout::{Crew, Solo};

use crate::{Effort, Report, allocations, card, copies, kernels, launches, plans};

/// Benchmarks to run, and how. Both the benchmark and the command line have these arguments.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// Exit with 1 if a ratio misses its bar in two of three tries.
    #[arg(long)]
    pub check: bool,
    /// A few pairs only.
    #[arg(long)]
    pub short: bool,
    /// Only benchmarks whose name contains this.
    #[arg(long, default_value = "")]
    pub filter: String,
}

impl Options {
    /// Runs every benchmark of these options. `show` is given each line as soon as it is known, and
    /// says whether to go on.
    pub fn run(&self, mut show: impl FnMut(&str) -> bool) -> Report {
        let mut report = Report::default();
        if show(&Report::header()) && self.measure(&mut report, &mut show) {
            let missed = report.missed().len();
            show(&format!("{} of {} reached their bar", report.total() - missed, report.total()));
        }
        report
    }

    fn measure(&self, report: &mut Report, show: &mut impl FnMut(&str) -> bool) -> bool {
        let effort = if self.short { Effort::Short } else { Effort::Full };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
        let crews: [&dyn Crew; 2] = [&Solo, &pool];
        let fixed = copies::fixed_costs().into_iter().chain(launches::all());
        let fixed = fixed.chain(plans::all()).chain(allocations::all());
        for mut benchmark in fixed {
            if benchmark.name().contains(&self.filter) && !show(&report.add(&mut benchmark, effort))
            {
                return false;
            }
        }
        for crew in crews {
            let kernels = kernels::all(crew, &self.filter);
            for mut benchmark in card::all(crew, &self.filter).into_iter().chain(kernels) {
                if !show(&report.add(&mut benchmark, effort)) {
                    return false;
                }
            }
        }
        for copy in copies::table() {
            for crew in crews {
                if copy.name().contains(&self.filter)
                    && !show(&report.add(&mut copy.benchmark(crew), effort))
                {
                    return false;
                }
            }
        }
        true
    }
}
