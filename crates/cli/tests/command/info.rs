use crate::bed::{Bed, Said};

#[test]
fn it_tells_what_the_devices_are_made_of() {
    let bed = Bed::new();
    let text = bed.fine("info");
    for line in [
        "devices   1: card 0",
        "memory    VF, 8 regions of 12 GiB each; a real card has 128 GiB",
        "profile   open",
        "streams   65: 1 default, 32 low, 32 high",
        "engines   1, priority",
        "formats   plan 1, image 2",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
    let json = bed.json("info");
    assert_eq!(json["nominal_memory_bytes"], 128_u64 << 30);
    let usable = json["limit_bytes"].as_u64().map(|limit| limit.min(96 << 30));
    assert_eq!(json["total_memory_bytes"].as_u64(), usable, "what can be used");
    assert_eq!(json["streams"]["high"], 32);
    assert_eq!(json["committed_bytes"], 0);
    assert_eq!(json["warning"], serde_json::Value::Null);
}

#[test]
fn the_environment_counts_and_what_it_ignores_is_said() {
    let bed = Bed::new();
    let mut command = bed.command("info --json");
    command.env("AIU_WORLD_SIZE", "3").env("SPYRE_DEVICES", "2,0,7").env("FLEX_DEVICE", "pf");
    command.env("SPYRE_MEMORY_LIMIT", "2G").env("SPYRE_PROFILE", "card");
    let said = Said::of(&command.output().expect("it starts"));
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(json["visible_cards"], serde_json::json!([2, 0]));
    assert_eq!((&json["mode"], &json["profile"]), (&"PF".into(), &"card".into()));
    assert_eq!(json["limit_bytes"], 2_u64 << 30);
    let warning = json["warning"].as_str().expect("a warning");
    assert!(warning.contains("SPYRE_DEVICES: ignored 7"), "{warning}");
}

#[test]
fn bad_variables_are_errors_that_name_them() {
    let bed = Bed::new();
    for (variable, value) in [
        ("AIU_WORLD_SIZE", "many"),
        ("SPYRE_DEVICES", "0,x"),
        ("FLEX_DEVICE", "TF"),
        ("SPYRE_MEMORY_LIMIT", "-1"),
        ("SPYRE_PROFILE", "fast"),
        ("SPYRE_POLICY", "fair"),
        ("SPYRE_REGIONS", "0"),
        ("SPYRE_REGION_SIZE", "12 bytes"),
    ] {
        let output = bed.command("info").env(variable, value).output().expect("it starts");
        let said = Said::of(&output);
        assert_eq!((said.code, &*said.out), (Some(1), ""), "{said:?}");
        assert!(said.errors.starts_with(&format!("error: {variable} is ")), "{said:?}");
    }
}

#[test]
fn no_device_is_no_error() {
    let output = Bed::new().command("info").env("SPYRE_DEVICES", "").output().expect("it starts");
    let said = Said::of(&output);
    assert!(said.out.contains("devices   0: SPYRE_DEVICES names none"), "{said:?}");
}

#[test]
fn a_wrong_call_ends_with_2() {
    let bed = Bed::new();
    for arguments in ["", "fly", "info --loud", "run", "plan matmul", "run x --shape c"] {
        assert_eq!(bed.run(arguments).code, Some(2), "{arguments}");
    }
    assert_eq!(bed.run("--help").code, Some(0));
    assert_eq!(bed.run("--version").out, format!("spyre {}\n", env!("CARGO_PKG_VERSION")));
}
