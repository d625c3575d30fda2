//! A card to run kernels on, and the interpreter to compare with.

use std::sync::Arc;

use spyre::artifact::Constant;
use spyre::card::{SoftwareCard, Threads};
use spyre::compiler::{Array, CompileOptions, DimId, Kernel};
use spyre::hal::MemoryMode;
use spyre::numerics::{DType, Profile, Scalar};
use spyre::runtime::{
    CPUTensor, Device, DeviceSettings, ExecutionPlan, SpyreStream, SpyreTensor, launch_kernel_with,
};

pub(crate) type Failure = Box<dyn std::error::Error>;

/// Numbers of their dtype that are small, of both signs, and repeat at odd distances.
fn numbers(dtype: DType, shape: &[usize], seed: usize) -> Array {
    let count: usize = shape.iter().product();
    let value = |at: usize| ((at * 37 + seed * 11) % 101) as f64 / 16.0 - 3.0;
    let mut array = Array::zeros(dtype, shape);
    for (at, element) in array.elements.iter_mut().enumerate().take(count) {
        *element = match element {
            Constant::Float(_) => Constant::Float(rounded(dtype, value(at))),
            Constant::Int(_) => Constant::Int((value(at) as i64 + 1).max(least(dtype))),
            Constant::Bool(_) => Constant::Bool(at % 3 == 0),
        };
    }
    array
}

/// The number of a dtype that is closest: eight bits do not hold all sixteenths below four.
fn rounded(dtype: DType, value: f64) -> f64 {
    let format = dtype.host_format();
    let bytes = Scalar::Double(value).encode(format).expect("a number");
    Scalar::decode(format, &bytes).expect("what was encoded").to_f64()
}

fn least(dtype: DType) -> i64 {
    if dtype == DType::UInt8 { 0 } else { i64::MIN }
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

/// A tensor of numbers for each operand.
pub(crate) fn arrays_of(kernel: &Kernel, extents: &[usize]) -> Vec<Array> {
    let extent = |dim: &DimId| extents[usize::from(dim.0)];
    let operands = kernel.operands().iter().enumerate();
    operands
        .map(|(seed, operand)| {
            let shape: Vec<usize> = operand.dims.iter().map(extent).collect();
            numbers(operand.dtype, &shape, seed)
        })
        .collect()
}

pub(crate) struct Bed {
    stream: SpyreStream,
    profile: Profile,
}

impl Bed {
    pub(crate) fn open() -> Result<Self, Failure> {
        Self::with_profile(Profile::Open)
    }

    /// A card that keeps numbers in a way of its own.
    pub(crate) fn with_profile(profile: Profile) -> Result<Self, Failure> {
        Self::on(SoftwareCard::new(MemoryMode::Vf), profile)
    }

    /// A card that divides its work among so many threads.
    pub(crate) fn with_threads(threads: usize) -> Result<Self, Failure> {
        let card = SoftwareCard::new(MemoryMode::Vf).with_threads(Threads::new(threads));
        Self::on(card, Profile::Open)
    }

    fn on(card: SoftwareCard, profile: Profile) -> Result<Self, Failure> {
        let settings = DeviceSettings { profile, ..DeviceSettings::default() };
        let device = Device::open_with(Arc::new(card), settings)?;
        Ok(Self { stream: device.default_stream()?, profile })
    }

    /// The bytes of all tensors after a kernel.
    pub(crate) fn run(
        &self,
        kernel: &Kernel,
        scalars: &[Constant],
        arrays: &[Array],
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let mut results = Vec::new();
        for tensor in self.launch(kernel, scalars, arrays)? {
            let host = tensor.to_host(&self.stream)?;
            self.stream.synchronize()?;
            results.push(host.buffer().read()?.to_vec());
        }
        Ok(results)
    }

    /// The tensors of a kernel after it was launched.
    fn launch(
        &self,
        kernel: &Kernel,
        scalars: &[Constant],
        arrays: &[Array],
    ) -> Result<Vec<SpyreTensor>, Failure> {
        let mut tensors = Vec::new();
        for array in arrays {
            tensors.push(SpyreTensor::from_host(&self.stream, &host(array)?)?);
        }
        self.launch_on(kernel, scalars, &tensors)?;
        Ok(tensors)
    }

    fn launch_on(
        &self,
        kernel: &Kernel,
        scalars: &[Constant],
        tensors: &[SpyreTensor],
    ) -> Result<(), Failure> {
        let plan = kernel.compile(&CompileOptions::for_profile(self.profile))?;
        let plan = ExecutionPlan::from_compiler_output(plan)?;
        plan.load(&self.stream)?;
        let words: Vec<u64> = scalars.iter().map(|scalar| scalar.word()).collect();
        launch_kernel_with(&self.stream, &plan, tensors, &words)?;
        Ok(self.stream.synchronize()?)
    }

    /// Runs the kernel of a text on the card and in the interpreter, and compares every operand.
    pub(crate) fn check(
        &self,
        text: &str,
        extents: &[usize],
        scalars: &[Constant],
    ) -> Result<(), Failure> {
        self.check_kernel(&text.parse()?, extents, scalars, Tolerance::OfDType)
    }

    /// Like [`check`](Self::check), for a kernel and a tolerance.
    pub(crate) fn check_kernel(
        &self,
        kernel: &Kernel,
        extents: &[usize],
        scalars: &[Constant],
        tolerance: Tolerance,
    ) -> Result<(), Failure> {
        self.check_arrays(kernel, extents, scalars, arrays_of(kernel, extents), tolerance)
    }

    /// Like [`check`](Self::check), with coordinates below a bound as the integers of some operands.
    pub(crate) fn check_at(
        &self,
        text: &str,
        extents: &[usize],
        scalars: &[Constant],
        bounds: &[(&str, usize)],
    ) -> Result<(), Failure> {
        let kernel: Kernel = text.parse()?;
        let mut arrays = arrays_of(&kernel, extents);
        for (operand, array) in kernel.operands().iter().zip(&mut arrays) {
            let Some(&(_, bound)) = bounds.iter().find(|(known, _)| *known == operand.name) else {
                continue;
            };
            for (at, element) in array.elements.iter_mut().enumerate() {
                *element = Constant::Int(((at * 29 + at / 3 * 5 + 2) % bound.max(1)) as i64);
            }
        }
        self.check_arrays(&kernel, extents, scalars, arrays, Tolerance::OfDType)
    }

    /// Like [`check_kernel`](Self::check_kernel), with the given contents of tensors.
    pub(crate) fn check_arrays(
        &self,
        kernel: &Kernel,
        extents: &[usize],
        scalars: &[Constant],
        arrays: Vec<Array>,
        tolerance: Tolerance,
    ) -> Result<(), Failure> {
        let tensors = self.launch(kernel, scalars, &arrays)?;
        self.compare(kernel, extents, scalars, (&tensors, arrays), tolerance)
    }

    /// Like [`check_kernel`](Self::check_kernel), with tensors that are views of others, and no tolerance.
    pub(crate) fn check_views(
        &self,
        kernel: &Kernel,
        extents: &[usize],
        scalars: &[Constant],
        views: &[Seen],
    ) -> Result<(), Failure> {
        let mut tensors = Vec::new();
        let mut arrays = Vec::new();
        for (array, seen) in arrays_of(kernel, extents).into_iter().zip(views) {
            let (tensor, array) = self.seen(&array, *seen)?;
            tensors.push(tensor);
            arrays.push(array);
        }
        self.launch_on(kernel, scalars, &tensors)?;
        self.compare(kernel, extents, scalars, (&tensors, arrays), Tolerance::None)
    }

    /// A view as large as an array, and what it shows.
    fn seen(&self, like: &Array, seen: Seen) -> Result<(SpyreTensor, Array), Failure> {
        let rank = like.shape.len();
        let mut shape = like.shape.clone();
        match seen {
            Seen::Restickified if rank > 1 => shape.swap(rank - 2, rank - 1),
            Seen::Shifted => shape.iter_mut().for_each(|extent| *extent += 3),
            Seen::Repeated if rank > 0 => shape[0] = shape[0].min(1),
            _ => {}
        }
        let storage = numbers(like.dtype, &shape, 5);
        let mut tensor = SpyreTensor::from_host(&self.stream, &host(&storage)?)?;
        match seen {
            Seen::Restickified if rank > 1 => tensor = tensor.transpose(rank - 2, rank - 1)?,
            Seen::Shifted => {
                for (dim, &extent) in like.shape.iter().enumerate() {
                    tensor = tensor.narrow(dim, 2, extent)?;
                }
            }
            Seen::Repeated if rank > 0 => {
                let mut strides = tensor.view().stride().to_vec();
                strides[0] = 0;
                tensor = tensor.as_strided(&like.shape, &strides, 0)?;
            }
            _ => {}
        }
        let mut array = like.clone();
        for (at, element) in array.elements.iter_mut().enumerate() {
            let mut rest = at;
            let mut place = tensor.view().offset();
            for (extent, stride) in like.shape.iter().zip(tensor.view().stride()).rev() {
                place += rest % extent * stride;
                rest /= extent;
            }
            *element = storage.elements[place];
        }
        Ok((tensor, array))
    }

    fn compare(
        &self,
        kernel: &Kernel,
        extents: &[usize],
        scalars: &[Constant],
        (tensors, mut arrays): (&[SpyreTensor], Vec<Array>),
        tolerance: Tolerance,
    ) -> Result<(), Failure> {
        kernel.interpret(extents, scalars, &mut arrays)?;
        for (tensor, array) in tensors.iter().zip(&arrays) {
            let host = tensor.to_host(&self.stream)?;
            self.stream.synchronize()?;
            let ours = floats(&host)?;
            let expected = array.floats();
            let tolerance = tolerance.of(array.dtype);
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

/// View by which a tensor sees its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Plain,
    /// Its last two dims are exchanged.
    Restickified,
    /// It is a part of a larger one.
    Shifted,
    /// Its first dim repeats one row.
    Repeated,
}

/// Difference that results may have from the interpreter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tolerance {
    /// A few units of the dtype's last place.
    OfDType,
    /// The error that sums of inexact numbers may have.
    OfSums,
    /// Not at all.
    None,
}

impl Tolerance {
    fn of(self, dtype: DType) -> f64 {
        match (self, dtype) {
            (Self::None, _) => 0.0,
            (Self::OfSums, DType::Float32) => 2e-5,
            (_, DType::Float16) => 1e-3,
            (_, DType::BFloat16) => 8e-3,
            (_, DType::Float64) => 1e-12,
            _ => 2e-6,
        }
    }
}
