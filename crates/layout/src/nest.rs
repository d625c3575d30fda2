pub(crate) mod join;
pub(crate) mod plan;
pub(crate) mod split;

use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;
use spyre_numerics::{Converter, DataFormat, STICK_BYTES};

use crate::digits::Digits;
use crate::{Error, SpyreTensorLayout, View};
use join::Joined;
use plan::Plan;
use split::Piece;

/// One end of a copy: a view of host memory, or of a device storage in its layout.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'a> {
    view: &'a View,
    place: Place<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Host(DataFormat),
    Device(&'a SpyreTensorLayout),
}

/// One loop of a nest; strides are in elements of each end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaLoop {
    /// How often it runs.
    pub range: usize,
    /// Elements between neighbours at the source.
    pub source_stride: usize,
    /// Elements between neighbours at the target.
    pub target_stride: usize,
}

/// A loop nest over one box of elements: the three tuples of the stick layout proposal.
#[derive(Clone, Debug)]
pub struct DmaBox {
    loops: SmallVec<[DmaLoop; 6]>,
    source_offset: usize,
    target_offset: usize,
    plan: Plan,
    joined: Option<Joined>,
}

/// How a view gets from one memory to another: loop ranges and strides of a few boxes.
///
/// One box holds what tiles evenly; every dimension that ends, or starts, inside a stick adds
/// boxes for the remainders. A view that would need too many boxes is walked by index instead.
/// Elements are converted on the way if the two formats differ.
///
/// ```
/// use spyre_layout::{DmaNest, Endpoint, SpyreTensorLayout, View};
/// use spyre_numerics::DataFormat::IeeeFp16;
///
/// let view = View::contiguous(&[512, 240])?; // 3 sticks of 64 and 48 elements more
/// let layout = SpyreTensorLayout::contiguous(&[512, 240], IeeeFp16)?;
/// let nest = DmaNest::derive(Endpoint::host(&view, IeeeFp16), Endpoint::device(&view, &layout))?;
/// assert_eq!(
///     nest.to_string(),
///     "(3, 512, 64), (64, 240, 1), (32768, 64, 1); +192 +98304 (512, 48), (240, 1), (64, 1)"
/// );
/// # Ok::<(), spyre_layout::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DmaNest {
    boxes: Vec<DmaBox>,
    /// The boxes as they are run, where two of them are better run as one.
    joined: Option<Vec<DmaBox>>,
    walk: Option<Box<Walk>>,
    converter: Converter,
    source_bytes: usize,
    target_bytes: usize,
    source_reach: usize,
    target_reach: usize,
    elements: usize,
    is_disjoint: bool,
    only_run: Option<OnlyRun>,
}

/// One run of neighbouring elements at both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnlyRun {
    source: usize,
    target: usize,
    elements: usize,
}

impl OnlyRun {
    /// Longer ones are worth a plan.
    const MAX_ELEMENTS: usize = 4096;

    pub(crate) fn source(self, bytes: usize) -> Range<usize> {
        self.source * bytes..(self.source + self.elements) * bytes
    }

    pub(crate) fn target(self, bytes: usize) -> Range<usize> {
        self.target * bytes..(self.target + self.elements) * bytes
    }
}

/// Below this, two passes over the sticks are as good as one.
const JOIN_ELEMENTS: usize = 1 << 16;

/// A copy by index: both ends are looked up run by run.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    pub(crate) piece: Piece,
    pub(crate) source: Option<Digits>,
    pub(crate) target: Option<Digits>,
}

impl<'a> Endpoint<'a> {
    /// Host memory with elements of `format`; offsets count from the start of the buffer.
    pub fn host(view: &'a View, format: DataFormat) -> Self {
        Self { view, place: Place::Host(format) }
    }

    /// A device storage.
    pub fn device(view: &'a View, layout: &'a SpyreTensorLayout) -> Self {
        Self { view, place: Place::Device(layout) }
    }

    fn format(&self) -> DataFormat {
        match self.place {
            Place::Host(format) => format,
            Place::Device(layout) => layout.device_dtype(),
        }
    }

    fn layout(&self) -> Option<&'a SpyreTensorLayout> {
        match self.place {
            Place::Host(_) => None,
            Place::Device(layout) => Some(layout),
        }
    }

    /// Elements that a walk may touch.
    fn reach(&self) -> usize {
        match self.place {
            Place::Host(_) => self.view.last_element().map_or(0, |last| last + 1),
            Place::Device(layout) => layout.device_elements(),
        }
    }

    fn check(&self) -> Result<(), Error> {
        let elements = self.layout().and_then(SpyreTensorLayout::storage_elements);
        match (self.view.last_element(), elements) {
            (Some(last), Some(elements)) if last >= elements => {
                Err(Error::ViewOutside { last, elements })
            }
            _ => Ok(()),
        }
    }
}

impl DmaNest {
    /// The nest that copies `source` to `target`, element by element in the order of their views.
    pub fn derive(source: Endpoint<'_>, target: Endpoint<'_>) -> Result<Self, Error> {
        if source.view.size() != target.view.size() {
            return Err(Error::SizeMismatch {
                source_size: source.view.size().to_vec(),
                target_size: target.view.size().to_vec(),
            });
        }
        source.check()?;
        target.check()?;
        check_target(target.view)?;
        let mut nest = Self::empty(source, target)?;
        if nest.elements > 0 {
            nest.fill(source, target)?;
        }
        Ok(nest)
    }

    /// The boxes of elements; none if the nest is empty or walks by index.
    pub fn boxes(&self) -> &[DmaBox] {
        &self.boxes
    }

    /// Whether the view had to be walked by index.
    pub fn is_walk(&self) -> bool {
        self.walk.is_some()
    }

    /// How many elements it carries.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The format of the source's elements.
    pub fn source_format(&self) -> DataFormat {
        self.converter.from()
    }

    /// The format of the target's elements.
    pub fn target_format(&self) -> DataFormat {
        self.converter.to()
    }

    /// Bytes of the source buffer that it reaches.
    pub fn source_reach_bytes(&self) -> usize {
        self.source_reach * self.source_bytes
    }

    /// Bytes of the target buffer that it reaches.
    pub fn target_reach_bytes(&self) -> usize {
        self.target_reach * self.target_bytes
    }

    pub(crate) fn source_bytes(&self) -> usize {
        self.source_bytes
    }

    pub(crate) fn target_bytes(&self) -> usize {
        self.target_bytes
    }

    /// The run that is all of the nest, if it is one.
    #[inline]
    pub(crate) fn only_run(&self) -> Option<OnlyRun> {
        self.only_run
    }

    /// The boxes as they are to be run.
    pub(crate) fn work(&self) -> &[DmaBox] {
        self.joined.as_deref().unwrap_or(&self.boxes)
    }

    pub(crate) fn walk(&self) -> Option<&Walk> {
        self.walk.as_deref()
    }

    pub(crate) fn converter(&self) -> &Converter {
        &self.converter
    }

    /// Whether no two elements share a place at the target, so that threads may write at once.
    pub(crate) fn is_disjoint(&self) -> bool {
        self.is_disjoint
    }

    fn empty(source: Endpoint<'_>, target: Endpoint<'_>) -> Result<Self, Error> {
        let converter = Converter::new(source.format(), target.format())?;
        let width = |format: DataFormat| format.element_bytes().unwrap_or(0);
        Ok(Self {
            boxes: Vec::new(),
            joined: None,
            walk: None,
            converter,
            source_bytes: width(source.format()),
            target_bytes: width(target.format()),
            source_reach: 0,
            target_reach: 0,
            elements: source.view.elements(),
            is_disjoint: true,
            only_run: None,
        })
    }

    fn fill(&mut self, source: Endpoint<'_>, target: Endpoint<'_>) -> Result<(), Error> {
        let layouts = [source.layout(), target.layout()];
        let views = [source.view, target.view];
        let Some(mut pieces) = split::resolve(views, layouts)? else {
            self.source_reach = source.reach();
            self.target_reach = target.reach();
            self.is_disjoint = false;
            let digits = |layout: Option<&SpyreTensorLayout>| layout.map(|l| l.digits().clone());
            let piece = Piece::between(source.view, target.view);
            let walk = Walk { piece, source: digits(layouts[0]), target: digits(layouts[1]) };
            self.walk = Some(Box::new(walk));
            return Ok(());
        };
        let device = usize::from(target.layout().is_some());
        self.boxes.reserve_exact(pieces.len());
        for piece in &mut pieces {
            self.push(piece, device, target.layout());
        }
        if let [only] = &self.boxes[..] {
            self.only_run = only.as_run();
        } else if self.converter.is_copy() && self.elements >= JOIN_ELEMENTS {
            self.joined = join::join(&self.boxes, STICK_BYTES / self.target_bytes);
        }
        Ok(())
    }

    fn push(&mut self, piece: &mut Piece, device: usize, target: Option<&SpyreTensorLayout>) {
        let [source_offset, target_offset] = piece.offsets();
        let mut loops = piece.loops(device);
        let replicas = target.map_or(&[][..], |layout| layout.digits().replicas());
        let copies = replicas.iter().map(|replica| DmaLoop {
            range: replica.extent,
            source_stride: 0,
            target_stride: replica.stride,
        });
        if !replicas.is_empty() {
            loops.extend(copies);
            loops.sort_by_key(|l| std::cmp::Reverse(l.target_stride));
        }
        self.is_disjoint &= is_disjoint(&loops);
        let plan = Plan::new(&loops);
        let dma_box = DmaBox { loops, source_offset, target_offset, plan, joined: None };
        self.source_reach =
            self.source_reach.max(dma_box.reach(|l| l.source_stride, source_offset));
        self.target_reach =
            self.target_reach.max(dma_box.reach(|l| l.target_stride, target_offset));
        self.boxes.push(dma_box);
    }
}

/// Whether the target of each loop lies past everything that the loops inside it touch.
fn is_disjoint(loops: &[DmaLoop]) -> bool {
    let mut sorted: SmallVec<[(usize, usize); 6]> =
        loops.iter().map(|l| (l.target_stride, l.range)).collect();
    sorted.sort_unstable();
    let mut reach = 0;
    sorted.iter().all(|&(stride, range)| {
        let is_past = stride > reach;
        reach += stride * (range - 1);
        is_past
    })
}

fn check_target(view: &View) -> Result<(), Error> {
    let dims = view.size().iter().zip(view.stride());
    match dims.into_iter().position(|(&size, &stride)| size > 1 && stride == 0) {
        Some(dim) if view.elements() > 0 => Err(Error::TargetRepeats { dim }),
        _ => Ok(()),
    }
}

impl DmaBox {
    /// Its loops, outermost first.
    pub fn loops(&self) -> &[DmaLoop] {
        &self.loops
    }

    /// How often each loop runs: the first tuple.
    pub fn ranges(&self) -> Vec<usize> {
        self.loops.iter().map(|l| l.range).collect()
    }

    /// The source's stride of each loop, in elements.
    pub fn source_strides(&self) -> Vec<usize> {
        self.loops.iter().map(|l| l.source_stride).collect()
    }

    /// The target's stride of each loop, in elements.
    pub fn target_strides(&self) -> Vec<usize> {
        self.loops.iter().map(|l| l.target_stride).collect()
    }

    /// Elements before the box at the source.
    pub fn source_offset(&self) -> usize {
        self.source_offset
    }

    /// Elements before the box at the target.
    pub fn target_offset(&self) -> usize {
        self.target_offset
    }

    /// Elements in the box.
    pub fn elements(&self) -> usize {
        let runs: usize = self.loops.iter().map(|l| l.range).product();
        let lane = self.loops.iter().find(|l| l.target_stride == 1).map_or(1, |l| l.range);
        runs + self.joined.map_or(0, |joined| runs / lane * joined.elements)
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The box as a single short run, if it is one.
    fn as_run(&self) -> Option<OnlyRun> {
        let elements = match self.loops[..] {
            [] => 1,
            [DmaLoop { range, source_stride: 1, target_stride: 1 }] => range,
            _ => return None,
        };
        let (source, target) = (self.source_offset, self.target_offset);
        (elements <= OnlyRun::MAX_ELEMENTS).then_some(OnlyRun { source, target, elements })
    }

    /// The part of the box that is carried as one of `parts`: some steps of the loop that has the
    /// most of them to share out.
    pub(crate) fn part(&self, part: usize, parts: usize) -> Option<Self> {
        let is_whole = |l: &DmaLoop| self.joined.is_none() || l.target_stride > 1;
        let loops = self.loops.iter().enumerate().filter(|(_, l)| is_whole(l));
        let graded = loops.map(|(at, l)| (at, l.range, self.plan.grain(at)));
        let Some((at, range, grain)) =
            graded.max_by_key(|(_, range, grain)| range.div_ceil(*grain))
        else {
            return (part == 0).then(|| self.clone());
        };
        let share = range.div_ceil(grain).div_ceil(parts) * grain;
        let start = (part * share).min(range);
        let range = share.min(range - start);
        (range > 0).then(|| self.sliced(at, start, range))
    }

    /// The box with only some steps of one loop.
    fn sliced(&self, at: usize, start: usize, range: usize) -> Self {
        let mut sliced = self.clone();
        if let Some(l) = sliced.loops.get_mut(at) {
            l.range = range;
            sliced.source_offset += start * l.source_stride;
            sliced.target_offset += start * l.target_stride;
            if let Some(joined) = &mut sliced.joined {
                joined.source_offset += start * l.source_stride;
            }
        }
        sliced
    }

    /// What continues each of its runs, if it is two boxes.
    pub(crate) fn joined(&self) -> Option<Joined> {
        self.joined
    }

    fn reach(&self, stride: impl Fn(&DmaLoop) -> usize, offset: usize) -> usize {
        self.loops.iter().map(|l| (l.range - 1) * stride(l)).sum::<usize>() + offset + 1
    }
}

impl fmt::Display for DmaNest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_walk() {
            return write!(f, "{} elements by index", self.elements);
        }
        for (at, dma_box) in self.boxes.iter().enumerate() {
            write!(f, "{}{dma_box}", if at > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for DmaBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tuple = |values: Vec<usize>| {
            let numbers: Vec<String> = values.iter().map(usize::to_string).collect();
            format!("({})", numbers.join(", "))
        };
        if self.source_offset > 0 || self.target_offset > 0 {
            write!(f, "+{} +{} ", self.source_offset, self.target_offset)?;
        }
        let (source, target) = (self.source_strides(), self.target_strides());
        write!(f, "{}, {}, {}", tuple(self.ranges()), tuple(source), tuple(target))
    }
}
