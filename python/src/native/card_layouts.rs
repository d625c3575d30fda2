//! Layouts as a real card has them: what a kernel needs otherwise is restickified before its launch, and results
//! lie as the kernel leaves them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use spyre::aten::{KernelSource, Launch, OperandView};
use spyre::compiler::{
    CardNote, Kernel, Layouts, OperandId, Restickified, Restickify, Role, Stick,
};
use spyre::layout::{SpyreTensorLayout, TensorView, View, ViewStick};
use spyre::numerics::{DType, Profile};
use spyre::runtime::{
    MemoryView, SharedLayout, TensorMemory, copy_on_device, shared_custom_layout, shared_layout,
};

use super::cached_calls::view_at;
use super::{SpyreArgument, Tensors, reports};
use crate::abi::{SpyreView, bytes_of};
use crate::cards::{self, Card};
use crate::failure::Failure;
use crate::{recording, traffic};

/// Kernels, and how their tensors lie, that are kept as looked at.
const MOST_KEPT: usize = 4096;

/// The tensors of a call, and what was made for its launches.
pub(crate) struct CardLayouts<'a> {
    card: &'a Card,
    arguments: &'a [SpyreArgument<'a>],
    results: &'a [SpyreView<'a>],
    /// Operands that keep their layouts: memory of the caller's.
    fixed: SmallVec<[usize; 4]>,
    /// Tensors that were restickified for a launch.
    turned: Vec<Arc<TensorMemory>>,
    /// New memory of a launch's results, by address: it takes effect when the launch is queued.
    laid_out: SmallVec<[(u64, Arc<TensorMemory>); 1]>,
}

/// Layouts that a kernel derives from those of its operands.
struct Analysis {
    kernel: Arc<Kernel>,
    layouts: Layouts,
}

/// Sticks of each tensor, by its dims; `None` where the kernel decides.
type Given = SmallVec<[Option<Lies>; 4]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lies {
    Along(usize),
    Sparse,
}

type Kept<K, V> = LazyLock<Mutex<HashMap<K, V>>>;

static KERNELS: Kept<KernelSource, Option<Arc<Kernel>>> = LazyLock::new(Mutex::default);
static ANALYSES: Kept<(KernelSource, Given), Option<Arc<Analysis>>> = LazyLock::new(Mutex::default);
/// Kernels and extents whose size was looked at.
static MEASURED: Kept<(KernelSource, SmallVec<[usize; 12]>), ()> = LazyLock::new(Mutex::default);

impl<'a> CardLayouts<'a> {
    pub(crate) fn new(
        card: &'a Card,
        arguments: &'a [SpyreArgument<'a>],
        results: &'a [SpyreView<'a>],
    ) -> Self {
        let fixed = SmallVec::new();
        Self { card, arguments, results, fixed, turned: Vec::new(), laid_out: smallvec![] }
    }

    /// Has operands keep their layouts.
    pub(crate) fn with_fixed(mut self, operands: impl Iterator<Item = usize>) -> Self {
        self.fixed = operands.collect();
        self
    }

    /// Has a launch's tensors lie as a card needs them, and its results as they come out of it. Whether
    /// anything was done that has to be done again the next time.
    pub(crate) fn arrange(
        &mut self,
        launch: &Launch,
        tensors: &mut Tensors,
    ) -> Result<bool, Failure> {
        let Some(kernel) = kernel(&launch.kernel) else { return Ok(false) };
        let Some((apart, given)) = self.given(&kernel, launch, tensors) else { return Ok(false) };
        let Some(analysis) = analysis(&apart.kernel, &given) else { return Ok(false) };
        measure(&apart, &analysis.kernel);
        self.laid_out.clear(); // what a launch that was refused has left
        let mut is_changed = false;
        for turn in &analysis.layouts.restickify {
            is_changed |= self.turn(&analysis.kernel, *turn, &apart, launch, tensors)?;
        }
        for (at, view) in launch.operands.iter().enumerate().filter(|(at, _)| given[*at].is_none())
        {
            let lies = lies(&analysis.kernel, at, analysis.layouts.operands[at]);
            let Some((address, memory)) = self.lay_out(lies, &apart.operands[at])? else {
                continue;
            };
            let elements = View::new(&view.size, &view.stride, view.offset)?;
            tensors[at] = memory.tensor(elements, tensors[at].data_type())?;
            self.laid_out.push((address, memory));
            is_changed = true;
        }
        Ok(is_changed)
    }

    /// Has results be where the launch, which is queued, puts them.
    pub(crate) fn commit(&mut self) {
        for (address, new) in self.laid_out.drain(..) {
            let bytes = new.device_bytes();
            let host_bytes = new.host_bytes();
            if let Some(old) = self.card.memory.replace(address, new) {
                self.card.statistics.free(old.device_bytes(), old.host_bytes());
                self.card.statistics.allocate(bytes, host_bytes);
            }
        }
        self.turned.clear();
    }

    /// The launch, with dims apart that lie apart, and how each tensor lies.
    fn given(
        &self,
        kernel: &Kernel,
        launch: &Launch,
        tensors: &Tensors,
    ) -> Option<(Launch, Given)> {
        let mut apart = launch.clone();
        let mut given = Given::new();
        while given.len() < tensors.len() {
            let at = given.len();
            let operand = &apart.operands[at];
            if kernel.writes_all_of(OperandId(at as u32)) && self.is_free(at, launch, tensors) {
                given.push(None);
                continue;
            }
            let view = View::new(&operand.size, &operand.stride, 0).ok()?;
            match tensors[at].layout().view_stick(&view)? {
                ViewStick::Along(dim) => given.push(Some(Lies::Along(dim))),
                ViewStick::Sparse => given.push(Some(Lies::Sparse)),
                ViewStick::Inside { dim, run } => {
                    apart = apart.split(at, dim, run)?;
                    given.clear();
                }
            }
        }
        Some((apart, given))
    }

    /// Returns true if a tensor that is written wholly may have any layout: it is all of its storage, no
    /// layout was chosen for it, and the launch does not read it.
    fn is_free(&self, at: usize, launch: &Launch, tensors: &Tensors) -> bool {
        if self.fixed.contains(&at) {
            return false;
        }
        let operand = &launch.operands[at];
        let handle = tensors[at].device_handle();
        let is_alone =
            tensors.iter().filter(|tensor| tensor.device_handle() == handle).count() == 1;
        let Some(view) = self.view(operand).filter(|view| view.layout().is_null()) else {
            return false;
        };
        let Ok(tensor) = view.tensor() else { return false };
        let Ok((memory, 0)) = cards::memory_at(view.address()) else { return false };
        let usual = shared_layout(Profile::Card, tensor.size, tensor.stride, tensor.dtype);
        let bytes = operand.size.iter().product::<usize>() * bytes_of(tensor.dtype);
        let Ok(stream) = self.card.current_stream() else { return false };
        is_alone
            && memory.is_replaceable(stream)
            && tensor.offset == 0
            && memory.host_bytes() == bytes as u64
            && tensor.reach_bytes() == bytes
            && usual.is_ok_and(|usual| {
                usual.layout().stride_map() == memory.layout().layout().stride_map()
            })
    }

    fn view(&self, operand: &OperandView) -> Option<&'a SpyreView<'a>> {
        let view = view_at(operand.place, self.arguments, self.results);
        view.filter(|view| view.address() != 0)
    }

    /// Restickifies what a launch reads; the rest is done by the kernel, and reported.
    fn turn(
        &mut self,
        kernel: &Kernel,
        turn: Restickify,
        apart: &Launch,
        launch: &Launch,
        tensors: &mut Tensors,
    ) -> Result<bool, Failure> {
        let Restickified::Operand(OperandId(at)) = turn.what else {
            reports::note(kernel, &kernel.note_of(turn));
            return Ok(false);
        };
        let at = at as usize;
        let to = lies(kernel, at, turn.to);
        let view = &apart.operands[at];
        let to = match to {
            // It is the same all along there.
            Some(Lies::Along(dim)) if view.stride[dim] == 0 => Lies::Sparse,
            Some(to) => to,
            None => return Ok(false),
        };
        if to == Lies::Sparse && turn.from == Stick::Sparse {
            return Ok(false);
        }
        let note = kernel.note_of(turn);
        reports::note(kernel, &note);
        if kernel.operands()[at].role != Role::In {
            return Ok(false);
        }
        tracing::info!(target: "spyre.execution", "before a launch of {}: {note}", kernel.name());
        let Some(turned) = self.restickified(view, to)? else { return Ok(false) };
        let own = &launch.operands[at];
        let strides = rows(&own.size, &own.stride);
        let dtype = tensors[at].data_type();
        tensors[at] = turned.tensor(View::new(&own.size, &strides, 0)?, dtype)?;
        self.turned.push(turned);
        Ok(true)
    }

    /// A copy of what a launch reads, with other sticks; `None` if the card has no layout for it.
    fn restickified(
        &self,
        operand: &OperandView,
        to: Lies,
    ) -> Result<Option<Arc<TensorMemory>>, Failure> {
        let Some(view) = self.view(operand) else { return Ok(None) };
        let tensor = view.tensor()?;
        let (memory, inside) = cards::memory_at(view.address())?;
        let own = view.layout().shared();
        if own.as_ref().unwrap_or_else(|| memory.layout()).dtype() != tensor.dtype {
            return Ok(None);
        }
        // What is the same all along a dim is copied once.
        let is_own = |dim: &usize| operand.stride[*dim] != 0 && operand.size[*dim] != 1;
        let dims: SmallVec<[usize; 6]> = (0..operand.size.len()).filter(is_own).collect();
        let of = |numbers: &[usize]| dims.iter().map(|&dim| numbers[dim]).collect::<Vec<_>>();
        let size = of(&operand.size);
        let stride = of(&operand.stride);
        let to = match to {
            Lies::Along(dim) => dims.iter().position(|&own| own == dim).map(Lies::Along),
            Lies::Sparse => Some(Lies::Sparse),
        };
        let strides = rows(&size, &stride);
        let Some(layout) = to.and_then(|to| layout(&size, &strides, tensor.dtype, to)) else {
            return Ok(None);
        };
        let width = bytes_of(tensor.dtype);
        let bytes = size.iter().product::<usize>() * width;
        let stream = self.card.current_stream()?;
        let turned = Arc::new(TensorMemory::allocate(stream, layout, bytes as u64)?);
        let offset = tensor.offset + operand.offset + inside as usize / width;
        let elements =
            |stride, offset| TensorView { dtype: tensor.dtype, size: &size, stride, offset };
        let from = MemoryView {
            memory: &memory,
            layout: own.as_ref(),
            elements: elements(&stride, offset),
        };
        let target = MemoryView { memory: &turned, layout: None, elements: elements(&strides, 0) };
        traffic::RESTICKIFIES.note();
        let shown = || format!("restickify {}{size:?}", tensor.dtype);
        recording::noted(stream, false, shown, || Ok(copy_on_device(stream, &from, &target)?))?;
        Ok(Some(turned))
    }

    /// Memory for a result that lies as the kernel leaves it, and its address; `None` if it does so already.
    fn lay_out(
        &self,
        lies: Option<Lies>,
        operand: &OperandView,
    ) -> Result<Option<(u64, Arc<TensorMemory>)>, Failure> {
        let (Some(lies), Some(view)) = (lies, self.view(operand)) else { return Ok(None) };
        let tensor = view.tensor()?;
        if tensor.size.iter().all(|&size| size == 1) {
            return Ok(None);
        }
        let along = |dim: usize| {
            let mut dims = tensor.size.iter().zip(tensor.stride);
            dims.position(|(&size, &stride)| size > 1 && stride == operand.stride[dim])
        };
        let own = match lies {
            Lies::Along(dim) => along(dim).map(Lies::Along),
            Lies::Sparse => Some(Lies::Sparse),
        };
        let address = view.address();
        let (old, _) = cards::memory_at(address)?;
        let found = own.and_then(|own| layout(tensor.size, tensor.stride, tensor.dtype, own));
        let is_new =
            |new: &SharedLayout| new.layout().stride_map() != old.layout().layout().stride_map();
        let Some(layout) = found.filter(is_new) else { return Ok(None) };
        let stream = self.card.current_stream()?;
        let new = TensorMemory::allocate(stream, layout, old.host_bytes())?;
        Ok(Some((address, Arc::new(new))))
    }
}

/// The value that is kept by a key; it is made and kept if there is none.
fn kept<K: Clone + Eq + Hash, V: Clone>(all: &Kept<K, V>, key: &K, make: impl FnOnce() -> V) -> V {
    if let Some(known) = all.lock().get(key) {
        return known.clone();
    }
    let made = make();
    let mut all = all.lock();
    if all.len() >= MOST_KEPT {
        all.clear();
    }
    all.insert(key.clone(), made.clone());
    made
}

fn kernel(source: &KernelSource) -> Option<Arc<Kernel>> {
    kept(&KERNELS, source, || source.text().parse().ok().map(Arc::new))
}

/// Layouts that a kernel derives from `given`; `None` if they cannot be derived.
fn analysis(source: &KernelSource, given: &Given) -> Option<Arc<Analysis>> {
    kept(&ANALYSES, &(source.clone(), given.clone()), || {
        let kernel = kernel(source)?;
        let sticks = given.iter().enumerate().filter_map(|(at, lies)| {
            let stick = match (*lies)? {
                Lies::Along(dim) => Stick::Along(*kernel.operands()[at].dims.get(dim)?),
                Lies::Sparse => Stick::Sparse,
            };
            Some((OperandId(at as u32), stick))
        });
        let sticks: Vec<_> = sticks.collect();
        Some(Arc::new(Analysis { layouts: kernel.layouts(Profile::Card, &sticks), kernel }))
    })
}

/// Reports what a launch needs and a core does not have: more of its scratchpad, or of its address space.
fn measure(launch: &Launch, kernel: &Kernel) {
    let sizes = launch.operands.iter().flat_map(|operand| operand.size.iter().copied());
    let key = (launch.kernel.clone(), sizes.collect());
    kept(&MEASURED, &key, || report_size(launch, kernel));
}

fn report_size(launch: &Launch, kernel: &Kernel) {
    let mut extents: Vec<(&str, u64)> = Vec::new();
    for (operand, view) in kernel.operands().iter().zip(&launch.operands) {
        let names = operand.dims.iter().map(|&dim| kernel.dim_name(dim));
        extents.extend(names.zip(view.size.iter().map(|&size| size as u64)));
    }
    for note in kernel.card_report(&extents) {
        if matches!(note, CardNote::Scratchpad { .. } | CardNote::Span { .. }) {
            tracing::info!(target: "spyre.execution", "a launch of {}: {note}", kernel.name());
            reports::note(kernel, &note);
        }
    }
}

/// A stick by an operand's own dims; `None` if it has no such dim.
fn lies(kernel: &Kernel, operand: usize, stick: Stick) -> Option<Lies> {
    match stick {
        Stick::Along(dim) => {
            let mut dims = kernel.operands()[operand].dims.iter();
            dims.position(|&own| own == dim).map(Lies::Along)
        }
        _ => Some(Lies::Sparse),
    }
}

/// The layout of a shape with such sticks; `None` if the card has none.
fn layout(size: &[usize], stride: &[usize], dtype: DType, lies: Lies) -> Option<SharedLayout> {
    let format = Profile::Card.supported_format(dtype).ok()?;
    SpyreTensorLayout::check_rank(Profile::Card, size.len()).ok()?;
    let rank = size.len() as i64;
    let layout = match lies {
        Lies::Along(dim) => SpyreTensorLayout::with_stick_dims(size, stride, format, &[dim]),
        Lies::Sparse => {
            let order: Vec<i64> = (0..rank).chain([-1]).collect();
            SpyreTensorLayout::with_dim_order(size, stride, format, &order)
        }
    };
    shared_custom_layout(&Arc::new(layout.ok()?), size, stride, dtype).ok()
}

/// Strides of a copy that lies in rows; what is the same all along a dim stays so.
fn rows(size: &[usize], stride: &[usize]) -> SmallVec<[usize; 6]> {
    let mut step = 1;
    let mut strides: SmallVec<[usize; 6]> = smallvec![0; size.len()];
    for dim in (0..size.len()).rev() {
        if stride[dim] != 0 && size[dim] != 1 {
            strides[dim] = step;
            step *= size[dim];
        }
    }
    strides
}
