use std::process::Stdio;

use crate::bed::{Bed, Said};

#[test]
fn it_shows_what_a_plan_holds() {
    let bed = Bed::with_matmul();
    let text = bed.fine("inspect matmul");
    for line in [
        "matmul: plan version 1, profile open",
        "  c  output  float32 as IEEE_FP32  m=64 x n=64",
        "  partial  IEEE_FP32  m x n",
        "step 0 matmul: image 0, dims d0=m d1=n d2=k",
        "  o3  intermediate partial  both   IEEE_FP32  [m n]",
        "    words 78 to 103   o3.handle[0] to o3.stride_map[7]",
        "    word 121          d2.is_last",
        "image 1: correction, 256 bytes: 122 input words, 122 table words, 1 patch",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
    assert!(!text.contains("begin d0"));

    let json = bed.json("inspect matmul");
    assert_eq!(json["tensors"][1]["dims"][0], serde_json::json!({ "name": "k", "tile": 64 }));
    assert_eq!(json["steps"][0]["operands"][3]["name"], "partial");
    assert_eq!(json["steps"][0]["correction_words"][0]["words"], 26);
    assert_eq!(json["images"][0]["kind"], "compute");
    assert_eq!(json["images"][1]["patches"], 1);
    assert_eq!(json["images"][0]["disassembly"], serde_json::Value::Null);
}

#[test]
fn programs_and_bytes_are_shown_on_demand() {
    let bed = Bed::with_matmul();
    let text = bed.fine("inspect matmul --disassemble --image 0");
    assert!(text.contains("  begin d0 tile 64 parallel\n"), "{text}");
    assert!(text.contains("        dot r0 o0 o1 over d2\n"), "{text}");
    assert!(!text.contains("image 1:"), "{text}");
    let hex = bed.fine("inspect matmul --hex --image 1");
    assert!(hex.contains("  00000000  53 50 59 52 43 4f 44 45 02 00 00 00"), "{hex}");
    let json = bed.json("inspect matmul --disassemble --hex");
    let program = json["images"][1]["disassembly"].as_str().expect("text");
    assert!(program.contains("patch 122 words from input 0 to table 0"));
    assert!(json["images"][1]["hex"].as_str().expect("text").contains("SPYRCODE"));
}

#[test]
fn init_packets_and_open_sizes_are_shown() {
    let bed = Bed::new();
    bed.fine("plan fixed-addition -o fixed --tile 32,64");
    bed.fine("plan addition -o any");
    let fixed = bed.fine("inspect fixed");
    assert!(
        fixed.contains("  entry of step 0  at 752  16 bytes  2000000000000000400000"),
        "{fixed}"
    );
    assert!(bed.fine("inspect any").contains("rows=any x columns=any"));
}

#[test]
fn broken_folders_are_refused_as_loading_refuses_them() {
    let bed = Bed::with_matmul();
    assert!(bed.refusal("inspect nowhere").starts_with("nowhere: "));
    let refusal = bed.refusal("inspect matmul --image 2");
    assert_eq!(refusal, "there is no image 2: the plan has 2, from 0 on");

    bed.write("matmul/extra", b"");
    assert!(bed.refusal("inspect matmul").contains("is not part of the plan; remove it"));
    std::fs::remove_file(bed.path("matmul/extra")).expect("removed");
    let mut image = bed.read("matmul/image-0.bin");
    image[200] ^= 1;
    bed.write("matmul/image-0.bin", &image);
    let refusal = bed.refusal("inspect matmul");
    assert!(refusal.contains("image-0.bin: checksum"), "{refusal}");
    bed.write("matmul/plan.json", b"{\"format_version\": 9}");
    assert!(bed.refusal("inspect matmul").contains("this reader knows version 1"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let bed = Bed::with_matmul();
    let mut command = bed.command("inspect matmul --disassemble --hex");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    drop(child.stdout.take());
    let said = Said::of(&child.wait_with_output().expect("it ends"));
    assert_eq!((said.code, &*said.errors), (Some(0), ""));
}
