//! Tiles over more dims than they have: their elements repeat along the others.

use spyre_artifact::{Dim, MAX_DIMS, Span};

use crate::programs::access::nest::{Nest, Row};
use crate::programs::execute::buffer::Element;
use crate::programs::schedule::tiles::{Tiles, dims};

/// Number of elements at a time that stay in a core's L1 cache, whatever is done with them.
pub(in crate::programs) const CHUNK: usize = 2048;

/// A tile's elements over a span, from the first to the last.
#[derive(Debug)]
pub(in crate::programs) struct Spread<'a, T> {
    elements: &'a [T],
    repeats: Repeats,
    done: usize,
}

/// Ways in which a tile's elements repeat.
#[derive(Debug)]
enum Repeats {
    /// They are used as they are: along the dims that the tile does not have, there is one element.
    Not,
    /// There is one element.
    One,
    /// They repeat by a walk, which is large, and so is not moved with the rest.
    Walk(Box<Walk>),
}

impl<'a, T: Element> Spread<'a, T> {
    pub(in crate::programs) fn new(
        tiles: &Tiles,
        elements: &'a [T],
        own: Span,
        span: Span,
    ) -> Self {
        let repeats = if own == span || tiles.elements_of(span) == elements.len() {
            Repeats::Not
        } else if elements.len() == 1 {
            Repeats::One
        } else {
            Repeats::Walk(Box::new(Walk::new(tiles.nest(own, dims(span)))))
        };
        Self { elements, repeats, done: 0 }
    }

    /// The next ones, by way of `room` if they repeat.
    pub(in crate::programs) fn next<'b>(
        &'b mut self,
        count: usize,
        room: &'b mut Vec<T>,
    ) -> &'b [T] {
        match &mut self.repeats {
            Repeats::Not => {
                self.done += count;
                return &self.elements[self.done - count..self.done];
            }
            Repeats::One => {
                room.clear();
                room.resize(count, self.elements[0]);
            }
            Repeats::Walk(walk) => {
                room.resize(count, T::default());
                walk.fill(self.elements, room);
            }
        }
        room
    }
}

/// All elements of a tile over a span.
pub(in crate::programs) fn spread_into<T: Element>(
    tiles: &Tiles,
    elements: &[T],
    own: Span,
    span: Span,
    target: &mut [T],
) {
    match elements {
        [one] => target.fill(*one),
        _ => Walk::new(tiles.nest(own, dims(span))).fill(elements, target),
    }
}

/// A walk over a nest that can be left and taken up again anywhere.
#[derive(Debug)]
struct Walk {
    nest: Nest,
    row: Row,
    index: [usize; MAX_DIMS],
    /// Start of the row, and elements of it that are done.
    start: usize,
    done: usize,
}

impl Walk {
    fn new(nest: Nest) -> Self {
        let row = nest.row();
        Self { nest, row, index: [0; MAX_DIMS], start: 0, done: 0 }
    }

    fn fill<T: Copy>(&mut self, source: &[T], target: &mut [T]) {
        let Row { elements, stride, .. } = self.row;
        let mut rest = target;
        while !rest.is_empty() {
            let count = rest.len().min(elements - self.done);
            let (now, later) = rest.split_at_mut(count);
            match stride as usize {
                0 => now.fill(source[self.start]),
                1 => now.copy_from_slice(&source[self.start + self.done..][..count]),
                stride => {
                    let from = source[self.start + self.done * stride..].iter().step_by(stride);
                    now.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                }
            }
            (rest, self.done) = (later, self.done + count);
            if self.done == elements {
                self.done = 0;
                self.next_row();
            }
        }
    }

    fn next_row(&mut self) {
        let outer = self.nest.outer();
        for (at, along) in outer.iter().enumerate().rev() {
            let stride = along.stride as usize;
            self.index[at] += 1;
            self.start += stride;
            if self.index[at] < along.elements {
                return;
            }
            self.start -= self.index[at] * stride;
            self.index[at] = 0;
        }
    }
}

/// Elements of a tile over `span`, in the order of `along`, outermost first.
pub(in crate::programs) fn spread<T: Element>(
    tiles: &Tiles,
    source: &[T],
    span: Span,
    along: impl IntoIterator<Item = Dim> + Clone,
    target: &mut Vec<T>,
) {
    let elements = along.clone().into_iter().map(|dim| tiles.elements[dim.index()]);
    target.resize(elements.product(), T::default());
    Walk::new(tiles.nest(span, along)).fill(source, target);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_repeat_along_the_dims_that_a_tile_does_not_have() {
        let mut tiles = Tiles::default();
        tiles.elements[..3].copy_from_slice(&[2, 3, 4]);
        let all = Span::of(&[Dim(0), Dim(1), Dim(2)]);
        for own in [&[][..], &[Dim(0)], &[Dim(1)], &[Dim(2)], &[Dim(0), Dim(2)], all_dims()] {
            let span = Span::of(own);
            let elements: Vec<i64> = (0..tiles.elements_of(span) as i64).collect();
            let expected: Vec<i64> = (0..24).map(|at| place(own, at)).collect();
            let mut whole = Vec::new();
            spread(&tiles, &elements, span, dims(all), &mut whole);
            assert_eq!(whole, expected, "{own:?}");
            for count in [1, 2, 5, 7, 24] {
                let mut part = Spread::new(&tiles, &elements, span, all);
                let mut room = Vec::new();
                let mut found = Vec::new();
                while found.len() < 24 {
                    found.extend_from_slice(part.next(count.min(24 - found.len()), &mut room));
                }
                assert_eq!(found, expected, "{own:?} in pieces of {count}");
            }
        }
    }

    #[test]
    fn elements_are_used_as_they_are_if_the_other_dims_are_of_one_element() {
        let mut tiles = Tiles::default();
        tiles.elements[..3].copy_from_slice(&[1, 3, 1]);
        let all = Span::of(&[Dim(0), Dim(1), Dim(2)]);
        let elements = [5_i64, 6, 7];
        let mut room = Vec::new();
        let mut spread = Spread::new(&tiles, &elements, Span::of(&[Dim(1)]), all);
        let found = spread.next(3, &mut room);
        assert!(std::ptr::eq(found, &elements[..]));
        assert!(room.is_empty());
    }

    fn all_dims() -> &'static [Dim] {
        &[Dim(0), Dim(1), Dim(2)]
    }

    /// Index of the element of a tile over some dims that is met at a place of 2 x 3 x 4.
    fn place(own: &[Dim], at: i64) -> i64 {
        let extents = [2, 3, 4];
        let index = [at / 12, at / 4 % 3, at % 4];
        own.iter().fold(0, |sum, dim| sum * extents[dim.index()] + index[dim.index()])
    }
}
