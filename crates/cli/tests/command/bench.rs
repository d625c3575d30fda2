use crate::bed::Bed;

#[test]
fn benchmarks_are_filtered_and_shown_either_way() {
    let bed = Bed::new();
    let text = bed.fine("bench --short --filter no-such-benchmark");
    assert!(text.contains("what ") && text.ends_with("0 of 0 reached their bar\n"), "{text}");
    let json = bed.json("bench --short --check --filter no-such-benchmark");
    assert_eq!((&json["total"], &json["reached"]), (&0.into(), &0.into()));
}

#[test]
fn a_benchmark_tells_ratio_and_bar() {
    let json = Bed::new().json("bench --short --filter hot,");
    let benchmark = &json["benchmarks"][0];
    assert_eq!((&json["total"], &benchmark["bound"]), (&1.into(), &"at_most".into()));
    assert!(
        benchmark["name"].as_str().is_some_and(|name| name.starts_with("allocate + free, hot"))
    );
    for field in ["ratio", "bar", "ours_nanoseconds", "peer_nanoseconds", "pairs"] {
        assert!(benchmark[field].as_f64().is_some_and(|number| number > 0.0), "{field}");
    }
}
