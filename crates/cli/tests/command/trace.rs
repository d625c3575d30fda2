use serde_json::Value;

use crate::bed::Bed;

/// (category, name) of the spans in one row of a Chrome trace, in the order they began.
fn row(trace: &Value, wanted: &str) -> Vec<(String, String)> {
    let events = trace["traceEvents"].as_array().expect("events");
    let is_name =
        |event: &&Value| event["name"] == "thread_name" && event["args"]["name"] == wanted;
    let named = events.iter().find(is_name).unwrap_or_else(|| panic!("no row {wanted}"));
    let mut spans: Vec<&Value> = events
        .iter()
        .filter(|event| event["ph"] == "X" && event["pid"] == 1 && event["tid"] == named["tid"])
        .collect();
    let time = |event: &Value| event["ts"].as_f64().expect("a time");
    spans.sort_by(|left, right| time(left).total_cmp(&time(right)));
    for pair in spans.windows(2) {
        let end = time(pair[0]) + pair[0]["dur"].as_f64().expect("a duration");
        assert!(end <= time(pair[1]) + 1e-6, "{pair:?}");
        assert!(pair[0]["args"]["sequence"].as_u64() < pair[1]["args"]["sequence"].as_u64());
    }
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    spans.iter().map(|span| (text(&span["args"]["kind"]), text(&span["name"]))).collect()
}

#[test]
fn four_tiles_are_twelve_blocks_in_order() {
    let bed = Bed::with_matmul();
    let text = bed.fine("trace matmul --fill random --shape m=256 --output trace.json");
    assert!(text.contains("1 launch of 12 blocks"), "{text}");
    let trace: Value = serde_json::from_slice(&bed.read("trace.json")).expect("JSON");
    let round = [
        ("copy to device", "copy to device"),
        ("launch", "matmul.correction"),
        ("launch", "matmul"),
    ];
    let expected = [round; 4].concat();
    let modelled = trace["traceEvents"].as_array().expect("events");
    let modelled: Vec<_> = modelled.iter().filter(|event| event["cat"] == "modelled").collect();
    assert!(modelled.len() >= 8 && modelled.iter().all(|event| event["pid"] == 2));
    for name in ["stream 0", "stream 0 queue"] {
        let spans = row(&trace, name);
        let first = spans.iter().position(|span| span.0 == "launch").expect("a launch") - 1;
        let found: Vec<_> =
            spans[first..first + 12].iter().map(|span| (&*span.0, &*span.1)).collect();
        assert_eq!(found, expected, "{name}");
        let launches = spans.iter().filter(|span| span.0 == "launch").count();
        assert_eq!(launches, 8, "{name}");
    }
}

#[test]
fn a_trace_tells_how_much_of_the_run_it_holds() {
    let bed = Bed::with_matmul();
    let json = bed.json("trace matmul --fill zeros -o t.json");
    assert_eq!((&json["format"], &json["blocks_forgotten"]), (&"chrome".into(), &0.into()));
    let json = bed.json("trace matmul --fill zeros --repeat 2000 -o t.json");
    assert_eq!(json["blocks"], 4096);
    assert!(json["blocks_forgotten"].as_u64().is_some_and(|blocks| blocks >= 2000 * 3 - 4096));
    let text = bed.fine("trace matmul --fill zeros --repeat 2000 -o t.json");
    assert!(text.contains("the flight recorder keeps the last 4096: "), "{text}");
}

#[test]
fn perfetto_is_chosen_by_name_or_by_format() {
    let bed = Bed::with_matmul();
    for arguments in ["-o t.pftrace", "-o t.pftrace --format perfetto"] {
        let json = bed.json(&format!("trace matmul --fill zeros {arguments}"));
        assert_eq!(json["format"], "perfetto");
        let bytes = bed.read("t.pftrace");
        // Packets, each with its length: 1 is the field, 2 its type.
        let mut at = 0;
        let mut packets = 0;
        while at < bytes.len() {
            assert_eq!(bytes[at], 1 << 3 | 2);
            let mut length = 0;
            let mut shift = 0;
            loop {
                at += 1;
                length |= usize::from(bytes[at] & 0x7f) << shift;
                shift += 7;
                if bytes[at] < 0x80 {
                    break;
                }
            }
            at += 1 + length;
            packets += 1;
        }
        assert_eq!(at, bytes.len());
        let blocks = json["blocks"].as_u64().expect("a number") as usize;
        assert!(packets > 4 * (blocks - 1), "{packets} for {blocks}");
        let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(
            has("spyre device 0")
                && has("modelled card")
                && has("stream 0 queue")
                && has("matmul.correction")
        );
    }
    bed.fine("trace matmul --fill zeros -o t.pftrace --format chrome");
    assert!(bed.read("t.pftrace").starts_with(b"{"));
    bed.fine("run matmul --fill zeros --trace r.json --output out");
    assert!(bed.read("r.json").starts_with(b"{") && bed.path("out/c.npy").exists());
}

#[test]
fn a_trace_that_cannot_be_written_is_refused() {
    let bed = Bed::with_matmul();
    let refusal = bed.refusal("trace matmul --fill zeros -o no/t.json");
    assert_eq!(refusal, "cannot write no/t.json: No such file or directory (os error 2)");
    assert!(bed.refusal("trace matmul -o t.json").starts_with("tensors are not given: a, b."));
    assert!(!bed.path("t.json").exists());
}
