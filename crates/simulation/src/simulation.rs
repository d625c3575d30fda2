use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use spyre_flex::{Budget, Context, Drive, SchedulerSettings};

use crate::card::SimulatedCard;
use crate::driver::Driver;
use crate::env::SimulatedEnv;
use crate::report::Report;
use crate::settings::Settings;
use crate::violation::{Promise, Violation};
use crate::world::World;

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Counts of what happened.
    pub report: Report,
    /// A hash of everything that happened: the same seed gives the same.
    pub fingerprint: u64,
}

/// Runs one seed.
///
/// ```
/// use spyre_simulation::{Settings, simulate};
///
/// let run = simulate(&Settings::of_seed(7, 500))?;
/// assert_eq!(run.report.operations, 500);
/// assert_eq!(simulate(&Settings::of_seed(7, 500))?, run);
/// # Ok::<(), Box<spyre_simulation::Violation>>(())
/// ```
pub fn simulate(settings: &Settings) -> Result<Run, Box<Violation>> {
    let world = World::new(settings.clone());
    let result = catch_unwind(AssertUnwindSafe(|| drive(&world)));
    // Scheduler, card and world know each other: this lets them go.
    world.set_context(None);
    let result = result.unwrap_or_else(|panic| Err(panicked(&*panic)));
    let state = world.state();
    let outcome = match (result, &state.violation) {
        (Err(violation), None) => Err(violation),
        (_, Some(violation)) => Err(violation.clone()),
        (Ok(()), None) => Ok(()),
    };
    match outcome {
        Ok(()) => {
            let report = Report { seeds: 1, ..state.report };
            Ok(Run { report, fingerprint: state.log.fingerprint() })
        }
        Err(violation) => Err(Box::new(Violation {
            seed: settings.seed,
            operations: state.report.operations,
            tail: state.log.tail(),
            ..violation
        })),
    }
}

fn drive(world: &Arc<World>) -> Result<(), Violation> {
    let refused = |error| Violation::new(Promise::RightRefusal, format!("open: {error}"));
    let context = open(world).map_err(refused)?;
    world.set_context(Some(context.clone()));
    Driver::new(world, context).map_err(refused)?.run()
}

fn open(world: &Arc<World>) -> Result<Context, spyre_flex::Error> {
    let settings = &world.settings;
    let memory = spyre_flex::Settings {
        region_bytes: settings.region_bytes.clone(),
        budget: Arc::new(Budget::new(settings.budget_bytes)),
    };
    let scheduler = SchedulerSettings {
        policy: settings.policy,
        drive: Some(Drive::Inline),
        queue_blocks: settings.queue_blocks,
        queue_bound: settings.queue_bound,
        spins: settings.spins,
        watchdog_nanoseconds: Some(settings.watchdog_nanoseconds),
    };
    let card = Arc::new(SimulatedCard::new(world));
    Context::open_with(card, memory, scheduler, Arc::new(SimulatedEnv::new(world)))
}

fn panicked(panic: &(dyn Any + Send)) -> Violation {
    if let Some(violation) = panic.downcast_ref::<Violation>() {
        return violation.clone();
    }
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Violation::new(Promise::NoneLost, format!("a panic: {}", text.unwrap_or("no message")))
}
