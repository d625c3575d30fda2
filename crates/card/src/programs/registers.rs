use std::convert::Infallible;
use std::mem;

use spyre_artifact::{Dim, Lane, Program, Register, RegisterType, Span};

use super::Stop;
use super::buffer::{Buffer, Element};
use super::tiles::{Tiles, dims};

/// The tile buffers of a launch, and spare ones for what instructions need in between.
#[derive(Debug, Default)]
pub(super) struct Registers {
    types: Vec<RegisterType>,
    tiles: Vec<Buffer>,
    spare: Vec<Buffer>,
}

/// Spare buffers that are kept from one launch to the next.
const MOST_SPARE: usize = 8;

impl Registers {
    /// Makes them the registers of a program, with what buffers there are.
    pub(super) fn prepare(&mut self, program: &Program) {
        if self.types == program.registers() {
            return;
        }
        self.types.clear();
        self.types.extend_from_slice(program.registers());
        let surplus = self.tiles.drain(self.types.len().min(self.tiles.len())..);
        self.spare.extend(surplus);
        for (at, register) in self.types.iter().enumerate() {
            match self.tiles.get(at) {
                Some(tile) if tile.lane() == register.lane => {}
                Some(_) => {
                    let tile = spare(&mut self.spare, register.lane);
                    self.spare.push(mem::replace(&mut self.tiles[at], tile));
                }
                None => self.tiles.push(spare(&mut self.spare, register.lane)),
            }
        }
        self.spare.truncate(MOST_SPARE);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tiles.is_empty() && self.spare.is_empty()
    }

    /// What all buffers hold of the host.
    pub(super) fn capacity_bytes(&self) -> usize {
        self.tiles.iter().chain(&self.spare).map(Buffer::capacity_bytes).sum()
    }

    pub(super) fn type_of(&self, register: Register) -> RegisterType {
        self.types[register.index()]
    }

    pub(super) fn tile(&self, register: Register) -> &Buffer {
        &self.tiles[register.index()]
    }

    pub(super) fn tile_mut(&mut self, register: Register) -> &mut Buffer {
        &mut self.tiles[register.index()]
    }

    /// Takes a register's tile out, to be put back.
    pub(super) fn lend(&mut self, register: Register) -> Buffer {
        self.tile_mut(register).taken()
    }

    /// Fills a register with one value.
    pub(super) fn fill<T: Element>(&mut self, target: Register, value: T, elements: usize) {
        let tile = T::of_mut(self.tile_mut(target));
        tile.clear();
        tile.resize(elements, value);
    }

    /// Replaces a register by what `act` makes of another one that spans as much. The two may be
    /// the same one.
    pub(super) fn map<T: Element, U: Element>(
        &mut self,
        target: Register,
        source: Register,
        act: impl FnOnce(&[T], &mut Vec<U>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let mut result = self.take();
        let outcome = act(T::of(self.tile(source)), &mut result);
        self.put(target, result);
        outcome
    }

    /// Replaces a register by what `act` makes of others, each spread over all that it spans.
    pub(super) fn join<T: Element, U: Element, const N: usize>(
        &mut self,
        tiles: &Tiles,
        target: Register,
        sources: [Register; N],
        act: impl FnOnce([&[T]; N], &mut Vec<U>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let mut result = self.take();
        let mut spreads: [Vec<T>; N] = std::array::from_fn(|_| self.take());
        let span = self.type_of(target).span;
        let mut inputs = [&[][..]; N];
        for ((input, source), spread) in inputs.iter_mut().zip(sources).zip(&mut spreads) {
            *input = self.spread(tiles, source, span, spread);
        }
        let outcome = act(inputs, &mut result);
        spreads.into_iter().for_each(|spread| self.give(spread));
        self.put(target, result);
        outcome
    }

    /// Replaces a register by what `act` makes of a condition and two others, all spread.
    pub(super) fn choose<T: Element>(
        &mut self,
        tiles: &Tiles,
        target: Register,
        condition: Register,
        sources: [Register; 2],
        act: impl FnOnce(&[u8], [&[T]; 2], &mut Vec<T>),
    ) {
        let (mut result, mut chosen) = (self.take(), self.take());
        let [mut yes, mut no] = [self.take(), self.take()];
        let span = self.type_of(target).span;
        let inputs = [
            self.spread(tiles, sources[0], span, &mut yes),
            self.spread(tiles, sources[1], span, &mut no),
        ];
        act(self.spread(tiles, condition, span, &mut chosen), inputs, &mut result);
        self.give(chosen);
        [yes, no].into_iter().for_each(|spread| self.give(spread));
        self.put(target, result);
    }

    /// A register's elements over `span`, by way of `room` unless it spans just that.
    pub(super) fn spread<'a, T: Element>(
        &'a self,
        tiles: &Tiles,
        source: Register,
        span: Span,
        room: &'a mut Vec<T>,
    ) -> &'a [T] {
        let own = self.type_of(source).span;
        if own == span {
            return T::of(self.tile(source));
        }
        spread(tiles, T::of(self.tile(source)), own, dims(span), room);
        room
    }

    /// A spare buffer, which may hold anything.
    pub(super) fn take<T: Element>(&mut self) -> Vec<T> {
        match self.spare.iter().position(T::is_in) {
            Some(at) => mem::take(T::of_mut(&mut self.spare.swap_remove(at))),
            None => Vec::new(),
        }
    }

    /// Gives a spare buffer back.
    pub(super) fn give<T: Element>(&mut self, buffer: Vec<T>) {
        self.spare.push(T::tile(buffer));
    }

    /// Takes a register's elements out, to be put back.
    pub(super) fn take_from<T: Element>(&mut self, register: Register) -> Vec<T> {
        mem::take(T::of_mut(self.tile_mut(register)))
    }

    /// Puts elements into a register; what it held is spare.
    pub(super) fn put<T: Element>(&mut self, target: Register, result: Vec<T>) {
        let before = mem::replace(T::of_mut(self.tile_mut(target)), result);
        self.give(before);
    }
}

fn spare(spare: &mut Vec<Buffer>, lane: Lane) -> Buffer {
    match spare.iter().position(|buffer| buffer.lane() == lane) {
        Some(at) => spare.swap_remove(at),
        None => Buffer::empty(lane),
    }
}

/// Elements of a tile over `span`, in the order of `along`, outermost first.
pub(super) fn spread<T: Element>(
    tiles: &Tiles,
    source: &[T],
    span: Span,
    along: impl IntoIterator<Item = Dim>,
    target: &mut Vec<T>,
) {
    target.clear();
    let copied = tiles.nest(span, along).each_row(0, |row| {
        let (start, stride) = (row.start as usize, row.stride as usize);
        match stride {
            0 => target.resize(target.len() + row.elements, source[start]),
            1 => target.extend_from_slice(&source[start..start + row.elements]),
            _ => target.extend(source[start..].iter().step_by(stride).take(row.elements)),
        }
        Ok::<(), Infallible>(())
    });
    let Ok(()) = copied;
}
