use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use serde::Serialize;

/// Standard output: text for people, or one JSON document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    is_json: bool,
}

impl Screen {
    pub(crate) fn new(is_json: bool) -> Self {
        Self { is_json }
    }

    pub(crate) fn is_json(self) -> bool {
        self.is_json
    }

    /// Shows a report, whichever way was asked for.
    pub(crate) fn show(self, report: &(impl Display + Serialize)) -> anyhow::Result<()> {
        if self.is_json {
            self.line(&serde_json::to_string_pretty(report)?)
        } else {
            self.line(report.to_string().trim_end())
        }
    }

    /// Shows a line.
    pub(crate) fn line(self, text: &str) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        Ok(out.flush()?)
    }
}

/// Writes a line to standard error. If that is closed, the line is lost.
pub(crate) fn complain(what: &str, text: &str) {
    let _ = writeln!(io::stderr(), "{what}: {text}");
}

/// Returns true if the reader of standard output has closed it.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
