use smallvec::SmallVec;
use spyre_artifact::MAX_DIMS;

/// Loops over a tile, outermost first: how often, and how far each step goes in what is walked over.
///
/// Loops of one step are left out, and loops that continue each other are one: rows get as long as
/// they can be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::programs) struct Nest {
    loops: SmallVec<[Row; 4]>,
    is_empty: bool,
}

/// One loop, from where it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::programs) struct Row {
    pub(in crate::programs) start: i64,
    pub(in crate::programs) elements: usize,
    pub(in crate::programs) stride: i64,
}

/// A loop of one step.
const ONE: Row = Row { start: 0, elements: 1, stride: 0 };

impl Nest {
    /// The loops of up to 16 dims: elements and stride of each.
    pub(in crate::programs) fn over(dims: impl IntoIterator<Item = (usize, i64)>) -> Self {
        Self::joined_where(dims, |_, _| true)
    }

    /// Like [`over`](Self::over), but loops that continue each other stay apart unless `joins` returns true
    /// for the elements and the stride of the inner one.
    pub(in crate::programs) fn joined_where(
        dims: impl IntoIterator<Item = (usize, i64)>,
        joins: impl Fn(usize, i64) -> bool,
    ) -> Self {
        let mut nest = Self::default();
        dims.into_iter().for_each(|(elements, stride)| nest.push(elements, stride, &joins));
        nest
    }

    /// The innermost loop.
    pub(in crate::programs) fn row(&self) -> Row {
        self.loops.last().copied().unwrap_or(ONE)
    }

    /// The loops around it.
    pub(in crate::programs) fn outer(&self) -> &[Row] {
        &self.loops[..self.loops.len().saturating_sub(1)]
    }

    /// Starts of the innermost rows, one after the other.
    #[inline(always)]
    pub(in crate::programs) fn starts(&self) -> Starts<'_> {
        Starts { outer: self.outer(), index: [0; MAX_DIMS], at: 0 }
    }

    /// Calls `act` with every innermost row, in order; `start` is where the first one starts.
    #[inline(always)]
    pub(in crate::programs) fn each_row<E>(
        &self,
        start: i64,
        mut act: impl FnMut(Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let (outer, row) = match self.loops.split_last() {
            Some((row, outer)) => (outer, *row),
            None => (&[][..], ONE),
        };
        self.walk(outer, start, |start| act(Row { start, ..row }))
    }

    /// Calls `act` with every pair of the two innermost loops, in order: rows, and one of them.
    pub(in crate::programs) fn each_block<E>(
        &self,
        start: i64,
        mut act: impl FnMut(Row, Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let (outer, rows, row) = match &self.loops[..] {
            [outer @ .., rows, row] => (outer, *rows, *row),
            [row] => (&[][..], ONE, *row),
            [] => (&[][..], ONE, ONE),
        };
        self.walk(outer, start, |start| act(Row { start, ..rows }, Row { start, ..row }))
    }

    #[inline(always)]
    fn walk<E>(
        &self,
        outer: &[Row],
        start: i64,
        mut act: impl FnMut(i64) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.is_empty {
            return Ok(());
        }
        let mut index = [0_usize; MAX_DIMS];
        let mut at = start;
        loop {
            act(at)?;
            let Some(next) = (0..outer.len()).rev().find(|&l| index[l] + 1 < outer[l].elements)
            else {
                return Ok(());
            };
            for inner in next + 1..outer.len() {
                at -= index[inner] as i64 * outer[inner].stride;
                index[inner] = 0;
            }
            index[next] += 1;
            at += outer[next].stride;
        }
    }

    fn push(&mut self, elements: usize, stride: i64, joins: impl Fn(usize, i64) -> bool) {
        self.is_empty |= elements == 0;
        if elements <= 1 {
            return;
        }
        let row = Row { start: 0, elements, stride };
        if let Some(last) = self.loops.last_mut() {
            let continues = stride.checked_mul(elements as i64) == Some(last.stride);
            if continues && joins(elements, stride) {
                *last = Row { elements: last.elements * elements, ..row };
                return;
            }
        }
        self.loops.push(row);
    }
}

/// The starts of rows, as far as they were asked for.
#[derive(Debug)]
pub(in crate::programs) struct Starts<'a> {
    outer: &'a [Row],
    index: [usize; MAX_DIMS],
    at: usize,
}

impl Starts<'_> {
    /// The next one; after the last comes the first.
    #[inline(always)]
    pub(in crate::programs) fn next(&mut self) -> usize {
        let now = self.at;
        for (nth, along) in self.outer.iter().enumerate().rev() {
            let stride = along.stride as usize;
            self.index[nth] += 1;
            self.at = self.at.wrapping_add(stride);
            if self.index[nth] < along.elements {
                break;
            }
            self.at = self.at.wrapping_sub(self.index[nth].wrapping_mul(stride));
            self.index[nth] = 0;
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn rows(dims: &[(usize, i64)]) -> Vec<(i64, usize, i64)> {
        let mut rows = Vec::new();
        let nest = Nest::over(dims.iter().copied());
        let walked = nest.each_row(100, |row| {
            rows.push((row.start, row.elements, row.stride));
            Ok::<(), Infallible>(())
        });
        assert_eq!(walked, Ok(()));
        rows
    }

    #[test]
    fn loops_that_continue_each_other_are_one_row() {
        assert_eq!(rows(&[(2, 12), (1, 99), (3, 4), (4, 1)]), [(100, 24, 1)]);
        assert_eq!(rows(&[(5, 0), (7, 0)]), [(100, 35, 0)]);
        assert_eq!(rows(&[]), [(100, 1, 0)]);
    }

    #[test]
    fn loops_stay_apart_where_it_is_not_worth_joining_them() {
        let nest = Nest::joined_where([(2, 12), (3, 4), (4, 1)], |elements, _| elements == 3);
        let mut rows = Vec::new();
        let walked = nest.each_row(0, |row| {
            rows.push((row.start, row.elements));
            Ok::<(), Infallible>(())
        });
        assert_eq!(walked, Ok(()));
        assert_eq!(rows, [0, 4, 8, 12, 16, 20].map(|start| (start, 4)));
    }

    #[test]
    fn other_loops_are_walked_row_by_row() {
        assert_eq!(
            rows(&[(2, 10), (2, -3), (4, 1)]),
            [(100, 4, 1), (97, 4, 1), (110, 4, 1), (107, 4, 1)]
        );
        assert_eq!(rows(&[(2, 10), (0, 1)]), []);
    }
}
