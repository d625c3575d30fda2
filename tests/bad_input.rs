//! Mistakes of callers: each is named with its numbers, and nothing is queued.

use std::sync::Arc;

use spyre::artifact::samples::{self, Elements};
use spyre::artifact::{CompilerOutput, CorrectionMetadata, ExpectedSize, Role, TensorMetadata};
use spyre::card::SoftwareCard;
use spyre::hal::{DeviceHandle, MemoryMode};
use spyre::layout::View;
use spyre::numerics::{DType, DataFormat, Profile};
use spyre::runtime::{
    CPUTensor, Device, DeviceIndex, DeviceSettings, Error, ExecutionPlan, Operation,
    PreProcessCompute, SpyreStream, SpyreTensor, launch_kernel, launch_kernel_with,
};

const F32: Elements = Elements { dtype: DType::Float32, format: DataFormat::IeeeFp32 };

fn open(index: u16, profile: Profile) -> SpyreStream {
    let index = DeviceIndex(index);
    let settings = DeviceSettings { index, profile, ..DeviceSettings::default() };
    let card = Arc::new(SoftwareCard::new(MemoryMode::Vf));
    let device = Device::open_with(card, settings).expect("a card");
    device.default_stream().expect("stream 0")
}

struct Bed {
    stream: SpyreStream,
}

impl Bed {
    fn new() -> Self {
        Self { stream: open(0, Profile::Open) }
    }

    fn plan(&self, output: CompilerOutput) -> ExecutionPlan {
        let plan = ExecutionPlan::from_compiler_output(output).expect("a good plan");
        plan.load(&self.stream).expect("there is room");
        plan
    }

    fn tensor(&self, shape: &[usize]) -> SpyreTensor {
        SpyreTensor::empty(&self.stream, shape, DType::Float32).expect("there is room")
    }

    fn tensors<const N: usize>(&self, shapes: [&[usize]; N]) -> [SpyreTensor; N] {
        shapes.map(|shape| self.tensor(shape))
    }

    /// Error of a launch that must be refused. Nothing may have been queued.
    fn refusal(&self, plan: &ExecutionPlan, tensors: &[SpyreTensor]) -> String {
        self.refused(|| launch_kernel(&self.stream, plan, tensors).map(drop)).to_string()
    }

    fn refused(&self, launch: impl FnOnce() -> Result<(), Error>) -> Error {
        let queued = || {
            let mark = DeviceHandle::to_words(self.tensor(&[1]).device_handle());
            assert_ne!(mark, [0; 3]);
            self.stream.device().synchronize().expect("no fault");
            let records = self.stream.device().context().scheduler().flight_record();
            records.iter().map(|record| record.sequence).max()
        };
        let before = queued();
        let error = launch().expect_err("it is refused");
        assert_eq!(queued(), before, "{error}");
        error
    }
}

#[test]
fn the_number_of_tensors() {
    let bed = Bed::new();
    let plan = bed.plan(samples::addition(F32, None).expect("a plan"));
    let tensors = bed.tensors([&[2, 2]; 2]);
    assert_eq!(
        bed.refusal(&plan, &tensors),
        "the plan takes 3 tensors (a, b, c), and 2 were given"
    );
    assert!(bed.refusal(&plan, &[]).ends_with("and 0 were given"));
}

#[test]
fn the_number_of_scalars() {
    let bed = Bed::new();
    let plan = bed.plan(samples::addition(F32, None).expect("a plan"));
    let tensors = bed.tensors([&[2, 2]; 3]);
    let error = bed.refused(|| launch_kernel_with(&bed.stream, &plan, &tensors, &[7]).map(drop));
    assert_eq!(error, Error::ScalarCount { expected: 0, given: 1 });
}

#[test]
fn a_dtype_or_format_that_the_plan_was_not_made_for() {
    let bed = Bed::new();
    let plan = bed.plan(samples::addition(F32, None).expect("a plan"));
    let [a, b, c] = bed.tensors([&[2, 2]; 3]);
    let half = SpyreTensor::empty(&bed.stream, &[2, 2], DType::Float16).expect("there is room");
    assert_eq!(
        bed.refusal(&plan, &[a.clone(), half.clone(), c.clone()]),
        "tensor \"b\" holds float16, and the plan was made for float32"
    );

    let card_format = Elements { dtype: DType::Float16, format: DataFormat::Sen169Fp16 };
    let plan = bed.plan(samples::addition(card_format, None).expect("a plan"));
    assert_eq!(
        bed.refusal(&plan, &[half.clone(), half.clone(), half]),
        "tensor \"a\" is stored as IEEE_FP16, and the plan was made for SEN169_FP16: compile it \
         for the device's profile"
    );
    drop(b);
}

#[test]
fn a_tensor_or_plan_of_another_card() {
    let bed = Bed::new();
    let other = open(3, Profile::Open);
    let plan = bed.plan(samples::addition(F32, None).expect("a plan"));
    let [a, b, _] = bed.tensors([&[2, 2]; 3]);
    let foreign = SpyreTensor::empty(&other, &[2, 2], DType::Float32).expect("there is room");
    assert_eq!(
        bed.refusal(&plan, &[a.clone(), b.clone(), foreign.clone()]),
        "tensor \"c\" is on device 3, and the stream on device 0: copy it"
    );
    let error = launch_kernel(&other, &plan, &[a.clone(), b, foreign]).expect_err("refused");
    assert_eq!(
        error,
        Error::PlanDevice {
            operation: "add".into(),
            loaded: DeviceIndex(0),
            given: DeviceIndex(3)
        }
    );
    let error = a.to_host(&other).expect_err("another card's stream");
    assert!(matches!(error, Error::TensorDevice { .. }), "{error}");
}

#[test]
fn a_shape_that_no_tiles_cover() {
    let bed = Bed::new();
    let plan = bed.plan(samples::fixed_addition(F32, [16, 32]).expect("a plan"));
    for (shape, reason) in [
        ([40, 64], "dimension 0 (rows) is 40, not a multiple of the tile's 16"),
        ([32, 8], "dimension 1 (columns) is 8, smaller than the tile's 32"),
        ([0, 32], "dimension 0 (rows) is 0, smaller than the tile's 16"),
    ] {
        let refusal = bed.refusal(&plan, &bed.tensors([&shape; 3]));
        assert!(refusal.starts_with(&format!("tensor \"a\": {reason}")), "{refusal}");
    }
    let good = bed.tensors([&[48, 64]; 3]);
    launch_kernel(&bed.stream, &plan, &good).expect("6 tiles");
    bed.stream.synchronize().expect("they run");
}

#[test]
fn one_dim_of_two_lengths() {
    let bed = Bed::new();
    let plan = bed.plan(samples::matmul(F32, Some([16, 16, 16])).expect("a plan"));
    let refusal = bed.refusal(&plan, &bed.tensors([&[64, 16], &[16, 16], &[48, 16]]));
    assert_eq!(refusal, "dim m is 64 in tensor \"a\", but 48 in tensor \"c\"");
}

#[test]
fn another_rank() {
    let bed = Bed::new();
    let plan = bed.plan(samples::addition(F32, None).expect("a plan"));
    for shape in [[].as_slice(), &[4], &[4, 4, 4]] {
        let [b, c] = bed.tensors([&[4, 4]; 2]);
        let refusal = bed.refusal(&plan, &[bed.tensor(shape), b, c]);
        let given = shape.len();
        assert_eq!(
            refusal,
            format!("tensor \"a\" has {given} dimensions, and the plan expects 2 (rows, columns)")
        );
    }
}

#[test]
fn a_reduction_that_keeps_no_partial_result() {
    let bed = Bed::new();
    let plan = bed.plan(samples::row_sums(F32, Some([16, 64])).expect("a plan"));
    let refusal = bed.refusal(&plan, &bed.tensors([&[16, 128], &[16]]));
    assert!(
        refusal.starts_with(
            "operation \"row_sums\" reduces over dim columns, which is 128 and would be cut in \
             tiles of 64, but its program keeps no partial result"
        ),
        "{refusal}"
    );
    let rows = bed.tensors([&[48, 64], &[48]]);
    launch_kernel(&bed.stream, &plan, &rows).expect("rows can be cut");
}

#[test]
fn more_tiles_than_could_ever_be_queued() {
    let bed = Bed::new();
    let plan = bed.plan(samples::matmul(F32, Some([16, 16, 16])).expect("a plan"));
    let [a, b, c] = bed.tensors([&[16, 16]; 3]);
    let wide = [&a, &b].map(|tensor| tensor.as_strided(&[16, 16], &[0, 0], 0).expect("inside"));
    launch_kernel(&bed.stream, &plan, &[wide[0].clone(), wide[1].clone(), c.clone()])
        .expect("one tile");
    let long = a.as_strided(&[16, 1 << 40], &[0, 0], 0).expect("one element, often");
    let tall = b.as_strided(&[1 << 40, 16], &[0, 0], 0).expect("one element, often");
    assert_eq!(
        bed.refusal(&plan, &[long, tall, c]),
        "operation \"matmul\" would be cut in 68719476736 tiles, and at most 4294967296 are \
         launched: compile it for larger ones"
    );
}

#[test]
fn dims_are_distinguished_however_many_there_are() {
    let bed = Bed::new();
    let mut output = samples::addition(F32, None).expect("a plan");
    let names: Vec<String> = (0..300).map(|at| format!("n{at}")).collect();
    for name in &names {
        let dims = [(name.as_str(), ExpectedSize::Any)];
        let tensor = TensorMetadata::new(name, F32.dtype, F32.format, &dims, Role::Input);
        output.tensor_input_metadata.push(tensor);
    }
    output.steps[0].dims = vec!["rows".into(), "columns".into()];
    let plan = bed.plan(output);
    let tensors = |last: usize| -> Vec<SpyreTensor> {
        let mut all = bed.tensors([&[2, 2]; 3]).to_vec();
        all.extend((0..300).map(|at| bed.tensor(&[if at == 299 { last } else { 1 }])));
        all
    };
    launch_kernel(&bed.stream, &plan, &tensors(1)).expect("each dim is its own");
    launch_kernel(&bed.stream, &plan, &tensors(5)).expect("each dim is its own");
    bed.stream.synchronize().expect("they run");
}

#[test]
fn results_that_share_memory() {
    let bed = Bed::new();
    let plan = bed.plan(samples::addition(F32, None).expect("a plan"));
    let whole = bed.tensor(&[8, 40]);
    let [left, right] = [0, 20].map(|at| whole.narrow(1, at, 20).expect("inside"));
    let shifted = whole.narrow(1, 10, 20).expect("inside");
    assert_eq!(
        bed.refusal(&plan, &[left.clone(), right.clone(), shifted]),
        "tensor \"c\" is written and shares memory with tensor \"a\": give it memory of its own"
    );
    let third = bed.tensor(&[8, 20]);
    launch_kernel(&bed.stream, &plan, &[left.clone(), third.clone(), right]).expect("disjoint");
    // Element by element, a result may be its argument.
    launch_kernel(&bed.stream, &plan, &[left.clone(), third, left]).expect("in place");

    let matmul = bed.plan(samples::matmul(F32, None).expect("a plan"));
    let square = bed.tensor(&[8, 8]);
    let refusal = bed.refusal(&matmul, &[square.clone(), bed.tensor(&[8, 8]), square.clone()]);
    assert!(refusal.contains("\"c\" is written and shares memory with tensor \"a\""), "{refusal}");
}

#[test]
fn results_whose_elements_are_one() {
    let bed = Bed::new();
    let plan = bed.plan(samples::addition(F32, None).expect("a plan"));
    let [a, b, c] = bed.tensors([&[8, 40]; 3]);
    for stride in [[0, 1], [1, 0], [1, 1]] {
        let shared = c.as_strided(&[8, 40], &stride, 0).expect("inside");
        let refusal = bed.refusal(&plan, &[a.clone(), b.clone(), shared]);
        assert!(refusal.contains("makes elements share memory"), "{refusal}");
    }
    let row = b.as_strided(&[8, 40], &[0, 1], 0).expect("inside");
    launch_kernel(&bed.stream, &plan, &[a, row, c]).expect("arguments may repeat");
}

#[test]
fn a_plan_that_is_not_loaded_or_went_with_a_reset() {
    let bed = Bed::new();
    let plan = ExecutionPlan::from_compiler_output(samples::addition(F32, None).expect("a plan"))
        .expect("a good plan");
    let tensors = bed.tensors([&[2, 2]; 3]);
    assert_eq!(
        bed.refusal(&plan, &tensors),
        "operation \"add\" is not loaded: call load on its plan, with a stream"
    );
    plan.load(&bed.stream).expect("there is room");
    bed.stream.device().reset().expect("it starts anew");

    assert_eq!(
        bed.refusal(&plan, &tensors),
        "operation \"add\" was loaded before the device was reset: load its plan again"
    );
    plan.load(&bed.stream).expect("there is room");
    let refusal = bed.refusal(&plan, &tensors);
    assert!(refusal.starts_with("tensor \"a\": vf:"), "{refusal}");
    let tensors = bed.tensors([&[2, 2]; 3]);
    launch_kernel(&bed.stream, &plan, &tensors).expect("it is there again");
    bed.stream.synchronize().expect("it runs");
}

#[test]
fn tensors_whose_memory_is_gone() {
    let bed = Bed::new();
    let plan = bed.plan(samples::addition(F32, None).expect("a plan"));
    let [a, b, c] = bed.tensors([&[2, 2]; 3]);
    let layout = b.layout().clone();
    let view = View::contiguous(&[2, 2]).expect("small");
    let device = bed.stream.device().clone();
    let freed = b.device_handle();
    drop(b);
    let stale = SpyreTensor::at(&device, freed, layout, DType::Float32, view).expect("a view");
    let refusal = bed.refusal(&plan, &[a, stale, c]);
    assert!(
        refusal.starts_with("tensor \"b\": vf:") && refusal.contains("not a live"),
        "{refusal}"
    );
}

#[test]
fn views_and_parts_that_are_not_there() {
    let bed = Bed::new();
    let tensor = bed.tensor(&[4, 10]);
    let messages = [
        tensor.as_strided(&[4, 10], &[10, 1], 1).map(drop),
        tensor.narrow(1, 8, 3).map(drop),
        tensor.narrow(2, 0, 1).map(drop),
        tensor.transpose(0, 2).map(drop),
        tensor.copy_from(&bed.stream, &CPUTensor::zeroed(&[10, 4], DType::Float32).expect("small")),
        CPUTensor::from_values(&[2, 2], &[1.0_f32]).map(drop),
        tensor.narrow(1, usize::MAX, 2).map(drop),
    ]
    .map(|result| result.expect_err("refused").to_string());
    assert_eq!(
        messages,
        [
            "a view of shape [4, 10], stride [10, 1] and offset 1 reaches element 40, and the \
             storage holds 40",
            "3 elements from 8 end past dimension 1, which holds 10",
            "dimension 2 of a tensor with 2",
            "dimension 2 of a tensor with 2",
            "a tensor of shape [10, 4] cannot be copied to one of shape [4, 10]",
            "1 elements do not fill the shape [2, 2], which holds 4",
            "2 elements from 18446744073709551615 end past dimension 1, which holds 10",
        ]
    );
}

#[test]
fn operations_that_do_not_hold_together() {
    let bed = Bed::new();
    let plan = bed.plan(samples::addition(F32, None).expect("a plan"));
    let compute = plan.operations()[0].compute().expect("it adds").clone();
    let tensors = bed.tensors([&[2, 2]; 3]);
    let refusal =
        |operation: &Operation| bed.refused(|| bed.stream.launch(operation, &tensors).map(drop));

    let short = Operation::with_preprocessing(compute, PreProcessCompute::correction(80).to_vec());
    let expected = 8 * (3 * 26 + 16);
    assert_eq!(
        refusal(&short),
        Error::CorrectionBytes { operation: "add".into(), given: 80, expected }
    );
    let lonely = Operation::preprocessing(PreProcessCompute::correction(80).to_vec());
    assert_eq!(refusal(&lonely), Error::NoCompute);
    assert_eq!(refusal(&Operation::default()), Error::EmptyOperation);
    let empty = bed.refused(|| launch_kernel(&bed.stream, &ExecutionPlan::new(), &[]).map(drop));
    assert_eq!(empty, Error::EmptyOperation);
    let handles = tensors.each_ref().map(SpyreTensor::device_handle);
    let error =
        bed.refused(|| bed.stream.launch_handles(&plan.operations()[0], &handles).map(drop));
    assert_eq!(error, Error::NotFixed { operation: "add".into(), name: "rows".into() });
}

#[test]
fn a_plan_whose_parts_do_not_belong_together() {
    let mut output = samples::addition(F32, None).expect("a plan");
    output.correction_metadata = vec![CorrectionMetadata { input_bytes: 16, words: Vec::new() }];
    let error = ExecutionPlan::from_compiler_output(output).expect_err("16 bytes of no words");
    assert!(error.to_string().contains("correction_metadata[0].input_bytes"), "{error}");

    let folder = std::env::temp_dir().join(format!("spyre-bad-input-{}", std::process::id()));
    samples::addition(F32, None).expect("a plan").save(&folder).expect("it can be written");
    let manifest = folder.join("plan.json");
    let text = std::fs::read_to_string(&manifest).expect("it was written");
    let other = text.replacen("\"format_version\": 1", "\"format_version\": 99", 1);
    assert!(other != text);
    std::fs::write(&manifest, other).expect("it can be written");
    let error = CompilerOutput::load(&folder).expect_err("version 99");
    assert!(error.to_string().contains("99"), "{error}");
    std::fs::remove_dir_all(&folder).expect("it was written");
}

#[test]
fn a_launch_with_words_that_were_not_filled_fails_its_stream_and_says_so() {
    let bed = Bed::new();
    let plan = bed.plan(samples::addition(F32, None).expect("a plan"));
    let compute = plan.operations()[0].compute().expect("it adds").clone();
    let tensors = bed.tensors([&[2, 2]; 3]);
    bed.stream.launch(&Operation::new(compute), &tensors).expect("it can be queued");
    let error = bed.stream.synchronize().expect_err("the table is empty");
    let text = error.to_string();
    assert!(text.contains("add") && text.contains("launch the correction program first"), "{text}");
}

#[test]
fn a_program_that_is_not_there() {
    let bed = Bed::new();
    let nothing = bed.stream.flex().allocate(256).expect("there is room");
    let launch = PreProcessCompute::device_launch(nothing);
    bed.stream.launch(&Operation::preprocessing(vec![launch]), &[]).expect("it can be queued");
    let error = bed.stream.synchronize().expect_err("there is no program");
    assert!(error.to_string().contains("program"), "{error}");
}

#[test]
fn a_rank_or_dtype_that_the_card_profile_has_not() {
    let stream = open(0, Profile::Card);
    let error = SpyreTensor::empty(&stream, &[2; 7], DType::Float16).expect_err("rank 7");
    assert!(error.to_string().contains("rank 7"), "{error}");
    let error = SpyreTensor::empty(&stream, &[2], DType::Float64).expect_err("float64");
    assert!(error.to_string().contains("float64"), "{error}");
}
