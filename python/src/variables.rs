//! Environment variables that are the package's own: those of cards are the facade's.
//!
//! A value that means nothing is an error that names the values that do, when a device is opened; it is
//! never taken for the variable's default.

use std::time::Duration;

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
    is_over_gloo()?;
    collective_latency()?;
    check_blocking_wait()?;
    crate::fallbacks::check()
}

/// Returns true if ops are carried out on the card at all: not with `EAGER_MODE=0`.
pub(crate) fn is_eager() -> Result<bool, Failure> {
    let remedy = "give 1 for the device's own kernels, 0 for the CPU's, or unset it for 1";
    Ok(choice("EAGER_MODE", ["1", "0"], remedy)? == 0)
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

/// Returns true if the ranks of groups exchange all their bytes over Gloo, as ranks of several machines do.
pub(crate) fn is_over_gloo() -> Result<bool, Failure> {
    let remedy = "give memory for the memory that ranks of a machine share, gloo for messages between all ranks, or \
                  unset it for memory";
    Ok(choice("SPYRE_CCL_TRANSPORT", ["memory", "gloo"], remedy)? == 1)
}

/// Refuses a value of the variable by which the host waits for collectives, which the C++ side reads.
fn check_blocking_wait() -> Result<(), Failure> {
    let remedy =
        "give 1 to have the host wait for collectives, 0 to have streams wait, or unset it for 0";
    choice("SPYRE_CCL_BLOCKING_WAIT", ["0", "1"], remedy).map(drop)
}

/// Time that each collective takes longer, as over a slower link.
pub(crate) fn collective_latency() -> Result<Duration, Failure> {
    let Some(value) = value("SPYRE_CCL_LATENCY_US") else { return Ok(Duration::ZERO) };
    match value.parse() {
        Ok(microseconds) if microseconds <= 1_000_000 => Ok(Duration::from_micros(microseconds)),
        _ => Err(wrong(
            "SPYRE_CCL_LATENCY_US",
            &value,
            "give the microseconds that each collective is to take longer, at most 1000000, or unset it for none",
        )),
    }
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

/// Place of a variable's value among those that it may have; the first one if it is unset.
fn choice(name: &str, known: [&str; 2], remedy: &str) -> Result<usize, Failure> {
    let Some(value) = value(name) else { return Ok(0) };
    known.iter().position(|word| *word == value).ok_or_else(|| wrong(name, &value, remedy))
}

fn wrong(name: &str, value: &str, remedy: &str) -> Failure {
    Failure::new(SpyreStatus::Value, format!("{name} is {value:?}: {remedy}"))
}
