use spyre::artifact::CompilerOutput;
use spyre::artifact::samples::{self, Elements};
use spyre::numerics::{DType, DataFormat, Profile};

use crate::bed::{Bed, files};

#[test]
fn samples_are_written_as_plans() -> Result<(), Box<dyn std::error::Error>> {
    let bed = Bed::new();
    assert_eq!(
        bed.fine("plan matmul -o matmul --tile 64,32,16 --dtype float16"),
        "matmul: tensors a, b, c; 1 step, 2 images\n"
    );
    let sample = samples::matmul(Elements::exact(DType::Float16), Some([64, 32, 16]))?;
    assert_eq!(CompilerOutput::load(bed.path("matmul"))?, sample);
    assert_eq!(files(&bed.path("matmul")), ["image-0.bin", "image-1.bin", "plan.json"]);

    let json = bed.json("plan two-additions -o two");
    assert_eq!(json["tensors"], serde_json::json!(["a", "b", "c", "d"]));
    assert_eq!((&json["steps"], &json["plan"]), (&2.into(), &"two".into()));
    bed.fine("plan row-sums -o sums");
    bed.fine("plan fixed-addition -o fixed --tile 8,64");
    Ok(())
}

#[test]
fn a_plan_for_the_card_keeps_its_numbers() -> Result<(), Box<dyn std::error::Error>> {
    let bed = Bed::new();
    bed.fine("plan addition -o add --dtype float16 --profile card");
    let plan = CompilerOutput::load(bed.path("add"))?;
    assert_eq!(plan.options.profile, Profile::Card);
    assert_eq!(plan.tensor_input_metadata[0].format, DataFormat::Sen169Fp16);
    Ok(())
}

#[test]
fn bad_plans_are_refused() {
    let bed = Bed::with_matmul();
    for (arguments, expected) in [
        ("plan matmul -o matmul", "matmul: is already there"),
        ("plan matmul -o other --tile 64,64", "--tile has 2 numbers, and this sample takes 3"),
        ("plan addition -o other --tile 0,64", "--tile holds a 0"),
        ("plan fixed-addition -o other", "give --tile rows,columns"),
        ("plan addition -o no/such/folder", "No such file"),
        ("plan addition -o other --dtype complex64", "complex64"),
        ("plan addition -o other --dtype float64 --profile card", "float64"),
    ] {
        let refusal = bed.refusal(arguments);
        assert!(
            refusal.to_lowercase().contains(&expected.to_lowercase()),
            "{arguments}: {refusal}"
        );
        assert!(!bed.path("other").exists(), "{arguments}");
    }
    let usage = bed.run("plan addition -o other --dtype float128");
    assert_eq!(usage.code, Some(2));
    assert!(usage.errors.contains("bfloat16, float32"), "{usage:?}");
}
