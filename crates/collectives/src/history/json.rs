use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{CallRecord, CallState};

impl CallRecord {
    /// The record with the keys of PyTorch's flight recorder, and some of our own.
    pub(crate) fn to_json(&self, group: &str) -> Value {
        let is_point_to_point = self.collective.is_point_to_point();
        let sequence = |is_wanted: bool| if is_wanted { self.sequence } else { 0 };
        let duration =
            self.started.zip(self.ended).and_then(|(start, end)| end.duration_since(start).ok());
        let sizes =
            |elements: &[u64]| -> Vec<[u64; 1]> { elements.iter().map(|&count| [count]).collect() };
        let formats = |elements: &[u64]| vec![self.format.name(); elements.len()];
        json!({
            "record_id": self.id,
            "pg_id": group,
            "process_group": [group, self.description],
            "collective_seq_id": sequence(!is_point_to_point),
            "p2p_seq_id": sequence(is_point_to_point),
            "op_id": self.id,
            "profiling_name": format!("spyreccl:{}", self.collective),
            "time_created_ns": nanoseconds(Some(self.created)),
            "time_discovered_started_ns": nanoseconds(self.started),
            "time_discovered_completed_ns": nanoseconds(self.ended),
            "duration_ms": duration.map(|duration| duration.as_secs_f64() * 1e3),
            "input_sizes": sizes(&self.input_elements),
            "input_dtypes": formats(&self.input_elements),
            "output_sizes": sizes(&self.output_elements),
            "output_dtypes": formats(&self.output_elements),
            "state": match self.state {
                CallState::Scheduled => "scheduled",
                CallState::Started => "started",
                CallState::Completed => "completed",
                CallState::Failed => "failed",
            },
            "retired": matches!(self.state, CallState::Completed | CallState::Failed),
            "timeout_ms": self.timeout.as_millis() as u64,
            "is_p2p": is_point_to_point,
            "reduction": self.reduction,
            "root": self.root,
            "bytes": self.bytes,
            "error": self.error,
        })
    }
}

fn nanoseconds(time: Option<SystemTime>) -> Option<u64> {
    let since = time?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}
