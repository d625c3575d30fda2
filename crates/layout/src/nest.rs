mod dma_box;
mod endpoint;
pub(crate) mod join;
pub(crate) mod plan;
pub(crate) mod split;

use std::fmt;

use spyre_numerics::{Converter, DataFormat, Overflow, STICK_BYTES, Specials};

use crate::digits::Digits;
use crate::{Error, SpyreTensorLayout, View};
use dma_box::OnlyRun;
pub use dma_box::{DmaBox, DmaLoop};
pub use endpoint::Endpoint;
use split::Piece;

/// Copy of a view from one memory to another: loop ranges and strides of a few boxes.
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
    fills_target: bool,
    only_run: Option<OnlyRun>,
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

    /// Returns the nest with another rule for numbers that are too large for the target's format.
    #[must_use]
    pub fn with_overflow(self, overflow: Overflow) -> Self {
        Self { converter: self.converter.with_overflow(overflow), ..self }
    }

    /// The boxes of elements; none if the nest is empty or walks by index.
    pub fn boxes(&self) -> &[DmaBox] {
        &self.boxes
    }

    /// Returns true if the view had to be walked by index.
    pub fn is_walk(&self) -> bool {
        self.walk.is_some()
    }

    /// Returns true if it writes every element that the target's storage has a place for, on a
    /// device.
    #[inline]
    pub fn fills_target(&self) -> bool {
        self.fills_target
    }

    /// Number of elements it carries.
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

    /// Returns true if no two elements share a place at the target, so that threads may write at
    /// once.
    pub(crate) fn is_disjoint(&self) -> bool {
        self.is_disjoint
    }

    fn empty(source: Endpoint<'_>, target: Endpoint<'_>) -> Result<Self, Error> {
        let specials = if source.is_host() { Specials::Arriving } else { Specials::Ordered };
        let converter = Converter::new(source.format(), target.format())?.with_specials(specials);
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
            is_disjoint: target.view.is_disjoint(),
            fills_target: target.layout().is_some_and(|layout| layout.is_filled_by(target.view)),
            only_run: None,
        })
    }

    fn fill(&mut self, source: Endpoint<'_>, target: Endpoint<'_>) -> Result<(), Error> {
        let layouts = [source.layout(), target.layout()];
        let views = [source.view, target.view];
        let Some(mut pieces) = split::resolve(views, layouts)? else {
            self.source_reach = source.reach();
            self.target_reach = target.reach();
            let digits = |layout: Option<&SpyreTensorLayout>| layout.map(|l| l.digits().clone());
            let mut piece = Piece::between(source.view, target.view);
            // Runs are longest along the smallest steps on the device.
            let device = usize::from(target.layout().is_some());
            piece.axes.sort_by_key(|axis| std::cmp::Reverse(axis.ends[device].rest));
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
        let dma_box = DmaBox::new(loops, source_offset, target_offset);
        self.source_reach =
            self.source_reach.max(dma_box.reach(|l| l.source_stride, source_offset));
        self.target_reach =
            self.target_reach.max(dma_box.reach(|l| l.target_stride, target_offset));
        self.boxes.push(dma_box);
    }
}

fn check_target(view: &View) -> Result<(), Error> {
    let places = view.last_element().map_or(0, |last| last - view.offset() + 1);
    let dims = view.size().iter().zip(view.stride());
    match dims.into_iter().position(|(&size, &stride)| size > 1 && stride == 0) {
        Some(dim) if view.elements() > 0 => Err(Error::TargetRepeats { dim }),
        _ if view.elements() > places => {
            Err(Error::TargetOverlaps { elements: view.elements(), places })
        }
        _ => Ok(()),
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
