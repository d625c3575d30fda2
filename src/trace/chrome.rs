//! The trace event format: a list of complete events (`X`), and metadata (`M`) that names rows.

use serde_json::{Map, Value, json};

use super::rows::{Argument, Process, Row, Span};

pub(super) fn encode(processes: &[Process]) -> String {
    let mut events = Vec::new();
    for (process, pid) in processes.iter().zip(1..) {
        events.push(metadata("process_name", pid, 0, &process.name));
        for (row, tid) in process.rows.iter().zip(1..) {
            events.push(metadata("thread_name", pid, tid, &row.name));
            events.push(json!({
                "ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid,
                "args": { "sort_index": tid },
            }));
            events.extend(row.spans.iter().map(|span| complete(row, span, pid, tid)));
        }
    }
    json!({ "displayTimeUnit": "ns", "traceEvents": events }).to_string()
}

fn metadata(what: &str, pid: u32, tid: u32, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": pid, "tid": tid, "args": { "name": name } })
}

fn complete(row: &Row, span: &Span, pid: u32, tid: u32) -> Value {
    let argument = |(name, value): &(&str, Argument)| {
        let value = match value {
            Argument::Number(number) => json!(number),
            Argument::String(text) => json!(text),
        };
        ((*name).to_owned(), value)
    };
    let arguments: Map<String, Value> = span.arguments.iter().map(argument).collect();
    json!({
        "ph": "X", "name": span.name, "cat": row.category, "pid": pid, "tid": tid,
        "ts": microseconds(span.start), "dur": microseconds(span.end - span.start),
        "args": arguments,
    })
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
