//! Launches of compiled graphs: one call makes the results, sees buffers as the kernel does, and queues it.
#![allow(unsafe_code, reason = "functions of the shim")]

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyTuple};
use smallvec::SmallVec;
use spyre::aten::{KernelSource, Launch, OperandView, ResultShape, TensorRef};
use spyre::layout::{SpyreTensorLayout, TensorView};
use spyre::numerics::{DType, Profile};
use spyre::runtime::SharedLayout;

use super::{CompiledKernel, Origin, PreparedPlan, kept};
use crate::abi::{NewMemory, SpyreResult, SpyreView, for_tensor, with_stick_dims};
use crate::cards;
use crate::failure::{Failure, SpyreStatus};
use crate::layouts::{self, TorchDType};
use crate::native::NewTensors;

#[allow(improper_ctypes, reason = "the shim does not look into layouts")]
unsafe extern "C" {
    fn spyre_graph_view(
        object: *mut pyo3::ffi::PyObject,
        is_written: bool,
        view: *mut SpyreView<'static>,
        device: *mut i32,
    ) -> *const c_char;
    fn spyre_graph_result(device: i32, result: *const SpyreResult) -> *mut pyo3::ffi::PyObject;
    fn spyre_graph_begin(name: *const c_char) -> *mut c_void;
    fn spyre_graph_end(record: *mut c_void);
}

type Sizes = SmallVec<[usize; 6]>;

/// A launch of a kernel in a compiled graph: a function of buffers, which gives those that it makes.
#[pyclass(frozen, module = "torch_spyre._C")]
#[derive(Debug)]
pub(crate) struct GraphLaunch {
    kernel: Py<CompiledKernel>,
    /// The kernel's text, by which its layouts are found.
    source: KernelSource,
    device: i32,
    /// The kernel's name as profilers show it.
    title: CString,
    /// The kernel's name as errors have it.
    name: &'static CStr,
    /// True for the buffers that are written, in the order in which they are given.
    written: Vec<bool>,
    /// Sizes that are given at each call.
    number_count: usize,
    scalar_count: usize,
    tensors: Tensors<i64>,
    /// Those tensors if no size is given at the call.
    known: Option<Tensors<usize>>,
}

/// Tensors of a launch. A negative number `-1 - k` stands for the `k`th that is given at the call.
#[derive(Clone, Debug)]
struct Tensors<N> {
    results: Vec<ResultTensor<N>>,
    operands: Vec<BufferView<N>>,
}

/// A tensor that a launch makes.
#[derive(Clone, Debug)]
struct ResultTensor<N> {
    dtype: DType,
    size: Vec<N>,
    stride: Vec<N>,
    /// The layout that the graph chose for it, and not the default one.
    chosen: Option<ChosenLayout>,
}

/// A layout that a graph chose.
#[derive(Clone, Debug)]
enum ChosenLayout {
    /// These dims are padded to whole sticks.
    Sticks(Vec<i64>),
    /// A layout for tensors of one shape.
    Whole(Arc<SpyreTensorLayout>),
    /// The layout of a tensor whose sizes are known.
    Known(SharedLayout),
}

/// A view of a buffer. Places below the number of buffers that are given are theirs, the others the results'.
#[derive(Clone, Debug)]
struct BufferView<N> {
    place: usize,
    size: Vec<N>,
    stride: Vec<N>,
    offset: N,
}

/// A buffer that is given to launches.
#[derive(Clone, Debug)]
pub(super) struct GraphBuffer {
    address: u64,
    offset: usize,
    dtype: DType,
    layout: Option<SharedLayout>,
}

/// A launch that profilers see until it is dropped.
struct ProfiledLaunch(*mut c_void);

impl ProfiledLaunch {
    fn begin(title: &CStr) -> Self {
        // SAFETY: the title ends with a zero byte, and the record is ended once, when it is dropped.
        Self(unsafe { spyre_graph_begin(title.as_ptr()) })
    }
}

impl Drop for ProfiledLaunch {
    fn drop(&mut self) {
        // SAFETY: it is what `begin` was given, or null.
        unsafe { spyre_graph_end(self.0) };
    }
}

/// A result, as Python describes it: its dtype, size and stride, and the layout that was chosen for it.
#[derive(FromPyObject)]
enum ResultGiven {
    Plain((TorchDType, Vec<i64>, Vec<i64>)),
    Sticks((TorchDType, Vec<i64>, Vec<i64>, Vec<i64>)),
    Whole((TorchDType, Vec<i64>, Vec<i64>, Py<layouts::SpyreTensorLayout>)),
}

/// An operand, as Python describes it: the place of its buffer, size, stride and offset.
type OperandGiven = (usize, Vec<i64>, Vec<i64>, i64);

#[pymethods]
impl GraphLaunch {
    /// A launch on a device, of so many buffers, sizes and scalars.
    #[new]
    fn new(
        kernel: Py<CompiledKernel>,
        device: i32,
        counts: (usize, usize, usize),
        results: Vec<ResultGiven>,
        operands: Vec<OperandGiven>,
    ) -> Result<Self, Failure> {
        let (buffer_count, number_count, scalar_count) = counts;
        let refused = |why: String| Failure::new(SpyreStatus::Value, why);
        let is_written = kernel.get().written();
        if is_written.len() != operands.len() || kernel.get().scalar_count() != scalar_count {
            return Err(refused(format!(
                "the kernel has {} tensors and {} scalars, not {} and {scalar_count}",
                is_written.len(),
                kernel.get().scalar_count(),
                operands.len()
            )));
        }
        if buffer_count > operands.len() {
            let operands = operands.len();
            return Err(refused(format!(
                "there are {operands} operands, and {buffer_count} buffers"
            )));
        }
        let mut written = vec![false; buffer_count];
        for ((place, ..), is_written) in operands.iter().zip(is_written) {
            if *place >= buffer_count + results.len() {
                return Err(refused(format!("there is no buffer {place}")));
            }
            if let Some(buffer) = written.get_mut(*place) {
                *buffer |= is_written;
            }
        }
        let result = |given| {
            let ((dtype, size, stride), chosen) = match given {
                ResultGiven::Plain(plain) => (plain, None),
                ResultGiven::Sticks((dtype, size, stride, dims)) => {
                    ((dtype, size, stride), Some(ChosenLayout::Sticks(dims)))
                }
                ResultGiven::Whole((dtype, size, stride, layout)) => {
                    ((dtype, size, stride), Some(ChosenLayout::Whole(layout.get().shared())))
                }
            };
            match dtype {
                TorchDType::Known(dtype) => Ok(ResultTensor { dtype, size, stride, chosen }),
                TorchDType::Other(name) => Err(refused(format!("there are no tensors of {name}"))),
            }
        };
        let operand = |(place, size, stride, offset)| BufferView { place, size, stride, offset };
        let tensors = Tensors {
            results: results.into_iter().map(result).collect::<Result<_, _>>()?,
            operands: operands.into_iter().map(operand).collect(),
        };
        let known = (number_count == 0).then(|| tensors.with(&[])).transpose()?;
        let source = KernelSource::Text(kernel.get().text().into());
        let text = kernel.get().kernel_name();
        let name = CString::new(text).unwrap_or_default();
        let title = CString::new(format!("launch_kernel:{text}")).unwrap_or_default();
        let name = kept(&name);
        Ok(Self {
            kernel,
            source,
            device,
            title,
            name,
            written,
            number_count,
            scalar_count,
            tensors,
            known,
        })
    }

    /// Queues it: buffers come first, then sizes, then scalars.
    #[pyo3(signature = (*arguments))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        cards::check_process()?;
        let buffers = self.written.len();
        let expected = buffers + self.number_count + self.scalar_count;
        if arguments.len() != expected {
            let name = self.name.to_string_lossy();
            let given = arguments.len();
            let why = format!("{name} takes {expected} arguments, and {given} are given");
            return Err(PyTypeError::new_err(why));
        }
        let given: SmallVec<[GraphBuffer; 8]> = (0..buffers)
            .map(|at| self.buffer(&*arguments.get_borrowed_item(at)?, at, self.written[at]))
            .collect::<PyResult<_>>()?;
        let values = |at: usize| arguments.get_item(buffers + at);
        let places = 0..self.number_count + self.scalar_count;
        let made = self.launch_with(py, &given, places.map(values))?;
        self.give(py, made.shapes.iter().zip(made.memories))
    }

    fn __repr__(&self) -> String {
        format!("<GraphLaunch {} on spyre:{}>", self.name.to_string_lossy(), self.device)
    }
}

impl GraphLaunch {
    /// The buffer that is given as an argument, as kernels see it.
    pub(super) fn buffer(
        &self,
        object: &Bound<'_, PyAny>,
        argument: usize,
        is_written: bool,
    ) -> PyResult<GraphBuffer> {
        let mut view = MaybeUninit::uninit();
        let mut device = 0;
        // SAFETY: the object is one of Python's, whose lock is held; there is room for what the call fills in.
        let refused = unsafe {
            spyre_graph_view(object.as_ptr(), is_written, view.as_mut_ptr(), &mut device)
        };
        if !refused.is_null() {
            // SAFETY: it is a text of the shim's own, which is never freed.
            let why = unsafe { CStr::from_ptr(refused) }.to_string_lossy();
            let name = self.name.to_string_lossy();
            return Err(PyTypeError::new_err(format!("{name}: argument {argument} {why}")));
        }
        if device != self.device {
            return Err(Failure::runtime(format!(
                "{}: argument {argument} is on spyre:{device}, and the graph was compiled for spyre:{}",
                self.name.to_string_lossy(),
                self.device
            ))
            .into());
        }
        // SAFETY: the call has filled it in, and the caller holds the tensor that it points into.
        let view = unsafe { view.assume_init() };
        let tensor = view.tensor()?;
        Ok(GraphBuffer {
            address: view.address(),
            offset: tensor.offset,
            dtype: tensor.dtype,
            layout: view.layout().shared(),
        })
    }

    /// Makes the results and queues the kernel, with sizes and then scalars as values.
    pub(super) fn launch_with<'py>(
        &self,
        py: Python<'py>,
        given: &[GraphBuffer],
        values: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    ) -> PyResult<NewTensors> {
        let mut values = values;
        let numbers: SmallVec<[i64; 4]> = values
            .by_ref()
            .take(self.number_count)
            .map(|value| value?.extract())
            .collect::<PyResult<_>>()?;
        let scalars: SmallVec<[u64; 4]> =
            values.map(|value| scalar(&value?)).collect::<PyResult<_>>()?;
        let shown = ProfiledLaunch::begin(&self.title);
        let made = py.detach(|| self.launch(given, &numbers, &scalars));
        drop(shown);
        Ok(made?)
    }

    /// Numbers of buffers, of values (sizes and scalars), and of results.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let values = self.number_count + self.scalar_count;
        (self.written.len(), values, self.tensors.results.len())
    }

    /// Returns true if it writes to that buffer.
    pub(super) fn writes(&self, buffer: usize) -> bool {
        self.written[buffer]
    }

    pub(super) fn device(&self) -> i32 {
        self.device
    }

    fn launch(
        &self,
        given: &[GraphBuffer],
        numbers: &[i64],
        scalars: &[u64],
    ) -> Result<NewTensors, Failure> {
        let tensors = match &self.known {
            Some(tensors) => Cow::Borrowed(tensors),
            None => Cow::Owned(self.tensors.with(numbers)?),
        };
        let card = cards::card(self.device)?;
        let made = NewTensors::allocate_with(card, tensors.shapes(), |at| tensors.layout(at))?;
        let mut views = SmallVec::<[SpyreView<'_>; 8]>::new();
        for operand in &tensors.operands {
            let (address, offset, dtype, layout) = match operand.place.checked_sub(given.len()) {
                Some(at) => (made.memories[at].address(), 0, made.shapes[at].dtype, None),
                None => {
                    let buffer = &given[operand.place];
                    (buffer.address, buffer.offset, buffer.dtype, buffer.layout.as_ref())
                }
            };
            let size = &operand.size[..];
            let stride = &operand.stride[..];
            let offset = offset.saturating_add(operand.offset);
            let seen = TensorView { dtype, size, stride, offset };
            views.push(SpyreView::of(&seen, address).with_layout(layout));
        }
        let plan = self.kernel.get().on(self.device)?;
        match card.device.profile() {
            Profile::Open => plan.launch(&views, scalars, self.origin())?,
            Profile::Card => self.launch_laid_out(&plan, &tensors, &views, &made, scalars)?,
        }
        drop(views);
        Ok(made)
    }

    fn origin(&self) -> Origin {
        Origin::Graph(self.kernel.get().checks())
    }

    /// Queues it in the layouts of a real card: those of operators in eager mode.
    fn launch_laid_out(
        &self,
        plan: &PreparedPlan,
        tensors: &Tensors<usize>,
        views: &[SpyreView<'_>],
        made: &NewTensors,
        scalars: &[u64],
    ) -> Result<(), Failure> {
        let mut wholes = SmallVec::<[SpyreView<'_>; 8]>::from_slice(views);
        let mut operands = SmallVec::new();
        let mut fixed = SmallVec::<[bool; 8]>::new();
        for (at, operand) in tensors.operands.iter().enumerate() {
            let result = operand.place.checked_sub(self.written.len());
            if let Some(result) = result {
                wholes[at] = made.view(result);
            }
            fixed.push(result.is_none_or(|result| tensors.layout(result).is_some()));
            operands.push(OperandView {
                place: TensorRef::Result(at),
                size: Sizes::from_slice(&operand.size),
                stride: Sizes::from_slice(&operand.stride),
                offset: if result.is_some() { operand.offset } else { 0 },
            });
        }
        let launch = Launch {
            kernel: self.source.clone(),
            operands,
            scalars: SmallVec::from_slice(scalars),
        };
        plan.launch_laid_out(&launch, views, (&wholes, &fixed), self.origin())
    }

    /// Results as Python has them: nothing, one, or several.
    pub(super) fn give<'py, 'a>(
        &self,
        py: Python<'py>,
        made: impl ExactSizeIterator<Item = (&'a ResultShape, NewMemory)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let wrapped = |(shape, memory)| {
            let result = SpyreResult::of(shape, memory);
            // SAFETY: Python's lock is held, and the result is the shim's from now on.
            unsafe { Bound::from_owned_ptr_or_err(py, spyre_graph_result(self.device, &result)) }
        };
        let mut all = made.map(wrapped);
        match all.len() {
            0 => Ok(py.None().into_bound(py)),
            1 => all.next().expect("it has one"),
            _ => Ok(PyTuple::new(py, all.collect::<PyResult<Vec<_>>>()?)?.into_any()),
        }
    }
}

impl GraphBuffer {
    /// A tensor that a launch has made.
    pub(super) fn of(shape: &ResultShape, memory: &NewMemory) -> Self {
        Self { address: memory.address(), offset: 0, dtype: shape.dtype, layout: None }
    }
}

impl ChosenLayout {
    /// The layout for a tensor of known sizes.
    fn of(&self, tensor: &TensorView<'_>) -> Result<Self, Failure> {
        Ok(Self::Known(match self {
            Self::Sticks(dims) => with_stick_dims(tensor, dims)?,
            Self::Whole(layout) => for_tensor(layout, tensor)?,
            Self::Known(layout) => Arc::clone(layout),
        }))
    }
}

impl Tensors<i64> {
    /// The tensors with the numbers of a call.
    fn with(&self, numbers: &[i64]) -> Result<Tensors<usize>, Failure> {
        let number = |&spelled: &i64| {
            let found = if spelled < 0 { numbers.get(!spelled as usize) } else { Some(&spelled) };
            found.and_then(|&number| usize::try_from(number).ok()).ok_or_else(|| {
                let why = format!("a size, a stride or an offset is {found:?}");
                Failure::new(SpyreStatus::Value, why)
            })
        };
        let all = |numbers: &[i64]| numbers.iter().map(number).collect::<Result<Vec<_>, _>>();
        let results = self.results.iter();
        let operands = self.operands.iter();
        Ok(Tensors {
            results: results
                .map(|of| {
                    let size = all(&of.size)?;
                    let stride = all(&of.stride)?;
                    let tensor =
                        TensorView { dtype: of.dtype, size: &size, stride: &stride, offset: 0 };
                    let chosen = of.chosen.as_ref().map(|chosen| chosen.of(&tensor)).transpose()?;
                    Ok(ResultTensor { dtype: of.dtype, size, stride, chosen })
                })
                .collect::<Result<_, Failure>>()?,
            operands: operands
                .map(|of| {
                    let size = all(&of.size)?;
                    let stride = all(&of.stride)?;
                    Ok(BufferView { place: of.place, size, stride, offset: number(&of.offset)? })
                })
                .collect::<Result<_, Failure>>()?,
        })
    }
}

impl Tensors<usize> {
    fn shapes(&self) -> SmallVec<[ResultShape; 1]> {
        let shape = |of: &ResultTensor<usize>| ResultShape {
            dtype: of.dtype,
            size: Sizes::from_slice(&of.size),
            stride: Sizes::from_slice(&of.stride),
        };
        self.results.iter().map(shape).collect()
    }

    /// The layout that was chosen for a result, if one was.
    fn layout(&self, result: usize) -> Option<SharedLayout> {
        match self.results[result].chosen.as_ref()? {
            ChosenLayout::Known(layout) => Some(Arc::clone(layout)),
            _ => None,
        }
    }
}

/// A scalar's 64 bits: those of an integer, or of a double.
fn scalar(number: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(number) = number.cast::<PyFloat>() {
        return Ok(number.value().to_bits());
    }
    Ok(number.extract::<i64>()?.cast_unsigned())
}
