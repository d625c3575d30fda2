//! Links whose result goes straight to a large tensor. A result that no other instruction reads is not
//! written to a register first, and each stick is made where it is stored.

use smallvec::SmallVec;
use spyre_artifact::{Instruction, Register};
use spyre_numerics::Tier;

use crate::memory::MemorySlice;
use crate::programs::access::operand::Series;
use crate::programs::access::sticks::{PlacedSticks, STICK, Stick, TileSticks};
use crate::programs::execute::buffer::Element;
use crate::programs::execute::fused::link_op::{LinkOp, MOST_LINKS};
use crate::programs::execute::vector::{Job, run};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::tiles::dims;

impl Machine<'_> {
    /// Does so many links from a place on, and the store behind them, if the tensor is large and all of the
    /// tile lies in whole sticks. `false` if not: what of it is stored by then may be stored again.
    pub(in crate::programs) fn store_links(
        &mut self,
        at: usize,
        count: usize,
    ) -> Result<bool, Stop> {
        let instructions = &self.code.program().instructions()[at..=at + count];
        let Some(&Instruction::Store { target, source }) = instructions.last() else {
            return Ok(false);
        };
        let (tensor, part) = self.tensor(target)?;
        // A run of memory is better written by itself, while the next one is being fetched.
        let is_known = self.flat.is_some() || self.binding.plan.at(at + count).is_some();
        if Tier::detected() == Tier::Portable || is_known || !tensor.is_streamed() {
            return Ok(false);
        }
        let Some(tile) = self.sticks_of(source) else { return Ok(false) };
        let mut room = self.registers.sized::<f32>(count * tile.rows * STICK);
        let terms = self.terms(&instructions[..count], source, tile, &mut room);
        let sticks = f32::of(self.registers.tile(source)).as_chunks().0;
        let values = Plane { sticks, row: tile.columns, column: 1 };
        let converter = self.code.converter(at + count, 0)?;
        let mut is_done = terms.len() == count;
        let mut store = |series: Series| {
            let sticks = tensor.sticks(series, converter).and_then(|sticks| tile.place(&sticks));
            match sticks.filter(|place| is_done && part.is_in_lines(place.at, place.strides)) {
                Some(place) => Making { part, place, values }.run(&terms),
                None => is_done = false,
            }
        };
        tensor.each_series(&self.tiles, dims(self.span_of(target)), |series| {
            store(series);
            Ok(())
        })?;
        drop(terms);
        self.registers.give(room);
        self.has_streamed |= is_done;
        Ok(is_done)
    }

    /// Terms of the instructions, up to the first one that cannot be done by sticks. Numbers that are one for
    /// a whole row are repeated in `room`.
    fn terms<'a>(
        &'a self,
        instructions: &[Instruction],
        wide: Register,
        tile: TileSticks,
        room: &'a mut [f32],
    ) -> Terms<'a> {
        let rooms = room.as_chunks_mut::<STICK>().0.chunks_exact_mut(tile.rows);
        let links = instructions.iter().map_while(LinkOp::of).zip(rooms);
        links.map_while(|((_, op, other), room)| self.term(op, other, wide, room)).collect()
    }

    fn term<'a>(
        &'a self,
        op: LinkOp,
        other: Register,
        wide: Register,
        room: &'a mut [Stick],
    ) -> Option<Term<'a>> {
        let nest = self.nest_of(other, wide);
        let numbers = f32::of(self.registers.tile(other));
        let down = nest.outer().first().map_or(0, |rows| rows.stride as usize);
        let others = match nest.row().stride {
            0 => {
                for (row, stick) in room.iter_mut().enumerate() {
                    *stick = [numbers[row * down]; STICK];
                }
                Plane { sticks: room, row: 1, column: 0 }
            }
            _ if down.is_multiple_of(STICK) => {
                Plane { sticks: numbers.as_chunks().0, row: down / STICK, column: 1 }
            }
            _ => return None,
        };
        Some(Term { op, others })
    }
}

/// Numbers for the sticks of a tile: one stick for many, perhaps.
#[derive(Clone, Copy, Debug)]
struct Plane<'a> {
    sticks: &'a [Stick],
    /// Sticks to skip for a step down, and for a step to the right.
    row: usize,
    column: usize,
}

impl Plane<'_> {
    #[inline(always)]
    fn at(&self, column: usize, row: usize) -> &Stick {
        &self.sticks[row * self.row + column * self.column]
    }
}

/// Operation on every number, and the other numbers that it takes.
#[derive(Clone, Copy, Debug)]
struct Term<'a> {
    op: LinkOp,
    others: Plane<'a>,
}

type Terms<'a> = SmallVec<[Term<'a>; MOST_LINKS]>;

/// Sticks of some values that terms are applied to.
#[derive(Clone, Copy, Debug)]
struct Making<'a> {
    part: MemorySlice<'a>,
    place: PlacedSticks,
    values: Plane<'a>,
}

/// One term as a type of its own: the loop over sticks is compiled for each few of them.
macro_rules! with_term {
    ($term:expr, |$act:ident| $then:expr) => {
        match $term {
            Some(Term { op: LinkOp::Plus, others }) => {
                let $act = Act { others, of: |v: f32, other: f32| v + other };
                $then
            }
            Some(Term { op: LinkOp::Minus, others }) => {
                let $act = Act { others, of: |v: f32, other: f32| v - other };
                $then
            }
            Some(Term { op: LinkOp::Times, others }) => {
                let $act = Act { others, of: |v: f32, other: f32| v * other };
                $then
            }
            None => {
                let $act = Idle;
                $then
            }
        }
    };
}

impl Making<'_> {
    fn run(self, terms: &[Term<'_>]) {
        let [first, second, third] = [0, 1, 2].map(|nth| terms.get(nth).copied());
        with_term!(first, |first| with_term!(second, |second| with_term!(third, |third| {
            run(Tier::detected(), Made { making: self, first, second, third });
        })));
    }
}

/// Changes a stick.
trait Change {
    fn change(&self, stick: &mut Stick, column: usize, row: usize);
}

struct Idle;

impl Change for Idle {
    #[inline(always)]
    fn change(&self, _: &mut Stick, _: usize, _: usize) {}
}

struct Act<'a, F> {
    others: Plane<'a>,
    of: F,
}

impl<F: Fn(f32, f32) -> f32> Change for Act<'_, F> {
    #[inline(always)]
    fn change(&self, stick: &mut Stick, column: usize, row: usize) {
        let others = self.others.at(column, row);
        stick.iter_mut().zip(others).for_each(|(v, &other)| *v = (self.of)(*v, other));
    }
}

struct Made<'a, A, B, C> {
    making: Making<'a>,
    first: A,
    second: B,
    third: C,
}

impl<A: Change, B: Change, C: Change> Job for Made<'_, A, B, C> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        let Self { making: Making { part, place, values }, first, second, third } = self;
        let [first_column, first_row] = place.first;
        part.make_sticks::<TIER>(
            place.at,
            place.counts,
            place.strides,
            #[inline(always)]
            |column, row| {
                let column = first_column + column;
                let row = first_row + row;
                let mut stick = *values.at(column, row);
                first.change(&mut stick, column, row);
                second.change(&mut stick, column, row);
                third.change(&mut stick, column, row);
                stick
            },
        );
    }
}
