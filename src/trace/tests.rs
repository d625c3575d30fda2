use serde_json::Value;
use spyre_flex::RecordState;
use spyre_hal::{BlockKind, EngineIndex, StreamIndex};
use spyre_runtime::DeviceIndex;

use super::perfetto::{BEGIN, END, field};
use super::protobuf::{Field, fields};
use super::{Trace, TracedBlock};

/// Three blocks of one stream, queued together, and one of another.
fn blocks() -> Vec<TracedBlock> {
    let block = |stream, sequence, name: &str, times: [u64; 3]| TracedBlock {
        stream: StreamIndex(stream),
        sequence,
        kind: BlockKind::Launch,
        name: Some(name.to_owned()),
        shapes: None,
        state: RecordState::Done,
        queued_at: times[0],
        started_at: times[1],
        done_at: times[2],
        engine: None,
        modelled_nanoseconds: None,
    };
    vec![
        block(0, 3, "third", [1_000, 5_000, 6_500]),
        block(0, 1, "first \"quoted\"", [1_000, 2_000, 3_000]),
        block(0, 2, "second", [1_000, 3_000, 5_000]),
        block(4, 1, "other", [2_500, 2_500, 9_000]),
    ]
}

fn trace(blocks: Vec<TracedBlock>) -> Trace {
    Trace::new(DeviceIndex(0), blocks)
}

/// (process, row, category, name, start, duration) of every span, in the order of the file.
fn chrome_spans(trace: &Trace) -> Vec<(String, String, String, String, f64, f64)> {
    let json: Value = serde_json::from_str(&trace.chrome()).expect("JSON");
    let events = json["traceEvents"].as_array().expect("events");
    let named = |what: &str, pid: &Value, tid: &Value| {
        let is_it = |event: &&Value| {
            event["name"] == what
                && event["pid"] == *pid
                && (what == "process_name" || event["tid"] == *tid)
        };
        let event = events.iter().find(is_it).expect("a name");
        event["args"]["name"].as_str().expect("text").to_owned()
    };
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let spans = events.iter().filter(|event| event["ph"] == "X").map(|event| {
        (
            named("process_name", &event["pid"], &event["tid"]),
            named("thread_name", &event["pid"], &event["tid"]),
            text(&event["cat"]),
            text(&event["name"]),
            event["ts"].as_f64().expect("a time"),
            event["dur"].as_f64().expect("a duration"),
        )
    });
    spans.collect()
}

#[test]
fn streams_are_rows_with_times_in_microseconds_from_the_first_event() {
    let spans = chrome_spans(&trace(blocks()));
    let of_row = |row: &str| -> Vec<(&str, f64, f64)> {
        let of_row = spans.iter().filter(|span| span.0 == "spyre device 0" && span.1 == row);
        of_row.map(|span| (span.3.as_str(), span.4, span.5)).collect()
    };
    assert_eq!(
        of_row("stream 0"),
        [("first \"quoted\"", 1.0, 1.0), ("second", 2.0, 2.0), ("third", 4.0, 1.5)]
    );
    assert_eq!(
        of_row("stream 0 queue"),
        [("first \"quoted\"", 0.0, 1.0), ("second", 1.0, 1.0), ("third", 2.0, 2.0)]
    );
    assert_eq!(of_row("stream 4"), [("other", 1.5, 6.5)]);
    assert_eq!(spans.len(), 8);
}

#[test]
fn spans_of_a_row_never_overlap() {
    let spans = chrome_spans(&trace(blocks()));
    for pair in spans.windows(2).filter(|pair| pair[0].1 == pair[1].1) {
        assert!(pair[0].4 + pair[0].5 <= pair[1].4, "{pair:?}");
    }
}

#[test]
fn engines_and_modelled_times_are_shown_where_they_are_known() {
    let mut blocks = blocks();
    for (block, nanoseconds) in blocks.iter_mut().zip([30, 10, 20, 7]) {
        block.engine = Some(EngineIndex(block.stream.0 / 4));
        block.modelled_nanoseconds = Some(nanoseconds);
    }
    blocks[1].kind = BlockKind::CopyToDevice;
    let trace = trace(blocks);
    let spans = chrome_spans(&trace);
    let engines = spans.iter().filter(|span| span.1.starts_with("engine")).count();
    let modelled: Vec<_> = spans.iter().filter(|span| span.0 == "modelled card").collect();
    assert_eq!(engines, 4);
    let ends: Vec<_> = modelled.iter().map(|span| (span.3.as_str(), span.4, span.5)).collect();
    assert_eq!(
        ends,
        [
            ("first \"quoted\"", 0.0, 0.01),
            ("launch of second", 0.01, 20.0),
            ("second", 20.01, 0.02),
            ("launch of third", 20.03, 20.0),
            ("third", 40.03, 0.03),
            ("launch of other", 0.0, 20.0),
            ("other", 20.0, 0.007)
        ]
    );
    let cost = trace.cost();
    assert_eq!((cost.kernels, cost.copies, cost.launches), (57, 10, 60_000));
    let json = trace.chrome();
    let basis = |basis: &str| json.matches(&format!("\"basis\":\"{basis}")).count();
    assert_eq!((basis("assumed"), basis("modelled")), (4, 3));
}

#[test]
fn what_never_ran_has_no_span_and_what_runs_ends_with_the_trace() {
    let mut blocks = blocks();
    blocks[0] = TracedBlock { state: RecordState::Cancelled, started_at: 0, ..blocks[0].clone() };
    blocks[2] = TracedBlock { state: RecordState::Running, done_at: 0, ..blocks[2].clone() };
    let spans = chrome_spans(&trace(blocks));
    assert!(spans.iter().all(|span| span.3 != "third"));
    let running = spans.iter().find(|span| span.3 == "second" && span.2 == "run");
    assert_eq!(running.map(|span| span.4 + span.5), Some(8.0));
    assert!(chrome_spans(&trace(Vec::new())).is_empty());
}

/// A message by its field numbers; the last of a field counts.
fn number(message: &[u8], wanted: u32) -> Option<u64> {
    fields(message).into_iter().rev().find_map(|(field, value)| match value {
        Field::Number(number) if field == wanted => Some(number),
        _ => None,
    })
}

fn inside(message: &[u8], wanted: u32) -> Option<&[u8]> {
    fields(message).into_iter().rev().find_map(|(field, value)| match value {
        Field::Bytes(bytes) if field == wanted => Some(bytes),
        _ => None,
    })
}

#[test]
fn perfetto_packets_say_the_same() {
    let bytes = trace(blocks()).perfetto();
    let packets: Vec<&[u8]> = fields(&bytes)
        .into_iter()
        .map(|(number, value)| match value {
            Field::Bytes(packet) if number == field::PACKET => packet,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(packets.iter().all(|packet| number(packet, field::SEQUENCE_ID) == Some(1)));
    assert_eq!(number(packets[0], field::SEQUENCE_FLAGS), Some(1));

    let tracks: Vec<&[u8]> =
        packets.iter().filter_map(|packet| inside(packet, field::TRACK_DESCRIPTOR)).collect();
    let process = inside(tracks[0], field::PROCESS).expect("a process");
    assert_eq!(inside(process, field::PROCESS_NAME), Some(b"spyre device 0".as_slice()));
    let parent = number(tracks[0], field::UUID);
    let names: Vec<_> = tracks[1..]
        .iter()
        .map(|track| {
            assert_eq!(number(track, field::PARENT_UUID), parent);
            String::from_utf8_lossy(inside(track, field::NAME).expect("a name"))
        })
        .collect();
    assert_eq!(names, ["stream 0 queue", "stream 0", "stream 4 queue", "stream 4"]);

    let run_row = number(tracks[2], field::UUID);
    let events: Vec<_> = packets
        .iter()
        .filter_map(|packet| {
            let event = inside(packet, field::TRACK_EVENT)?;
            let is_ours = number(event, field::TRACK_UUID) == run_row;
            let name = inside(event, field::EVENT_NAME).map(String::from_utf8_lossy);
            let time = number(packet, field::TIMESTAMP).expect("a time");
            is_ours.then(|| (time, number(event, field::KIND), name.unwrap_or_default()))
        })
        .collect();
    let expected = [
        (1_000, Some(BEGIN), "first \"quoted\""),
        (2_000, Some(END), ""),
        (2_000, Some(BEGIN), "second"),
        (4_000, Some(END), ""),
        (4_000, Some(BEGIN), "third"),
        (5_500, Some(END), ""),
    ];
    assert_eq!(events, expected.map(|(time, kind, name)| (time, kind, name.into())));
}
