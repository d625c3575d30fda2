//! Kernels from their text to the card, against the interpreter.

use std::sync::Arc;

use spyre::artifact::Constant;
use spyre::card::SoftwareCard;
use spyre::compiler::{Array, CompileError, CompileOptions, Kernel};
use spyre::hal::MemoryMode;
use spyre::numerics::{DType, Scalar};
use spyre::runtime::{
    CPUTensor, Device, ExecutionPlan, SpyreStream, SpyreTensor, launch_kernel_with,
};

type Failure = Box<dyn std::error::Error>;

/// Numbers that are small, of both signs, and repeat at odd distances.
fn numbers(dtype: DType, shape: &[usize], seed: usize) -> Array {
    let count: usize = shape.iter().product();
    let value = |at: usize| ((at * 37 + seed * 11) % 101) as f64 / 16.0 - 3.0;
    let mut array = Array::zeros(dtype, shape);
    for (at, element) in array.elements.iter_mut().enumerate().take(count) {
        *element = match element {
            Constant::Float(_) => Constant::Float(value(at)),
            Constant::Int(_) => Constant::Int(value(at) as i64 + 1),
            Constant::Bool(_) => Constant::Bool(at % 3 == 0),
        };
    }
    // Every one is a number of its dtype: sixteenths below four have few bits.
    array
}

fn host(array: &Array) -> Result<CPUTensor, Failure> {
    let format = array.dtype.host_format();
    let mut bytes = Vec::new();
    for element in &array.elements {
        let scalar = match *element {
            Constant::Float(value) => Scalar::Double(value),
            Constant::Int(value) => Scalar::Signed(value),
            Constant::Bool(value) => Scalar::Signed(value.into()),
        };
        bytes.extend(scalar.encode(format)?);
    }
    Ok(CPUTensor::from_bytes(&array.shape, array.dtype, bytes)?)
}

fn floats(host: &CPUTensor) -> Result<Vec<f64>, Failure> {
    let format = host.data_type().host_format();
    let width = format.element_bytes().ok_or("an element")?;
    let bytes = host.buffer().read()?;
    let scalars: Result<Vec<_>, _> =
        bytes.chunks_exact(width).map(|bytes| Scalar::decode(format, bytes)).collect();
    Ok(scalars?.into_iter().map(Scalar::to_f64).collect())
}

struct Bed {
    stream: SpyreStream,
}

impl Bed {
    fn open() -> Result<Self, Failure> {
        let device = Device::open(Arc::new(SoftwareCard::new(MemoryMode::Vf)))?;
        Ok(Self { stream: device.default_stream()? })
    }

    /// Runs a kernel on the card and in the interpreter, and compares every operand.
    fn check(&self, text: &str, extents: &[usize], scalars: &[Constant]) -> Result<(), Failure> {
        let kernel: Kernel = text.parse()?;
        let plan = kernel.compile(&CompileOptions::default())?;
        let plan = ExecutionPlan::from_compiler_output(plan)?;
        plan.load(&self.stream)?;
        let mut arrays: Vec<Array> = Vec::new();
        for (seed, operand) in kernel.operands().iter().enumerate() {
            let extent = |dim: &spyre::compiler::DimId| extents[usize::from(dim.0)];
            let shape: Vec<usize> = operand.dims.iter().map(extent).collect();
            arrays.push(numbers(operand.dtype, &shape, seed));
        }
        let mut tensors = Vec::new();
        for array in &arrays {
            tensors.push(SpyreTensor::from_host(&self.stream, &host(array)?)?);
        }
        let words: Vec<u64> = scalars.iter().map(|scalar| scalar.word()).collect();
        launch_kernel_with(&self.stream, &plan, &tensors, &words)?;
        self.stream.synchronize()?;

        kernel.interpret(extents, scalars, &mut arrays)?;
        for (tensor, array) in tensors.iter().zip(&arrays) {
            let host = tensor.to_host(&self.stream)?;
            self.stream.synchronize()?;
            let (ours, expected) = (floats(&host)?, array.floats());
            let tolerance = match array.dtype {
                DType::Float16 => 1e-3,
                DType::BFloat16 => 8e-3,
                DType::Float64 => 1e-12,
                _ => 2e-6,
            };
            for (at, (a, b)) in ours.iter().zip(&expected).enumerate() {
                let is_close = a == b
                    || (a.is_nan() && b.is_nan())
                    || (a - b).abs() <= tolerance * (1.0 + b.abs());
                assert!(
                    is_close,
                    "element {at} of {}, {extents:?}: {a} is not {b}\n{kernel}",
                    array.dtype
                );
            }
        }
        Ok(())
    }
}

const RAGGED: [usize; 5] = [1, 63, 64, 65, 129];

#[test]
fn pointwise_chains_of_every_dtype() -> Result<(), Failure> {
    let bed = Bed::open()?;
    for dtype in ["float16", "bfloat16", "float32", "float64"] {
        for columns in RAGGED {
            let text = format!(
                "kernel chain(rows, columns) {{
                    in x: {dtype}[rows, columns]
                    in bias: {dtype}[columns]
                    in scale: {dtype}[rows]
                    out y: {dtype}[rows, columns]
                    out positive: bool[rows, columns]
                    t = tanh(x * scale + bias)
                    y = where(t > 0, t, exp(t) - 1)
                    positive = t > 0
                }}"
            );
            bed.check(&text, &[3, columns], &[])?;
        }
    }
    Ok(())
}

#[test]
fn reductions_in_a_row_and_over_everything() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let softmax = "kernel softmax(rows, columns) {
        in x: float32[rows, columns]
        out y: float32[rows, columns]
        e = exp(x - max<columns>(x))
        y = e / sum<columns>(e)
    }";
    let layer_norm = "kernel layer_norm(rows, columns) {
        in x: float16[rows, columns]
        in weight: float16[columns]
        out y: float16[rows, columns]
        scalar count: f32
        mean = sum<columns>(x) / count
        centred = x - mean
        variance = sum<columns>(centred * centred) / count
        y = centred * rsqrt(variance + 1e-5) * weight
    }";
    let everything = "kernel everything(a, b, c) {
        in x: float32[a, b, c]
        out sum_of_largest: float32[]
        out centred: float32[a, b, c]
        out by_middle: float32[b]
        sum_of_largest = sum<a, b>(max<c>(x))
        centred = x - sum<a, b, c>(x) * 0.001
        by_middle = min<a, c>(x)
    }";
    for columns in RAGGED {
        bed.check(softmax, &[5, columns], &[])?;
        bed.check(layer_norm, &[5, columns], &[Constant::Float(columns as f64)])?;
        bed.check(everything, &[3, 4, columns], &[])?;
    }
    bed.check(softmax, &[17, 4000], &[])
}

#[test]
fn products_with_what_comes_after_them() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let linear = "kernel linear(m, n, k) {
        in x: float32[m, k]
        in weight: float32[n, k]
        in bias: float32[n]
        out y: float32[m, n]
        t = sum<k>(x * weight) + bias
        y = t / (1 + exp(-t * 0.01))
    }";
    let batched = "kernel bmm(b, m, n, k) {
        in x: float32[b, m, k]
        in z: float32[b, k, n]
        out y: float32[b, m, n]
        y = sum<k>(x * z)
    }";
    for size in RAGGED {
        bed.check(linear, &[size, 65, 33], &[])?;
        bed.check(linear, &[7, size, 130], &[])?;
        bed.check(batched, &[3, 5, size, 20], &[])?;
    }
    Ok(())
}

#[test]
fn integers_conditions_and_indices() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let text = "kernel integers(i, j) {
        in n: int64[i, j]
        in small: int8[j]
        inout y: int64[i, j]
        out z: int64[i]
        scalar least: i64
        y = n * 3 + j - i // 2 if n >= least & small != 0
        z = sum<j>(where(n % 2 == 0, n, 0)) + max<j>(n)
    }";
    for columns in RAGGED {
        bed.check(text, &[4, columns], &[Constant::Int(1)])?;
    }
    Ok(())
}

#[test]
fn empty_tensors_are_computed_too() -> Result<(), Failure> {
    let bed = Bed::open()?;
    let text = "kernel sums(i, j) {
        in x: float32[i, j]
        out y: float32[i]
        y = sum<j>(x)
    }";
    bed.check(text, &[3, 0], &[])?;
    bed.check(text, &[0, 3], &[])
}

#[test]
fn what_no_program_does_is_refused_by_name() -> Result<(), Failure> {
    let refused = |text: &str| -> Result<CompileError, Failure> {
        let kernel: Kernel = text.parse()?;
        Ok(kernel.compile(&CompileOptions::default()).expect_err("it is refused"))
    };
    let shifted = "kernel k(i) {\nin x: float32[i]\nout y: float32[i]\ny = x[i - 1] else 0\n}";
    assert_eq!(refused(shifted)?, CompileError::Access { operand: "x".into() });
    let unknown =
        "kernel k(i, j) {\nin x: float32[i]\nout y: float32[i]\ny = x * sum<j>(f32(j))\n}";
    assert_eq!(refused(unknown)?, CompileError::Extent { dim: "j".into() });
    let again = "kernel k(i, j) {
        in x: float32[i, j]
        inout y: float32[i]
        out z: float32[i, j]
        y = sum<j>(x)
        z = x + y
    }";
    assert_eq!(refused(again)?, CompileError::ReadAfterStore { operand: "y".into() });
    Ok(())
}
