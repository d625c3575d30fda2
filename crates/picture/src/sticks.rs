//! The sticks of a layout: what each holds, its label and its tile.

use std::ops::Range;

use super::lattice::Lattice;
use super::naming::Naming;
use super::panel::Cell;
use spyre_layout::{Error, SpyreTensorLayout};

/// Labels longer than this give way to numbers.
const LONGEST_LABEL: usize = 12;

/// A layout with a host shape, stick by stick.
#[derive(Clone, Debug)]
pub(super) struct Sticks {
    layout: SpyreTensorLayout,
    host: Lattice,
    /// The host dimension along the sticks; the last one if there is none.
    lane_dim: usize,
    naming: Naming,
    tile_sticks: usize,
    /// True if all sticks are of one tile. Each stick then has its own colour.
    is_one_tile: bool,
    /// True if every stick lies within a row, judged by the first and the last ones.
    is_regular: bool,
}

/// Elements that lie behind each other and belong to one stick, or to none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) start: usize,
    pub(super) elements: usize,
    pub(super) stick: Option<usize>,
}

impl Sticks {
    pub(super) fn new(layout: &SpyreTensorLayout) -> Result<Self, Error> {
        let along = layout.dim_map()?.last().copied().flatten();
        let device_size = layout.device_size();
        let outer = &device_size[..device_size.len() - 1];
        let mut sticks = Self {
            host: Lattice::new(layout.dma_sizes(), layout.dma_strides()),
            lane_dim: along.unwrap_or_else(|| layout.dma_sizes().len().saturating_sub(1)),
            naming: if along.is_some() { Naming::Tiled } else { Naming::Element },
            tile_sticks: outer.iter().rev().copied().find(|&size| size > 1).unwrap_or(1),
            is_one_tile: true,
            is_regular: true,
            layout: layout.clone(),
        };
        let last = sticks.count().saturating_sub(1);
        sticks.is_one_tile = sticks.original(last) / sticks.tile_sticks == 0;
        sticks.is_regular = sticks.follow_rows();
        if !sticks.is_regular || sticks.label_width() > LONGEST_LABEL {
            sticks.naming = Naming::Numbered;
        }
        Ok(sticks)
    }

    pub(super) fn layout(&self) -> &SpyreTensorLayout {
        &self.layout
    }

    pub(super) fn host(&self) -> &Lattice {
        &self.host
    }

    pub(super) fn naming(&self) -> Naming {
        self.naming
    }

    pub(super) fn is_regular(&self) -> bool {
        self.is_regular
    }

    pub(super) fn size(&self) -> &[usize] {
        self.layout.dma_sizes()
    }

    pub(super) fn stride(&self) -> &[usize] {
        self.layout.dma_strides()
    }

    pub(super) fn lane_dim(&self) -> usize {
        self.lane_dim
    }

    pub(super) fn per_stick(&self) -> usize {
        self.layout.elements_per_stick()
    }

    /// Sticks of the allocation.
    pub(super) fn count(&self) -> usize {
        self.layout.device_elements() / self.per_stick()
    }

    /// Name of the unit that has its own colour: a stick or a tile.
    pub(super) fn painted(&self) -> &'static str {
        if self.is_one_tile { "stick" } else { "tile" }
    }

    /// Sticks that follow each other along the innermost device dimension.
    pub(super) fn tile_sticks(&self) -> usize {
        self.tile_sticks
    }

    /// The stick that holds the element at a place of host memory.
    pub(super) fn at(&self, place: usize) -> Option<usize> {
        self.layout.device_element(place).map(|element| element / self.per_stick())
    }

    /// Elements of the allocation that hold nothing.
    pub(super) fn padding(&self) -> usize {
        let dims = self.layout.device_size().iter().zip(self.layout.stride_map());
        let copies: usize = dims.filter(|(_, stride)| **stride == 0).map(|(&n, _)| n).product();
        let used = self.host.elements().saturating_mul(copies);
        self.layout.device_elements().saturating_sub(used)
    }

    /// Number of pieces that the first stick has in host memory.
    pub(super) fn pieces(&self) -> usize {
        let mut places: Vec<usize> = self.places(0).into_iter().flatten().collect();
        places.sort_unstable();
        places.dedup();
        places.chunk_by(|place, next| place + 1 == *next).count()
    }

    /// Returns true if a stick repeats another.
    pub(super) fn has_copies(&self) -> bool {
        let outer = self.outer_dims();
        outer.iter().any(|&(size, stride)| size > 1 && stride == 0)
    }

    /// A whole stick of the device.
    pub(super) fn cell(&self, stick: usize) -> Cell {
        let original = self.original(stick);
        let places = self.places(original);
        let is_copy = original != stick;
        let mut cell = Cell {
            label: format!("{}{}", if is_copy { "=" } else { "" }, self.label(original)),
            tile: Some(self.tile(original)),
            colour: 0,
            elements: self.per_stick(),
            padding: gaps(&places),
            is_copy,
        };
        if places.iter().all(Option::is_none) {
            cell = Cell { label: String::new(), tile: None, is_copy: false, ..cell };
        }
        cell
    }

    /// The part of a stick that is in a run.
    pub(super) fn piece(&self, run: &Run) -> Cell {
        let Some(stick) = run.stick else { return Cell::hole(run.elements) };
        let label = self.label(stick);
        let tile = Some(self.tile(stick));
        Cell { label, tile, ..Cell::hole(run.elements) }
    }

    fn tile(&self, original: usize) -> usize {
        if self.is_one_tile { original } else { original / self.tile_sticks }
    }

    fn follow_rows(&self) -> bool {
        const SAMPLE: usize = 16;
        let Some(last) = self.host.last() else { return true };
        let head = std::iter::successors(Some(0), |place| self.next_place(place + 1));
        let mut sample: Vec<usize> = head.take(SAMPLE).chain([last]).collect();
        sample.extend(self.strip_ends());
        sample.into_iter().filter_map(|place| self.at(place)).all(|stick| {
            let count = self.places(stick).iter().flatten().count();
            count == 0 || self.regular_index(stick).is_some()
        })
    }

    fn next_place(&self, place: usize) -> Option<usize> {
        self.host.at_or_after(place)
    }

    /// Places at the ends of the first strip and of the next one along each dimension.
    fn strip_ends(&self) -> Vec<usize> {
        let along = self.size().get(self.lane_dim).zip(self.stride().get(self.lane_dim));
        let end = along.map_or(0, |(size, stride)| (size - 1) * stride);
        let dims = self.size().iter().zip(self.stride());
        let steps = dims.filter(|(size, _)| **size > 1).map(|(_, &stride)| stride);
        let near = steps.filter(|step| step + end <= self.host.last().unwrap_or(0));
        [0].into_iter().chain(near).flat_map(|place| [place, place + end]).collect()
    }

    /// The index of the first element and how many there are, if the stick follows a row.
    pub(super) fn regular_index(&self, stick: usize) -> Option<(Vec<usize>, usize)> {
        let mut places: Vec<usize> = self.places(stick).into_iter().flatten().collect();
        places.dedup();
        let first = self.host.index(*places.first()?)?;
        let start = first.get(self.lane_dim).copied().unwrap_or(0);
        let fits = match self.naming {
            Naming::Tiled => start.is_multiple_of(self.per_stick()),
            Naming::Element => places.len() == 1,
            Naming::Numbered => false,
        };
        let step = self.stride().get(self.lane_dim).copied().unwrap_or(0);
        let room = self.size().get(self.lane_dim).map_or(1, |size| size - start);
        let is_row = places.len() <= room
            && places.iter().enumerate().all(|(at, place)| *place == places[0] + at * step);
        (fits && is_row).then_some((first, places.len()))
    }

    /// The place in host memory of each element of a stick; none for padding.
    fn places(&self, stick: usize) -> Vec<Option<usize>> {
        let repeats = self.layout.stride_map().last() == Some(&0);
        let start = stick * self.per_stick();
        let place = |lane| {
            let element = start + if repeats { 0 } else { lane };
            let place = self.layout.host_element(element)?;
            self.host.index(place).map(|_| place)
        };
        (0..self.per_stick()).map(place).collect()
    }

    /// The first of the sticks that repeat each other.
    fn original(&self, stick: usize) -> usize {
        let mut rest = stick;
        let mut original = 0;
        let mut step = 1;
        for &(size, stride) in self.outer_dims().iter().rev().filter(|(size, _)| *size > 0) {
            original += if stride == 0 { 0 } else { rest % size * step };
            rest /= size;
            step *= size;
        }
        original
    }

    /// Sizes and strides of all device dimensions but the stick.
    fn outer_dims(&self) -> Vec<(usize, i64)> {
        let dims = self.layout.device_size().iter().zip(self.layout.stride_map());
        let outer = self.layout.device_size().len() - 1;
        dims.take(outer).map(|(&size, &stride)| (size, stride)).collect()
    }
}

/// The ranges in which there is nothing.
fn gaps<T>(places: &[Option<T>]) -> Vec<Range<usize>> {
    let mut gaps: Vec<Range<usize>> = Vec::new();
    for (at, _) in places.iter().enumerate().filter(|(_, place)| place.is_none()) {
        match gaps.last_mut() {
            Some(gap) if gap.end == at => gap.end = at + 1,
            _ => gaps.push(at..at + 1),
        }
    }
    gaps
}
