use spyre::artifact::CompilerOutput;
use spyre::numerics::{DataFormat, Profile};

use crate::bed::{Bed, npy_elements, numbers};

const SUMS: &[u8] = b"kernel sums(i, j) {
    in x: float32[i, j]
    out y: float32[i]
    y = sum<j>(x)
}";

#[test]
fn a_kernel_is_compiled_and_run() -> Result<(), Box<dyn std::error::Error>> {
    let bed = Bed::new();
    bed.write("sums.ir", SUMS);
    assert_eq!(bed.fine("compile sums.ir -o sums"), "sums: tensors x, y; 1 step, 2 images\n");

    let values = numbers(6, 1);
    bed.npy("x.npy", &[2, 3], &values);
    bed.fine("run sums x=x.npy --output y=y.npy");

    let bytes = bed.read("y.npy");
    let sums: Vec<f32> = npy_elements(&bytes)
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        .collect();
    let expected: Vec<f32> = values.chunks(3).map(|row| row.iter().sum()).collect();
    assert!(sums.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5), "{sums:?}");
    Ok(())
}

#[test]
fn a_kernel_is_only_checked_where_no_folder_is_named() {
    let bed = Bed::new();
    bed.write("sums.ir", SUMS);
    assert_eq!(bed.fine("compile sums.ir"), "sums: tensors x, y; 1 step, 2 images\n");
    assert!(bed.json("compile sums.ir")["plan"].is_null());
}

#[test]
fn a_time_on_a_real_card_is_predicted() {
    let bed = Bed::new();
    let softmax = include_bytes!("../../../../examples/kernels/softmax.ir");
    bed.write("softmax.ir", softmax);
    let command = "compile softmax.ir --predict rows=4096,columns=2048";
    let said = bed.fine(command);
    assert!(
        said.contains("predicted on a real card: 340.0 us: kernels 320.0 us, copies 0 ns (assumed), launches 20.0 us (assumed)")
            && said.contains("  kernel    320.0 us (fused reduction, +-21 %)"),
        "{said}"
    );
    assert!(said.contains("1 launch, no copies; assumed: 25 GB/s"), "{said}");
    let predicted = &bed.json(command)["predicted"];
    assert_eq!(predicted["read_bytes"], 16 << 20);
    assert_eq!(predicted["is_lower_bound"], false);
    assert_eq!(
        *predicted,
        bed.json("inspect softmax.ir --predict rows=4096,columns=2048")["predicted"]
    );

    let refusal = bed.refusal("compile softmax.ir --predict rows=4096");
    assert!(refusal.contains("dim `columns` has no extent"), "{refusal}");
    let refusal = bed.refusal("compile softmax.ir --predict rows");
    assert!(refusal.contains("\"rows\" is no extent"), "{refusal}");
}

#[test]
fn layouts_and_what_a_real_card_would_refuse_are_shown() {
    let bed = Bed::new();
    let text = "kernel scores(m, k, n) {
    in a: float16[m, k]
    in b: float16[n, k]
    out c: float16[m, n]
    c = erf(sum<k>(a * b))
}";
    bed.write("scores.ir", text.as_bytes());
    let said = bed.fine("compile scores.ir --profile card --layouts");
    let expected = "scores: tensors a, b, c; 2 steps, 4 images
on a real card
  host: `erf` is none of the card's operations
  decomposed: `b` is restickified, from k to n
layouts
  a  in     m x k  sticks along k
  b  in     n x k  sticks along k
  c  out    m x n  sticks along n
restickify
  b  from k to n
";
    assert_eq!(said, expected);
    let report = bed.json("compile scores.ir --profile card --layouts b=n");
    assert_eq!(report["card"][0]["verdict"], "host");
    assert_eq!(report["layouts"]["tensors"][1]["stick"], "n");
    assert_eq!(report["layouts"]["restickify"], serde_json::json!([]));
    bed.fine("compile scores.ir --profile card --layouts -o scores");
    assert!(bed.fine("inspect scores").contains("step 0 restickify b"));
    let refusal = bed.refusal("compile scores.ir --layouts z=n");
    assert_eq!(refusal, "there is no tensor \"z\"");
    assert!(bed.refusal("compile scores.ir --layouts a=n").contains("no such dim"));
}

#[test]
fn a_kernel_for_the_card_keeps_its_numbers() -> Result<(), Box<dyn std::error::Error>> {
    let bed = Bed::new();
    let text = String::from_utf8(SUMS.to_vec())?.replace("float32", "float16");
    bed.write("sums.ir", text.as_bytes());
    bed.fine("compile sums.ir -o sums --profile card");
    let plan = CompilerOutput::load(bed.path("sums"))?;
    assert_eq!(plan.options.profile, Profile::Card);
    assert_eq!(plan.tensor_input_metadata[0].format, DataFormat::Sen169Fp16);
    Ok(())
}

#[test]
fn bad_kernels_are_refused_with_their_place() {
    let bed = Bed::new();
    let text = |from: &str, to: &str| String::from_utf8_lossy(SUMS).replace(from, to);
    for (text, expected) in [
        (text("(x)", "(z)"), "bad.ir: line 4, column 16: nothing is called `z`"),
        (
            text("(i, j)", "(i, j, k)").replace("(x)", "(x) + sum<k>(f32(k))"),
            "bad.ir: no tensor has the dim `k`, so a launch does not know how long it is",
        ),
        (String::from("\0"), "bad.ir: line 1, column 1: `\0` is no part of the language"),
        (
            String::new(),
            "bad.ir: line 1, column 1: here should be `kernel`, not the end of the text",
        ),
    ] {
        bed.write("bad.ir", text.as_bytes());
        let refusal = bed.refusal("compile bad.ir -o bad");
        assert!(refusal.contains(expected), "{refusal}");
    }
    bed.write("bad.ir", &[0xff, 0xfe]);
    assert!(bed.refusal("compile bad.ir -o bad").contains("valid UTF-8"));
    assert!(bed.refusal("compile none.ir -o bad").contains("No such file"));
}
