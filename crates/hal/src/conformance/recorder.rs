use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::{Completions, EngineIndex, HostBuffer, Outcome, Token};

/// Longer than any block takes, also on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps every completion that is reported.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    reports: Mutex<HashMap<Token, Vec<Report>>>,
    changed: Condvar,
    watched: Mutex<Vec<HostBuffer>>,
}

/// One completion, as it was reported.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) engine: EngineIndex,
    pub(super) outcome: Outcome,
    /// Number of watched buffers that were still lent.
    pub(super) lent_buffers: usize,
}

impl Recorder {
    /// Makes later reports count the buffer if it is still lent.
    pub(super) fn watch(&self, buffer: &HostBuffer) {
        self.watched.lock().push(buffer.clone());
    }

    pub(super) fn reports(&self, token: Token) -> Vec<Report> {
        self.reports.lock().get(&token).cloned().unwrap_or_default()
    }

    /// Waits for the report of a block.
    pub(super) fn wait(&self, token: Token) -> Report {
        let deadline = Instant::now() + PATIENCE;
        let mut reports = self.reports.lock();
        loop {
            if let Some(report) = reports.get(&token).and_then(|reports| reports.first()) {
                return report.clone();
            }
            let is_late = self.changed.wait_until(&mut reports, deadline).timed_out();
            assert!(!is_late, "block {} was not reported within {PATIENCE:?}", token.0);
        }
    }

    fn lent_buffers(&self) -> usize {
        self.watched.lock().iter().filter(|buffer| buffer.write().is_err()).count()
    }
}

impl Completions for Recorder {
    fn complete(&self, engine: EngineIndex, token: Token, outcome: Outcome) {
        let report = Report { engine, outcome, lent_buffers: self.lent_buffers() };
        self.reports.lock().entry(token).or_default().push(report);
        self.changed.notify_all();
    }
}
