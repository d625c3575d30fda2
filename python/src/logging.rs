//! Events of the stack on their way to Python's loggers.
//!
//! The stack's crates report events to the `tracing` crate. While no level below WARNING is asked for, each
//! costs one load. An event may come while the scheduler's lock is held, so that nothing here waits
//! for the interpreter: lines are put into a queue, and a thread hands them to `logging`.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The components that the stack logs for: loggers of the same names.
const COMPONENTS: [&str; 4] =
    ["spyre.runtime", "spyre.execution", "spyre.memory", "spyre.compiler"];

/// Python's WARNING. The stack logs nothing at that level or above: errors are raised.
const WARNING: i32 = 30;

/// Number of lines that wait at most. Further ones are lost, and counted.
const MOST_LINES: usize = 1 << 16;

/// Python's levels of the components.
static LEVELS: [AtomicI32; COMPONENTS.len()] =
    [const { AtomicI32::new(WARNING) }; COMPONENTS.len()];
static LINES: Mutex<Lines> = Mutex::new(Lines::NONE);
static ARRIVED: Condvar = Condvar::new();

/// Lines that were logged and not handed over yet.
struct Lines {
    waiting: VecDeque<Line>,
    lost: u64,
    /// The thread that is handing lines over just now.
    handing: Option<ThreadId>,
    is_closed: bool,
    /// The thread that hands lines over, and the process that has it.
    thread: Option<(JoinHandle<()>, u32)>,
}

struct Line {
    logger: &'static str,
    level: i32,
    text: String,
}

impl Lines {
    const NONE: Self =
        Self { waiting: VecDeque::new(), lost: 0, handing: None, is_closed: false, thread: None };

    fn push(&mut self, line: Line) {
        if self.is_closed {
            return;
        }
        if self.waiting.len() < MOST_LINES {
            self.waiting.push_back(line);
        } else {
            self.lost += 1;
        }
    }

    /// All that waits, and a line about what was lost.
    fn take(&mut self) -> VecDeque<Line> {
        let mut lines = std::mem::take(&mut self.waiting);
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            let text = format!("{lost} lines were lost: they came faster than they were written");
            lines.push_back(Line { logger: COMPONENTS[0], level: WARNING, text });
        }
        lines
    }
}

/// Puts the events of the components into the queue.
struct Bridge;

impl Subscriber for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        python_level(metadata.level()) >= level_of(metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let lowest = LEVELS.iter().map(|level| level.load(Ordering::Relaxed)).min();
        Some(match lowest.unwrap_or(WARNING) {
            ..=10 => LevelFilter::DEBUG,
            11..=20 => LevelFilter::INFO,
            _ => LevelFilter::OFF,
        })
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut text = Text::default();
        event.record(&mut text);
        let level = python_level(metadata.level());
        let mut lines = LINES.lock();
        lines.push(Line { logger: metadata.target(), level, text: text.0 });
        drop(lines);
        ARRIVED.notify_all();
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// An event's message, and its fields behind it.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // A string takes all that is written to it.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

fn python_level(level: &Level) -> i32 {
    match *level {
        Level::ERROR => 40,
        Level::WARN => WARNING,
        Level::INFO => 20,
        _ => 10,
    }
}

/// The level of a component. Events of other targets are dropped.
fn level_of(target: &str) -> i32 {
    let at = COMPONENTS.iter().position(|component| *component == target);
    at.map_or(i32::MAX, |at| LEVELS[at].load(Ordering::Relaxed))
}

/// Sets the levels of components; names that the stack does not log for are Python's own.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "how arguments come from Python")]
fn _set_log_levels(levels: std::collections::HashMap<String, i32>) {
    for (component, level) in COMPONENTS.iter().zip(&LEVELS) {
        level.store(levels.get(*component).copied().unwrap_or(WARNING), Ordering::Relaxed);
    }
    let is_wanted = LEVELS.iter().any(|level| level.load(Ordering::Relaxed) < WARNING);
    if is_wanted && start() {
        // The process's only one: who set another before us keeps it.
        let _ = tracing::subscriber::set_global_default(Bridge);
    }
    tracing::callsite::rebuild_interest_cache();
}

/// Starts the thread that hands lines over, if there is none; `false` once the interpreter ends.
fn start() -> bool {
    let mut lines = LINES.lock();
    if !lines.is_closed && lines.thread.is_none() {
        let thread = thread::Builder::new().name("spyre log".to_owned()).spawn(work).ok();
        lines.thread = thread.map(|thread| (thread, std::process::id()));
    }
    !lines.is_closed
}

fn work() {
    loop {
        let mut lines = LINES.lock();
        while lines.waiting.is_empty() && !lines.is_closed {
            ARRIVED.wait(&mut lines);
        }
        if lines.is_closed {
            return; // the rest is handed over by who closed it
        }
        let taken = lines.take();
        lines.handing = Some(thread::current().id());
        drop(lines);
        Python::attach(|py| hand_over(py, taken));
        LINES.lock().handing = None;
        ARRIVED.notify_all();
    }
}

fn hand_over(py: Python<'_>, lines: VecDeque<Line>) {
    for Line { logger, level, text } in lines {
        let written = py
            .import("logging")
            .and_then(|logging| logging.call_method1("getLogger", (logger,)))
            .and_then(|logger| logger.call_method1("log", (level, text)));
        if let Err(error) = written {
            error.write_unraisable(py, None);
        }
    }
}

/// Hands over all lines that were logged until now.
#[pyfunction]
fn _hand_over_logs(py: Python<'_>) {
    let taken = py.detach(|| {
        let mut lines = LINES.lock();
        // A handler that is called by the thread itself does not wait for it; one that waits for a lock of
        // the caller's is not waited for long.
        let deadline = Instant::now() + Duration::from_secs(1);
        while lines.handing.is_some_and(|thread| thread != thread::current().id())
            && !ARRIVED.wait_until(&mut lines, deadline).timed_out()
        {}
        lines.take()
    });
    hand_over(py, taken);
}

/// Ends the thread and hands over what waits. Called at exit.
#[pyfunction]
fn _flush_logs(py: Python<'_>) {
    // One that was forked while a line was written has the lock, too, for ever.
    let Some(mut lines) = LINES.try_lock_for(Duration::from_millis(100)) else { return };
    // A forked child has the handle, and not the thread.
    let Some((thread, _)) = lines.thread.take_if(|(_, process)| *process == std::process::id())
    else {
        return;
    };
    lines.is_closed = true;
    drop(lines);
    ARRIVED.notify_all();
    let _ = py.detach(|| thread.join());
    let rest = LINES.lock().take();
    hand_over(py, rest);
}

/// Adds the names of this part to the extension module.
pub(crate) fn register(names: &Bound<'_, PyModule>) -> PyResult<()> {
    names.add_function(wrap_pyfunction!(_set_log_levels, names)?)?;
    names.add_function(wrap_pyfunction!(_hand_over_logs, names)?)?;
    names.add_function(wrap_pyfunction!(_flush_logs, names)?)
}
