//! Places of a tile's elements, at coordinates that registers hold.

use spyre_artifact::{Coordinate, Coordinates, Operand, Span};
use spyre_hal::Fault;

use crate::programs::access::axes::OUTSIDE;
use crate::programs::access::operand::Tensor;
use crate::programs::execute::buffer::Element;
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::tiles::{Tiles, dims};

/// The places of a tile: each one of `outer`, and from there on, all of `runs`.
#[derive(Debug)]
pub(in crate::programs) struct Places {
    /// Sums of steps, in the order of the tile; negative outside of the tensor.
    pub(in crate::programs) outer: Vec<i64>,
    pub(in crate::programs) runs: Vec<Run>,
    /// Elements of the tile for each of `outer`.
    pub(in crate::programs) inner: usize,
}

/// Rows of elements that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::programs) struct Run {
    /// The first element in the tile.
    pub(in crate::programs) place: usize,
    /// Its byte on the device.
    pub(in crate::programs) at: usize,
    pub(in crate::programs) elements: usize,
    pub(in crate::programs) rows: usize,
    /// Distance from row to row: elements of the tile, and bytes on the device.
    pub(in crate::programs) pitch: usize,
    pub(in crate::programs) stride_bytes: usize,
}

/// Shorter runs are not worth their own conversions.
const LEAST_RUN: usize = 8;

impl Machine<'_> {
    /// The places of a tile over `span`, in its order. Dims that `apart` spans are not part of runs.
    pub(in crate::programs) fn places(
        &mut self,
        operand: Operand,
        at: &Coordinates,
        span: Span,
        apart: Span,
    ) -> Places {
        let tensor = self.binding.tensor(operand).map(|(tensor, _)| tensor);
        let own = self.span_of(operand).minus(at.dims());
        let moved =
            at.given().fold(apart, |moved, one| moved | self.registers.type_of(one.register).span);
        let mut inner = trailing(span, own.minus(moved));
        let runs = tensor.filter(|tensor| tensor.is_apart());
        let mut runs = runs.map_or(Vec::new(), |tensor| self.runs(tensor, inner));
        let elements = self.tiles.elements_of(inner);
        if runs.len() * LEAST_RUN > elements {
            (inner, runs) = (Span::NONE, Vec::new());
        }
        if runs.is_empty() {
            inner = Span::NONE;
        }
        let outer = match tensor {
            Some(tensor) => self.step_sums(tensor, at, own.minus(inner), span.minus(inner)),
            None => vec![OUTSIDE; self.tiles.elements_of(span)],
        };
        Places { outer, runs, inner: self.tiles.elements_of(inner) }
    }

    /// The sum of steps for each element over `span`.
    fn step_sums(&mut self, tensor: &Tensor, at: &Coordinates, own: Span, span: Span) -> Vec<i64> {
        let mut sums = self.registers.take::<i64>();
        let mut steps = self.registers.take::<i64>();
        sums.clear();
        sums.resize(self.tiles.elements_of(span), tensor.first_step());
        for one in at.given() {
            let extent = self.binding.extents[one.dim.index()];
            let step = |&index: &i64| match usize::try_from(index) {
                Ok(index) if index < extent => tensor.step(one.dim, index),
                _ => OUTSIDE,
            };
            steps.clear();
            steps.extend(i64::of(self.registers.tile(one.register)).iter().map(step));
            add(&self.tiles, &steps, self.registers.type_of(one.register).span, span, &mut sums);
        }
        for dim in own.dims() {
            let start = self.tiles.starts[dim.index()];
            let elements = self.tiles.elements[dim.index()];
            steps.clear();
            steps.extend((start..start + elements).map(|at| tensor.step(dim, at)));
            add(&self.tiles, &steps, Span::NONE.with(dim), span, &mut sums);
        }
        self.registers.give(steps);
        sums
    }

    /// The runs of a tile over these dims, which the operand walks over as loops do.
    fn runs(&mut self, tensor: &Tensor, inner: Span) -> Vec<Run> {
        if inner.is_empty() {
            return Vec::new();
        }
        let sums = self.step_sums(tensor, &Coordinates::NONE, inner, inner);
        let runs = runs_of(&sums, tensor.element_bytes());
        self.registers.give(sums);
        runs
    }

    /// Error for an element of the tile whose place is outside of the tensor.
    #[cold]
    pub(in crate::programs) fn outside(
        &self,
        operand: Operand,
        at: &Coordinates,
        span: Span,
        nth: usize,
    ) -> Stop {
        let index_of = |one: Coordinate| {
            let register = self.registers.type_of(one.register).span;
            let mut wide = Vec::new();
            let tile = i64::of(self.registers.tile(one.register));
            crate::programs::execute::broadcast::spread(
                &self.tiles,
                tile,
                register,
                dims(span),
                &mut wide,
            );
            wide.get(nth).copied().unwrap_or(0)
        };
        for one in at.given() {
            let index = index_of(one);
            let size = self.binding.extents[one.dim.index()] as u64;
            if u64::try_from(index).map_or(true, |index| index >= size) {
                let operand = operand.0;
                let dimension = one.axis;
                return Fault::IndexOutOfRange { operand, dimension, index, size }.into();
            }
        }
        Stop::operand(operand.index(), "an element of it has no place")
    }
}

/// The last dims of a span, as long as they are among `chosen`.
fn trailing(span: Span, chosen: Span) -> Span {
    let all: Vec<_> = span.dims().collect();
    let last = all.iter().rev().take_while(|&&dim| chosen.contains(dim));
    last.fold(Span::NONE, |inner, &dim| inner.with(dim))
}

/// Adds what some elements over `own` are to those over `span`.
fn add(tiles: &Tiles, steps: &[i64], own: Span, span: Span, sums: &mut [i64]) {
    let mut rest = sums;
    let walked = tiles.nest(own, dims(span)).each_row(0, |row| {
        let start = row.start as usize;
        let stride = row.stride as usize;
        let (part, behind) = std::mem::take(&mut rest).split_at_mut(row.elements);
        rest = behind;
        match stride {
            0 => part.iter_mut().for_each(|sum| *sum += steps[start]),
            _ => {
                let steps = steps[start..].iter().step_by(stride);
                part.iter_mut().zip(steps).for_each(|(sum, step)| *sum += step);
            }
        }
        Ok::<(), std::convert::Infallible>(())
    });
    let Ok(()) = walked;
}

/// Elements that follow each other as runs, and runs that do as rows.
fn runs_of(sums: &[i64], element_bytes: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut place = 0;
    while let Some(&first) = sums.get(place) {
        let follows = |pair: &[i64]| pair[1] == pair[0] + element_bytes as i64;
        let elements = 1 + sums[place..].windows(2).take_while(|pair| follows(pair)).count();
        let run = Run { place, at: first as usize, elements, rows: 1, pitch: 0, stride_bytes: 0 };
        match runs.last_mut().and_then(|last| last.with(run)) {
            Some(longer) => *runs.last_mut().expect("there is one") = longer,
            None => runs.push(run),
        }
        place += elements;
    }
    runs
}

impl Run {
    /// One with a row more, if it lies as the rows before.
    fn with(self, next: Self) -> Option<Self> {
        let stride_bytes = next.at.checked_sub(self.at + (self.rows - 1) * self.stride_bytes)?;
        let pitch = next.place - self.place - (self.rows - 1) * self.pitch;
        let is_alike = self.rows == 1 || (stride_bytes, pitch) == (self.stride_bytes, self.pitch);
        let is_alike = is_alike && next.elements == self.elements;
        is_alike.then_some(Self { rows: self.rows + 1, pitch, stride_bytes, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sticks_at_one_distance_are_rows() {
        let stick = |start: i64, elements: i64| (0..elements).map(move |at| start + 2 * at);
        let sums: Vec<i64> = stick(0, 64)
            .chain(stick(1000, 64))
            .chain(stick(2000, 64))
            .chain(stick(3000, 8))
            .collect();
        let rows = Run { place: 0, at: 0, elements: 64, rows: 3, pitch: 64, stride_bytes: 1000 };
        let last = Run { place: 192, at: 3000, elements: 8, rows: 1, pitch: 0, stride_bytes: 0 };
        assert_eq!(runs_of(&sums, 2), [rows, last]);
        assert_eq!(runs_of(&[], 2), []);
    }

    #[test]
    fn the_trailing_dims_end_at_the_first_other_one() {
        let span = Span::from_bits(0b1111);
        let chosen = Span::from_bits(0b1101);
        assert_eq!(trailing(span, chosen), Span::from_bits(0b1100));
    }
}
