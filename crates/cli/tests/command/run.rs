use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use spyre::OpenSettings;
use spyre::artifact::CompilerOutput;
use spyre::artifact::samples::{self, Elements};
use spyre::numerics::DType;
use spyre::runtime::{CPUTensor, ExecutionPlan, SpyreTensor, launch_kernel};

use crate::bed::{Bed, npy, npy_elements, numbers};

type Done = Result<(), Box<dyn std::error::Error>>;

/// The bytes that a launch in this process gives, of a plan that was never a file.
fn in_process(plan: CompilerOutput, inputs: &[CPUTensor], output: &[usize]) -> Vec<u8> {
    let launch = || -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        let device = OpenSettings::from_environment()?.open(0)?;
        let stream = device.default_stream()?;
        let plan = ExecutionPlan::from_compiler_output(plan)?;
        plan.load(&stream)?;
        let mut tensors = Vec::new();
        for host in inputs {
            tensors.push(SpyreTensor::from_host(&stream, host)?);
        }
        let result = SpyreTensor::empty(&stream, output, inputs[0].data_type())?;
        tensors.push(result.clone());
        launch_kernel(&stream, &plan, &tensors)?;
        let host = result.to_host(&stream)?;
        stream.synchronize()?;
        let bytes = host.buffer().read()?.to_vec();
        Ok(bytes)
    };
    launch().expect("a launch")
}

fn matmul_inputs() -> (Vec<f32>, Vec<f32>) {
    (numbers(200 * 100, 1), numbers(100 * 90, 2))
}

#[test]
fn a_saved_plan_gives_the_same_bytes_in_another_process() -> Done {
    let bed = Bed::with_matmul();
    let (a, b) = matmul_inputs();
    bed.npy("a.npy", &[200, 100], &a);
    bed.npy("b.npy", &[100, 90], &b);
    let plan = samples::matmul(Elements::exact(DType::Float32), Some([64, 64, 64]))?;
    let hosts = [CPUTensor::from_values(&[200, 100], &a)?, CPUTensor::from_values(&[100, 90], &b)?];
    let expected = in_process(plan, &hosts, &[200, 90]);

    for options in ["", "--mode PF", "--engines 4", "--repeat 3"] {
        bed.fine(&format!("run matmul a.npy b.npy --output out {options}"));
        assert!(npy_elements(&bed.read("out/c.npy")) == expected, "{options}");
    }
    bed.fine("run matmul b=b.npy a.npy --output all.safetensors --output c=other.npy");
    assert!(npy_elements(&bed.read("other.npy")) == expected);
    let file = bed.read("all.safetensors");
    let file = SafeTensors::deserialize(&file)?;
    assert_eq!(file.names(), ["c"]);
    assert_eq!(file.tensor("c")?.shape(), [200, 90]);
    assert!(file.tensor("c")?.data() == expected);
    Ok(())
}

#[test]
fn safetensors_are_taken_by_their_names() -> Done {
    let bed = Bed::with_matmul();
    let (a, b) = matmul_inputs();
    let bytes =
        |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let a_bytes = bytes(&a);
    let b_bytes = bytes(&b);
    let other = vec![0; 4];
    let views = [
        ("b", TensorView::new(Dtype::F32, vec![100, 90], &b_bytes)?),
        ("unrelated", TensorView::new(Dtype::F32, vec![1], &other)?),
        ("a", TensorView::new(Dtype::F32, vec![200, 100], &a_bytes)?),
    ];
    bed.write("ab.safetensors", &serialize(views, None)?);
    bed.npy("a.npy", &[200, 100], &a);
    bed.npy("b.npy", &[100, 90], &b);

    let of_npy = bed.json("run matmul a.npy b.npy");
    let of_names = bed.json("run matmul ab.safetensors");
    let mixed = bed.json("run matmul a=ab.safetensors b.npy");
    assert_eq!(of_npy["outputs"][0]["crc32"], of_names["outputs"][0]["crc32"]);
    assert_eq!(of_npy["outputs"][0]["crc32"], mixed["outputs"][0]["crc32"]);
    assert_eq!(of_names["inputs"][1]["source"], "ab.safetensors");
    Ok(())
}

#[test]
fn it_tells_what_ran_and_what_came_of_it() {
    let bed = Bed::new();
    bed.fine("plan addition -o add");
    bed.npy("a.npy", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    bed.npy("b.npy", &[2, 3], &[0.5, f32::NAN, f32::INFINITY, -4.0, 1e10, 0.25]);
    let text = bed.fine("run add a.npy b.npy --repeat 2");
    assert!(text.starts_with("add: add on VF, profile open, 1 engine\n2 launches of 3 blocks: "));
    assert!(text.contains("  a  float32  2x3  a.npy\n"), "{text}");
    assert!(text.contains("  c  float32  2x3  1.5 NaN inf 0 10000000000 6.25  crc32 "), "{text}");

    let json = bed.json("run add a.npy b.npy");
    assert_eq!(json["outputs"][0]["shape"], serde_json::json!([2, 3]));
    let first = serde_json::json!([1.5, "NaN", "inf", 0.0, 1e10, 6.25]);
    assert_eq!(json["outputs"][0]["first_values"], first);
    assert_eq!((&json["launches"], &json["blocks_per_launch"]), (&1.into(), &3.into()));
    for field in ["median_nanoseconds", "modelled_nanoseconds"] {
        assert!(json[field].as_u64().is_some_and(|time| time > 0), "{field}");
    }
}

#[test]
fn a_launch_costs_what_was_predicted() {
    let bed = Bed::new();
    let text = "kernel double(i, j) {\n in x: float32[i, j]\n out y: float32[i, j]\n y = x + x\n}";
    bed.write("double.ir", text.as_bytes());
    let predicted = bed.json("compile double.ir --predict i=64,j=96")["predicted"]["cost"].clone();
    let ran = bed.json("run double.ir --shape i=64 --shape j=96 --fill random --repeat 3");
    assert_eq!(ran["modelled"], predicted);
    assert_eq!(predicted["launch_nanoseconds"], 20_000);
    assert_eq!(predicted["assumed"], serde_json::json!(["copy_nanoseconds", "launch_nanoseconds"]));
    // 24 KiB are brought there once, filled once for the result, and brought back once.
    let bytes = 64 * 96 * 4_u64;
    let copies = 2 * (10_000 + bytes.div_ceil(25)) + 20_000 + bytes.div_ceil(150);
    assert_eq!(ran["modelled_tensor_copies_nanoseconds"], copies);

    let command = "compile double.ir --max-tile 32 --predict i=64,j=96 -o tiled";
    let tiled = bed.json(command)["predicted"].clone();
    let ran = bed.json("run tiled --shape i=64 --shape j=96 --fill random");
    assert_eq!(
        (&tiled["launches"], &tiled["cost"]["launch_nanoseconds"]),
        (&6.into(), &120_000.into())
    );
    assert_eq!(ran["modelled"]["launch_nanoseconds"], tiled["cost"]["launch_nanoseconds"]);
}

#[test]
fn what_is_not_given_is_made_up_and_sized_by_what_is() {
    let bed = Bed::with_matmul();
    let shape = |arguments: &str| bed.json(arguments)["outputs"][0]["shape"].clone();
    assert_eq!(shape("run matmul --fill zeros"), serde_json::json!([64, 64]));
    assert_eq!(shape("run matmul --fill random --shape c=256x32"), serde_json::json!([256, 32]));
    bed.npy("a.npy", &[100, 7], &[1.0; 700]);
    assert_eq!(shape("run matmul a.npy --fill random --shape n=5"), serde_json::json!([100, 5]));
    assert_eq!(shape("run matmul --fill zeros --shape m=0"), serde_json::json!([0, 64]));

    let crc = |arguments: &str| bed.json(arguments)["outputs"][0]["crc32"].clone();
    let first = crc("run matmul --fill random --seed 1");
    assert_eq!(first, crc("run matmul --fill random --seed 1 --repeat 3"));
    assert_ne!(first, crc("run matmul --fill random --seed 2"));
}

#[test]
fn tensors_that_are_read_and_written_start_anew_with_each_launch() -> Done {
    use spyre::artifact::{Access, ExpectedSize, ProgramBuilder, Role, TensorMetadata, UnaryOp};
    use spyre::numerics::DataFormat::IeeeFp32;
    let mut code = ProgramBuilder::new();
    let n = code.dim();
    let scale = code.scalar_word();
    let x = code.operand(IeeeFp32, Access::Both, [n]);
    code.each_parallel(n, 64, |code| {
        let tile = code.load(x);
        let root = code.unary(UnaryOp::Sqrt, tile);
        let factor = code.scalar(spyre::artifact::Lane::F32, scale);
        let product = code.mul(root, factor);
        code.store(x, product);
    });
    let dims = [("n", ExpectedSize::Any)];
    let x = TensorMetadata::new("x", DType::Float32, IeeeFp32, &dims, Role::Both);
    let plan = CompilerOutput::single("scaled_root", code.build()?, &["n"], vec![x], Vec::new())?;
    let bed = Bed::new();
    plan.save(bed.path("root"))?;
    bed.npy("x.npy", &[3], &[4.0, 9.0, 16.0]);

    let json = bed.json("run root x.npy --scalar 0.5 --repeat 4");
    assert_eq!(json["outputs"][0]["first_values"], serde_json::json!([1.0, 1.5, 2.0]));
    let json = bed.json("run root x.npy --scalar -1");
    assert_eq!(json["outputs"][0]["first_values"], serde_json::json!([-2.0, -3.0, -4.0]));
    let refusal = bed.refusal("run root x.npy");
    assert!(refusal.starts_with("the plan takes 1 scalar, and 0 were given"), "{refusal}");
    let refusal = bed.refusal("run root x.npy --scalar half");
    assert_eq!(refusal, "--scalar half: s0 of step \"scaled_root\" is a number");
    Ok(())
}

#[test]
fn a_plan_runs_with_the_numbers_it_was_made_for() {
    let bed = Bed::new();
    bed.fine("plan addition -o add --dtype float16 --profile card");
    assert_eq!(bed.json("run add --fill random --shape a=4x4")["profile"], "card");
    let refusal = bed.refusal("run add --fill random --shape a=4x4 --profile open");
    assert!(refusal.contains("SEN169_FP16"), "{refusal}");
}

#[test]
fn what_does_not_fit_the_plan_is_refused_with_both_numbers() {
    let bed = Bed::with_matmul();
    bed.npy("a.npy", &[128, 64], &[0.0; 128 * 64]);
    bed.npy("b.npy", &[32, 64], &[0.0; 32 * 64]);
    bed.npy("flat.npy", &[64], &[0.0; 64]);
    bed.write("double.npy", &npy("<f8", &[1, 1], &[0; 8]));
    for (arguments, expected) in [
        ("run nowhere", "nowhere: No such file or directory (os error 2)"),
        (
            "run matmul",
            "tensors are not given: a, b. Give a=FILE.npy b=FILE.npy, or make them up with --fill \
             random",
        ),
        ("run matmul a.npy", "a tensor is not given: b. Give b=FILE.npy, or make"),
        (
            "run matmul a.npy b.npy",
            "dim k is 64 in tensor \"a\" (a.npy, 128x64), but 32 in tensor \"b\" (b.npy, 32x64)",
        ),
        (
            "run matmul double.npy --fill zeros",
            "tensor \"a\": double.npy holds float64, and the plan expects float32: convert it",
        ),
        (
            "run matmul b=flat.npy --fill zeros",
            "tensor \"b\": flat.npy has 1 dimension (64), and the plan expects 2 (k, n)",
        ),
        ("run matmul a.npy a.npy a.npy", "a.npy: no input is left for it, as the plan has 2"),
        ("run matmul a=a.npy a=a.npy", "tensor \"a\" is given twice, by a.npy and a.npy"),
        ("run matmul c=a.npy", "tensor \"c\" is a result, so a.npy cannot give it"),
        ("run matmul q=a.npy", "the plan has no tensor \"q\": its tensors are a, b, c"),
        ("run matmul a.txt", "a.txt: give a file that ends in .npy or .safetensors"),
        ("run matmul no.npy", "no.npy: No such file or directory"),
        (
            "run matmul --fill zeros --shape c=4",
            "--shape c=4 has 1 dimension, and tensor \"c\" has 2",
        ),
        ("run matmul --fill zeros --shape m=4x4", "m is a dim, which has one size"),
        (
            "run matmul --fill zeros --shape z=4",
            "neither a tensor nor a dim \"z\": its tensors are a",
        ),
        (
            "run matmul --fill zeros --shape m=1 --shape a=2x2",
            "dim m is 1 in --shape m=1, but 2 in",
        ),
        ("run matmul --fill zeros --scalar 1", "the plan takes 0 scalars, and 1 were given"),
        ("run matmul --fill zeros --shape m=9999999999999", "does not fit: 0 B of"),
        ("run matmul --fill zeros --shape m=9223372036854775807", "does not fit: 0 B of"),
    ] {
        let refusal = bed.refusal(arguments);
        assert!(refusal.contains(expected), "{arguments}: {refusal}");
    }
}

#[test]
fn outputs_that_cannot_be_written_are_refused() {
    let bed = Bed::with_matmul();
    bed.fine("plan addition -o brain --dtype bfloat16");
    bed.write("file", b"");
    for (arguments, expected) in [
        ("run matmul --fill zeros -o a=a.npy", "tensor \"a\" is no result of the plan"),
        ("run matmul --fill zeros -o z=a.npy", "the plan has no tensor \"z\""),
        ("run matmul --fill zeros -o c.npy", "c.npy: say which tensor it is for, as name=c.npy"),
        ("run matmul --fill zeros -o c=c.txt", "c.txt: give a file that ends in .npy"),
        ("run matmul --fill zeros -o c=no/c.npy", "cannot write no/c.npy: No such file"),
        ("run matmul --fill zeros -o file", "cannot make the folder file: "),
        ("run matmul --fill zeros --trace no/t.json", "cannot write no/t.json: No such file"),
        (
            "run brain --fill zeros --shape a=2x2 -o out",
            "tensor \"c\": bfloat16 has no .npy form: write a .safetensors file",
        ),
    ] {
        let refusal = bed.refusal(arguments);
        assert!(refusal.contains(expected), "{arguments}: {refusal}");
    }
    bed.fine("run brain --fill random --shape a=2x2 -o out.safetensors");
}

#[test]
fn what_the_plan_refuses_is_said_as_it_is() {
    let bed = Bed::new();
    bed.fine("plan fixed-addition -o fixed --tile 32,64");
    let refusal = bed.refusal("run fixed --fill zeros --shape rows=33");
    assert!(refusal.contains("(rows) is 33, not a multiple of the tile's 32"), "{refusal}");
    let output = bed.command("run fixed --fill zeros").env("SPYRE_DEVICES", "").output();
    let errors = String::from_utf8(output.expect("it starts").stderr).expect("text");
    assert!(errors.starts_with("error: there is no device 0: this process has 0."), "{errors}");
}
