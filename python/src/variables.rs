//! Environment variables that are the package's own: those of cards are the facade's.
//!
//! A value that means nothing is an error that names the values that do, when a device is opened; it is
//! never taken for the variable's default.

use crate::failure::{Failure, SpyreStatus};

/// The value of a variable, if it says something. What is no text is shown as well as it can be.
pub(crate) fn value(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().trim().to_owned();
    (!value.is_empty()).then_some(value)
}

/// Refuses every variable whose value means nothing.
pub(crate) fn check() -> Result<(), Failure> {
    is_eager()?;
    local_rank()?;
    warns_of_downcasts()?;
    crate::fallbacks::check()
}

/// Returns true if ops are carried out on the card at all: not with `EAGER_MODE=0`.
pub(crate) fn is_eager() -> Result<bool, Failure> {
    match value("EAGER_MODE").as_deref() {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(other) => Err(wrong(
            "EAGER_MODE",
            other,
            "give 1 for the device's own kernels, 0 for the CPU's, or unset it for 1",
        )),
    }
}

/// The card that this process begins on, if a launcher says so. Launchers say -1 where there are no
/// ranks.
pub(crate) fn local_rank() -> Result<Option<i32>, Failure> {
    let Some(value) = value("LOCAL_RANK") else { return Ok(None) };
    match value.parse::<i32>() {
        Ok(-1) => Ok(None),
        Ok(rank) if rank >= 0 => Ok(Some(rank)),
        _ => Err(wrong(
            "LOCAL_RANK",
            &value,
            "give the number of this process's card, such as 0, or -1, or unset it for 0",
        )),
    }
}

/// Returns true if a launcher started this process with others: those that have no card of their own share one.
pub(crate) fn has_launcher() -> bool {
    value("LOCAL_WORLD_SIZE")
        .and_then(|count| count.parse().ok())
        .is_some_and(|count: i64| count > 0)
}

/// Returns true if int64 that is narrowed comes with a warning.
pub(crate) fn warns_of_downcasts() -> Result<bool, Failure> {
    let value = value("TORCH_SPYRE_DOWNCAST_WARN").unwrap_or_default();
    match value.to_ascii_lowercase().as_str() {
        "" | "1" | "true" | "on" => Ok(true),
        "0" | "false" | "off" => Ok(false),
        _ => Err(wrong(
            "TORCH_SPYRE_DOWNCAST_WARN",
            &value,
            "give 1, true or on for a warning, 0, false or off for none, or unset it for 1",
        )),
    }
}

fn wrong(name: &str, value: &str, remedy: &str) -> Failure {
    Failure::new(SpyreStatus::Value, format!("{name} is {value:?}: {remedy}"))
}
