use std::fmt;
use std::sync::Arc;

use crate::{Fault, Label, Outcome};

/// Work that takes its turn in a stream and that no card carries out: a transfer between machines, a
/// wait for another card. The scheduler begins it when everything queued before has ended, and the
/// stream goes on once its [`Completion`] was fulfilled, from any thread.
///
/// # Contract
/// - `begin` is called once, on a thread of the runtime that holds no lock, and returns soon: it waits
///   for nothing. Work that is cancelled before its turn is dropped and never begun.
/// - `cancel` is called when the work is to end early: the device is reset, or the user has interrupted
///   a wait twice. It may be called at any time from just before `begin` on, also when the work has ended. The
///   stream still waits for the completion: until then the work may use its memory.
pub struct ExternalWork {
    label: Label,
    modelled_nanoseconds: u64,
    begin: Box<dyn FnOnce(Completion) + Send>,
    cancel: Cancel,
}

/// Call that asks work that has begun to end early.
#[derive(Clone)]
pub struct Cancel(Arc<dyn Fn() + Send + Sync>);

/// Promise to report the end of [`ExternalWork`]. Dropped without a report, it reports a failure: no
/// stream waits for ever.
pub struct Completion(Option<Box<dyn FnOnce(Outcome) + Send>>);

impl ExternalWork {
    /// Work that is begun by `begin` and asked by `cancel` to end early.
    pub fn new(
        label: Label,
        begin: impl FnOnce(Completion) + Send + 'static,
        cancel: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let modelled_nanoseconds = 0;
        Self {
            label,
            modelled_nanoseconds,
            begin: Box::new(begin),
            cancel: Cancel(Arc::new(cancel)),
        }
    }

    /// Sets the time that it would take on a real card.
    #[must_use]
    pub fn modelled(mut self, nanoseconds: u64) -> Self {
        self.modelled_nanoseconds = nanoseconds;
        self
    }

    /// Name of the work.
    pub fn label(&self) -> Label {
        self.label
    }

    /// The time that it would take on a real card.
    pub fn modelled_nanoseconds(&self) -> u64 {
        self.modelled_nanoseconds
    }

    /// Begins it, in its turn.
    pub fn begin(self, completion: Completion) {
        (self.begin)(completion);
    }

    /// The call that asks it to end early.
    pub fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }
}

impl Cancel {
    /// Asks the work to end early.
    pub fn call(&self) {
        (self.0)();
    }
}

impl Completion {
    /// Will hand the outcome to `report`, once.
    pub fn new(report: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self(Some(Box::new(report)))
    }

    /// Reports the end of the work. An error is a data fault of the stream.
    pub fn complete(mut self, result: Result<(), String>) {
        self.report(
            result.map_err(|message| Fault::ExternalWorkFailed { message: message.into() }),
        );
    }

    fn report(&mut self, outcome: Outcome) {
        if let Some(report) = self.0.take() {
            report(outcome);
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let message = "it was given up without a report".into();
        self.report(Err(Fault::ExternalWorkFailed { message }));
    }
}

impl fmt::Debug for ExternalWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExternalWork({})", self.label)
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cancel")
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completion")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_completion_reports_once() {
        let (sender, reports) = channel();
        let completion = |sender: &std::sync::mpsc::Sender<Outcome>| {
            let sender = sender.clone();
            Completion::new(move |outcome| sender.send(outcome).expect("a receiver"))
        };
        completion(&sender).complete(Ok(()));
        completion(&sender).complete(Err("rank 1 is gone".to_owned()));
        drop(completion(&sender));
        drop(sender);

        let messages: Vec<Result<(), String>> =
            reports.iter().map(|outcome| outcome.map_err(|fault| fault.to_string())).collect();
        let failed = |why: &str| Err(format!("work outside the card failed: {why}"));
        assert_eq!(
            messages,
            [Ok(()), failed("rank 1 is gone"), failed("it was given up without a report")]
        );
    }
}
