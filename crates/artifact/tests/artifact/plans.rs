//! Plans as folders: whole ones come back, damaged ones are refused with file and place.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use spyre_artifact::*;

use crate::samples;

/// A folder of this test's own, gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("spyre-artifact-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a new folder");
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The sample plan, saved.
    fn with_plan() -> (Self, PathBuf) {
        let scratch = Self::new();
        let folder = scratch.0.join("plan");
        samples::plan().and_then(|plan| plan.save(&folder)).expect("a sound plan");
        (scratch, folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn refusal(folder: &Path) -> String {
    CompilerOutput::load(folder).expect_err("refused").to_string()
}

fn json_of(folder: &Path) -> Value {
    let text = fs::read(folder.join("plan.json")).expect("a plan");
    serde_json::from_slice(&text).expect("JSON")
}

fn write_json(folder: &Path, value: &Value) {
    fs::write(folder.join("plan.json"), value.to_string()).expect("written");
}

/// The refusal of the sample plan after a change to its JSON.
fn changed(change: impl FnOnce(&mut Value)) -> String {
    let (_scratch, folder) = Scratch::with_plan();
    let mut value = json_of(&folder);
    change(&mut value);
    write_json(&folder, &value);
    refusal(&folder)
}

#[test]
fn a_plan_comes_back_whole() -> Result<(), Error> {
    let (_scratch, folder) = Scratch::with_plan();
    assert_eq!(CompilerOutput::load(&folder)?, samples::plan()?);
    let value = json_of(&folder);
    assert_eq!(value["format_version"], 1);
    assert_eq!(value["options"], json!({ "profile": "open", "max_tile": null }));
    assert_eq!(value["tensor_input_metadata"][0]["dims"][1], json!({ "name": "k", "size": 1024 }));
    assert_eq!(value["correction_metadata"][1]["words"][0], "o0.handle[0]");
    assert_eq!(value["intermediates"][1]["dims"], json!(["m", "n"]));
    Ok(())
}

#[test]
fn saving_is_all_or_nothing() -> Result<(), Error> {
    let scratch = Scratch::new();
    let folder = scratch.0.join("plan");
    let mut broken = samples::plan()?;
    broken.steps[0].compute = ImageId(9);
    assert!(broken.save(&folder).is_err());
    let plan = samples::plan()?;
    plan.save(&folder)?;
    let again = plan.save(&folder).expect_err("it is there").to_string();
    assert!(again.contains("already there"), "{again}");
    let names: Vec<_> = fs::read_dir(&scratch.0).expect("a folder").collect();
    assert_eq!(names.len(), 1, "nothing is left beside the plan: {names:?}");
    assert!(plan.save(scratch.0.join("no/such/parent")).is_err());
    Ok(())
}

#[test]
fn missing_extra_and_damaged_files_are_named() {
    let damaged = |damage: &dyn Fn(&Path)| {
        let (_scratch, folder) = Scratch::with_plan();
        damage(&folder);
        refusal(&folder)
    };
    let image = |folder: &Path| folder.join("image-2.bin");
    let missing = damaged(&|folder| fs::remove_file(image(folder)).expect("removed"));
    assert!(missing.ends_with("image-2.bin: is missing, but the plan names it"), "{missing}");
    let extra = damaged(&|folder| fs::write(folder.join("notes.txt"), "x").expect("written"));
    assert!(extra.ends_with("notes.txt: is not part of the plan; remove it"), "{extra}");
    let cut = damaged(&|folder| {
        let bytes = fs::read(image(folder)).expect("bytes");
        fs::write(image(folder), &bytes[..bytes.len() - 1]).expect("written");
    });
    assert!(cut.contains("image-2.bin: ") && cut.contains("but the plan says"), "{cut}");
    let long = damaged(&|folder| {
        let bytes = fs::read(image(folder)).expect("bytes");
        fs::write(image(folder), [bytes, vec![0]].concat()).expect("written");
    });
    assert!(long.contains("expected at most"), "{long}");
    let flipped = damaged(&|folder| {
        let mut bytes = fs::read(image(folder)).expect("bytes");
        bytes[200] ^= 1;
        fs::write(image(folder), bytes).expect("written");
    });
    assert!(flipped.contains("images[2].crc32"), "{flipped}");
    let no_plan = damaged(&|folder| fs::remove_file(folder.join("plan.json")).expect("removed"));
    assert!(no_plan.contains("plan.json"), "{no_plan}");
    assert!(refusal(Path::new("/no/such/folder")).starts_with("/no/such/folder: "));
}

#[test]
fn an_image_that_was_never_sound_is_refused() {
    let (_scratch, folder) = Scratch::with_plan();
    let path = folder.join("image-0.bin");
    let mut bytes = fs::read(&path).expect("bytes");
    bytes[0] = b'X';
    fs::write(&path, &bytes).expect("written");
    let mut value = json_of(&folder);
    value["images"][0]["crc32"] = crc32fast::hash(&bytes).into();
    write_json(&folder, &value);
    let error = refusal(&folder);
    assert!(error.contains("image-0.bin: code image, byte 0: magic is 0x"), "{error}");
}

#[cfg(unix)]
#[test]
fn links_are_refused() {
    let (scratch, folder) = Scratch::with_plan();
    let path = folder.join("image-1.bin");
    let aside = scratch.0.join("aside.bin");
    fs::rename(&path, &aside).expect("moved");
    std::os::unix::fs::symlink(&aside, &path).expect("linked");
    assert!(refusal(&folder).contains("links and folders are refused"));
    let link = scratch.0.join("link");
    std::os::unix::fs::symlink(&folder, &link).expect("linked");
    assert!(refusal(&link).contains("is no folder; links are refused"));
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in
        ["../image-0.bin", "/etc/passwd", "a/b", "..", ".", "", ".hidden", "plan.json", "a\\b"]
    {
        let error = changed(|plan| plan["images"][0]["file"] = name.into());
        assert!(error.starts_with("plan.json, images[0].file: "), "{error}");
    }
    let twice = changed(|plan| plan["images"][1]["file"] = "image-0.bin".into());
    assert!(twice.contains("images[1].file") && twice.contains("twice"), "{twice}");
}

#[test]
fn errors_name_the_place_in_the_plan() {
    let refused = |change: fn(&mut Value), words: &str| {
        let error = changed(change);
        assert!(error.starts_with(&format!("plan.json, {words}")), "{error}\n{words}");
    };
    refused(|plan| plan["format_version"] = 2.into(), "format_version: 2, but this reader");
    refused(|plan| plan["more"] = 1.into(), "more: unknown field");
    refused(|plan| plan["steps"][0]["color"] = 1.into(), "steps[0].color: unknown field");
    refused(|plan| plan["steps"][1]["compute"] = (-1).into(), "steps[1].compute: invalid value");
    refused(
        |plan| plan["steps"][1]["compute"] = 1.into(),
        "steps[1].compute: image 1 is no compute",
    );
    refused(|plan| plan["steps"][1]["compute"] = 77.into(), "steps[1].compute: image 77");
    refused(|plan| plan["steps"][0]["correction"] = 0.into(), "steps[0].correction: image 0 is no");
    refused(|plan| plan["steps"][0]["correction"] = 3.into(), "steps[0].correction: it patches");
    refused(|plan| plan["steps"][0]["dims"] = json!([]), "steps[0].dims: 0 names");
    refused(|plan| plan["steps"][0]["dims"] = json!(["z"]), "steps[0].dims[0]: no tensor has");
    refused(
        |plan| plan["steps"][1]["dims"][1] = "m".into(),
        "steps[1].dims[1]: \"m\" is named twice",
    );
    refused(|plan| plan["steps"][0]["bindings"] = json!([]), "steps[0].bindings: 0 bindings");
    refused(
        |plan| plan["steps"][0]["bindings"][0] = json!({ "tensor": 9 }),
        "steps[0].bindings[0]: tensor 9 of 4",
    );
    refused(
        |plan| plan["steps"][0]["bindings"][2] = json!({ "tensor": 0 }),
        "steps[0].bindings[2]: the program writes it, but its role is input",
    );
    refused(
        |plan| plan["steps"][0]["bindings"][2] = json!({ "intermediate": 1 }),
        "steps[0].bindings[2]: it holds IEEE_FP32, but the program declares IEEE_FP16",
    );
    refused(
        |plan| plan["steps"][0]["scratch_bytes"] = u64::MAX.into(),
        "steps[0].scratch_bytes: entry image, byte 64",
    );
    refused(
        |plan| plan["tensor_input_metadata"][1]["dims"][0]["size"] = 512.into(),
        "tensor_input_metadata[1].dims[0].size: \"k\" is Fixed(512), but Fixed(1024)",
    );
    refused(
        |plan| plan["tensor_input_metadata"][1]["dims"][0]["size"] = 0.into(),
        "tensor_input_metadata[1].dims[0].size: invalid value",
    );
    refused(
        |plan| plan["tensor_input_metadata"][0]["format"] = "INVALID".into(),
        "tensor_input_metadata[0].format: INVALID cannot be addressed",
    );
    refused(
        |plan| plan["tensor_input_metadata"][0]["dtype"] = "float12".into(),
        "tensor_input_metadata[0].dtype: dtype \"float12\" is unknown",
    );
    refused(
        |plan| plan["tensor_input_metadata"][1]["name"] = "a".into(),
        "tensor_input_metadata[1].name: \"a\" is named twice",
    );
    refused(
        |plan| plan["intermediates"][0]["dims"][0] = "q".into(),
        "intermediates[0].dims[0]: no tensor has a dim named \"q\"",
    );
    refused(
        |plan| plan["correction_metadata"][0]["input_bytes"] = 8.into(),
        "correction_metadata[0].input_bytes: 8, but 94 words are 752 bytes",
    );
    refused(
        |plan| plan["correction_metadata"][0]["words"][4] = "o0.size".into(),
        "correction_metadata[0].words[4]: correction word \"o0.size\" is none of",
    );
    refused(
        |plan| plan["correction_metadata"][0]["words"][4] = "o1.offset".into(),
        "correction_metadata[0].words[4]: o1.offset belongs in table word 30, but is patched into 4",
    );
    refused(
        |plan| plan["correction_metadata"][0]["words"][4] = "d0.is_first".into(),
        "correction_metadata[0].words[4]: d0.is_first is patched into table word 4, which is no",
    );
    refused(
        |plan| plan["correction_metadata"] = json!([]),
        "correction_metadata: 0 entries for 2 steps",
    );
    refused(
        |plan| plan["init_packets"][0]["offset"] = 100.into(),
        "init_packets[0].offset: 16 bytes at 100 leave the range 128 to",
    );
    refused(
        |plan| plan["init_packets"][0]["bytes"] = "0g".into(),
        "init_packets[0].bytes: bytes are pairs",
    );
    refused(
        |plan| plan["init_packets"][0]["image"] = json!({ "entry": 5 }),
        "init_packets[0].image: step 5 of 2",
    );
    refused(
        |plan| {
            plan["steps"][0]["correction"] = Value::Null;
            plan["correction_metadata"][0] = json!({ "input_bytes": 0, "words": [] });
        },
        "steps[0]: neither correction nor an init packet fills o0.handle[0]",
    );
    refused(|plan| plan["images"][0]["bytes"] = 5.into(), "images[0].bytes: 5, expected 128 to");
}

#[test]
fn an_oversized_plan_is_not_even_read() {
    let (_scratch, folder) = Scratch::with_plan();
    let file = fs::File::create(folder.join("plan.json")).expect("a file");
    file.set_len(MAX_PLAN_BYTES + 1).expect("sparse");
    assert!(refusal(&folder).contains("plan.json: 8388609 bytes, expected at most 8388608"));
}

/// Every place in the JSON, as pointers.
fn pointers(value: &Value, at: &str, into: &mut Vec<String>) {
    into.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| pointers(field, &format!("{at}/{name}"), into));
        }
        Value::Array(items) => {
            let few = items.iter().take(8).enumerate();
            few.for_each(|(item, value)| pointers(value, &format!("{at}/{item}"), into));
        }
        _ => {}
    }
}

#[test]
fn every_place_of_a_plan_can_be_damaged() {
    let (_scratch, folder) = Scratch::with_plan();
    let sound = json_of(&folder);
    let mut places = Vec::new();
    pointers(&sound, "", &mut places);
    let values = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(0),
        json!(u64::MAX),
        json!(1.5),
        json!(""),
        json!("../x"),
        json!([]),
        json!({}),
        json!([[[[[[]]]]]]),
        json!({ "tensor": 4_000_000_000_u32 }),
    ];
    let mut refused = 0;
    let mut accepted = 0;
    for place in &places {
        for value in &values {
            let mut plan = sound.clone();
            *plan.pointer_mut(place).expect("a place") = value.clone();
            write_json(&folder, &plan);
            match CompilerOutput::load(&folder) {
                Ok(loaded) => {
                    loaded.check().expect("what loads is sound");
                    accepted += 1;
                }
                Err(Error::Plan { .. } | Error::File { .. } | Error::Image { .. }) => refused += 1,
                Err(other) => panic!("{place}: an error without a file: {other}"),
            }
        }
    }
    assert!(refused > 10 * accepted, "{refused} refused, {accepted} accepted");
}

#[test]
fn damaged_text_does_no_harm() {
    let (_scratch, folder) = Scratch::with_plan();
    let path = folder.join("plan.json");
    let sound = fs::read(&path).expect("a plan");
    let runs = std::env::var("SPYRE_HOSTILE_RUNS").ok().and_then(|runs| runs.parse().ok());
    let mut state = 7_usize;
    for _ in 0..2000 * runs.unwrap_or(1) {
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let mut text = sound.clone();
        for _ in 0..1 + next() % 3 {
            let at = next() % text.len();
            match next() % 4 {
                0 => text.truncate(at.max(1)),
                1 => text[at] = b"{}[]\",:0-9e\\\xff"[next() % 13],
                2 => drop(text.remove(at)),
                _ => text[at] = next() as u8,
            }
        }
        fs::write(&path, text).expect("written");
        if let Ok(plan) = CompilerOutput::load(&folder) {
            plan.check().expect("what loads is sound");
        }
    }
}

#[test]
fn files_need_no_folder() -> Result<(), Error> {
    let plan = samples::plan()?;
    let mut files: BTreeMap<String, Vec<u8>> = plan.to_files()?.into_iter().collect();
    assert_eq!(CompilerOutput::from_files(|name| files.get(name))?, plan);
    let refusal = |files: &BTreeMap<String, Vec<u8>>| {
        CompilerOutput::from_files(|name| files.get(name)).expect_err("refused").to_string()
    };

    files.insert("plan.json".into(), vec![b' '; MAX_PLAN_BYTES as usize + 1]);
    assert!(refusal(&files).contains("at most 8388608"), "{}", refusal(&files));
    files.remove("plan.json");
    assert_eq!(refusal(&files), "plan.json: is missing, but the plan names it");
    let mut files: BTreeMap<String, Vec<u8>> = plan.to_files()?.into_iter().collect();
    files.remove("image-1.bin");
    assert_eq!(refusal(&files), "image-1.bin: is missing, but the plan names it");
    Ok(())
}
