use std::mem;

use spyre_artifact::{Lane, Program, Register, RegisterType, Span};

use crate::programs::execute::broadcast::{CHUNK, Spread, spread_into};
use crate::programs::execute::buffer::{Buffer, Element};
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::tiles::Tiles;

/// The tile buffers of a launch, and spare ones for what instructions need in between.
#[derive(Debug, Default)]
pub(in crate::programs) struct Registers {
    types: Vec<RegisterType>,
    tiles: Vec<Buffer>,
    spare: Vec<Buffer>,
}

/// Spare buffers that are kept from one launch to the next.
const MOST_SPARE: usize = 8;

/// Elements that are spread without a buffer of their own.
const FEW: usize = 64;

impl Registers {
    /// Makes them the registers of a program, with what buffers there are.
    pub(in crate::programs) fn prepare(&mut self, program: &Program) {
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

    pub(in crate::programs) fn is_empty(&self) -> bool {
        self.tiles.is_empty() && self.spare.is_empty()
    }

    /// Bytes of the host that all buffers hold.
    pub(in crate::programs) fn capacity_bytes(&self) -> usize {
        self.tiles.iter().chain(&self.spare).map(Buffer::capacity_bytes).sum()
    }

    pub(in crate::programs) fn type_of(&self, register: Register) -> RegisterType {
        self.types[register.index()]
    }

    pub(in crate::programs) fn tile(&self, register: Register) -> &Buffer {
        &self.tiles[register.index()]
    }

    pub(in crate::programs) fn tile_mut(&mut self, register: Register) -> &mut Buffer {
        &mut self.tiles[register.index()]
    }

    /// Takes a register's tile out, to be put back.
    pub(in crate::programs) fn lend(&mut self, register: Register) -> Buffer {
        self.tile_mut(register).taken()
    }

    /// Fills a register with one value.
    pub(in crate::programs) fn fill<T: Element>(
        &mut self,
        target: Register,
        value: T,
        elements: usize,
    ) {
        let tile = T::of_mut(self.tile_mut(target));
        tile.clear();
        tile.resize(elements, value);
    }

    /// Has `act` change a register, which becomes a copy of another one before if it is not that one.
    pub(in crate::programs) fn change<T: Element>(
        &mut self,
        target: Register,
        source: Register,
        act: impl FnOnce(&mut [T]) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if target == source {
            return act(T::of_mut(self.tile_mut(target)));
        }
        let elements = T::of(self.tile(source)).len();
        let mut result: Vec<T> = self.sized(elements);
        result.copy_from_slice(T::of(self.tile(source)));
        let outcome = act(&mut result);
        self.put(target, result);
        outcome
    }

    /// Replaces a register by what `act` makes of another one that spans as much. The two may be
    /// the same one.
    pub(in crate::programs) fn map<T: Element, U: Element>(
        &mut self,
        target: Register,
        source: Register,
        act: impl FnOnce(&[T], &mut [U]) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let mut result = self.sized(T::of(self.tile(source)).len());
        let source = T::of(self.tile(source));
        let outcome = act(source, &mut result);
        self.put(target, result);
        outcome
    }

    /// Replaces a register by what `act` makes of others, each spread over all that it spans; if one
    /// is not that wide, in pieces.
    pub(in crate::programs) fn join<T: Element, U: Element, const N: usize>(
        &mut self,
        tiles: &Tiles,
        target: Register,
        sources: [Register; N],
        mut act: impl FnMut([&[T]; N], &mut [U]) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let span = self.type_of(target).span;
        let count = tiles.elements_of(span);
        let mut result = self.sized(count);
        let mut few = [[T::default(); FEW]; N];
        if let Some(inputs) = self.at_once(tiles, sources, span, &mut few) {
            let outcome = act(inputs, &mut result);
            self.put(target, result);
            return outcome;
        }
        let mut rooms = sources.map(|source| self.room_for(source, count));
        let mut inputs = sources.map(|source| self.spread(tiles, source, span));
        let outcome = result
            .chunks_mut(CHUNK)
            .try_for_each(|result| act(next(&mut inputs, &mut rooms, result.len()), result));
        rooms.into_iter().for_each(|room| self.give(room));
        self.put(target, result);
        outcome
    }

    /// Replaces a register by what `act` makes of a condition and two others, all spread.
    pub(in crate::programs) fn choose<T: Element>(
        &mut self,
        tiles: &Tiles,
        target: Register,
        condition: Register,
        sources: [Register; 2],
        mut act: impl FnMut(&[u8], [&[T]; 2], &mut [T]),
    ) {
        let span = self.type_of(target).span;
        let count = tiles.elements_of(span);
        let mut result: Vec<T> = self.sized(count);
        let mut few_chosen = [[0; FEW]];
        let mut few = [[T::default(); FEW]; 2];
        if let Some([chosen]) = self.at_once(tiles, [condition], span, &mut few_chosen)
            && let Some(inputs) = self.at_once(tiles, sources, span, &mut few)
        {
            act(chosen, inputs, &mut result);
            return self.put(target, result);
        }
        let mut chosen_room: Vec<u8> = self.room_for(condition, count);
        let mut rooms = sources.map(|source| self.room_for(source, count));
        let mut chosen = self.spread(tiles, condition, span);
        let mut inputs = sources.map(|source| self.spread(tiles, source, span));
        for result in result.chunks_mut(CHUNK) {
            let chosen = chosen.next(result.len(), &mut chosen_room);
            act(chosen, next(&mut inputs, &mut rooms, result.len()), result);
        }
        self.give(chosen_room);
        rooms.into_iter().for_each(|room| self.give(room));
        self.put(target, result);
    }

    /// The elements of registers over `span`, if they are few or none repeats.
    fn at_once<'a, T: Element, const N: usize>(
        &'a self,
        tiles: &Tiles,
        sources: [Register; N],
        span: Span,
        few: &'a mut [[T; FEW]; N],
    ) -> Option<[&'a [T]; N]> {
        let count = tiles.elements_of(span);
        let mut inputs = [&[][..]; N];
        for ((input, &source), few) in inputs.iter_mut().zip(&sources).zip(few) {
            let elements = T::of(self.tile(source));
            *input = match few.get_mut(..count) {
                // Dims that the source does not have are of one element.
                _ if elements.len() == count => elements,
                Some(few) => {
                    spread_into(tiles, elements, self.type_of(source).span, span, few);
                    few
                }
                None => return None,
            };
        }
        Some(inputs)
    }

    /// Room for the elements of a register, if they are to be spread over as many as this.
    fn room_for<T: Element>(&mut self, source: Register, count: usize) -> Vec<T> {
        if T::of(self.tile(source)).len() == count { Vec::new() } else { self.take() }
    }

    /// A register's elements over `span`.
    fn spread<T: Element>(&self, tiles: &Tiles, source: Register, span: Span) -> Spread<'_, T> {
        Spread::new(tiles, T::of(self.tile(source)), self.type_of(source).span, span)
    }

    /// A spare buffer, which may hold anything.
    pub(in crate::programs) fn take<T: Element>(&mut self) -> Vec<T> {
        // The last one that was used is still in the cache.
        match self.spare.iter().rposition(T::is_in) {
            Some(at) => mem::take(T::of_mut(&mut self.spare.remove(at))),
            None => Vec::new(),
        }
    }

    /// Buffer of so many elements, which may be anything.
    pub(in crate::programs) fn sized<T: Element>(&mut self, elements: usize) -> Vec<T> {
        // One that is long enough need not be filled first; longer ones are for others.
        let spare = self.spare.iter().enumerate().rev().filter(|(_, buffer)| T::is_in(buffer));
        let long = spare.filter(|(_, buffer)| T::of(buffer).len() >= elements);
        let mut buffer = match long.min_by_key(|(_, buffer)| T::of(buffer).len()) {
            Some((at, _)) => mem::take(T::of_mut(&mut self.spare.remove(at))),
            None => self.take(),
        };
        buffer.resize(elements, T::default());
        buffer
    }

    /// Gives a spare buffer back.
    pub(in crate::programs) fn give<T: Element>(&mut self, buffer: Vec<T>) {
        // One without memory would have the next one to take it ask the system for some.
        if buffer.capacity() > 0 {
            self.spare.push(T::tile(buffer));
        }
    }

    /// Takes a register's elements out, to be put back.
    pub(in crate::programs) fn take_from<T: Element>(&mut self, register: Register) -> Vec<T> {
        mem::take(T::of_mut(self.tile_mut(register)))
    }

    /// Puts elements into a register; what it held is spare.
    pub(in crate::programs) fn put<T: Element>(&mut self, target: Register, result: Vec<T>) {
        let before = mem::replace(T::of_mut(self.tile_mut(target)), result);
        self.give(before);
    }
}

/// The next elements of all inputs.
fn next<'a, T: Element, const N: usize>(
    inputs: &'a mut [Spread<'_, T>; N],
    rooms: &'a mut [Vec<T>; N],
    count: usize,
) -> [&'a [T]; N] {
    let mut slices = [&[][..]; N];
    for ((slice, input), room) in slices.iter_mut().zip(inputs).zip(rooms) {
        *slice = input.next(count, room);
    }
    slices
}

fn spare(spare: &mut Vec<Buffer>, lane: Lane) -> Buffer {
    match spare.iter().position(|buffer| buffer.lane() == lane) {
        Some(at) => spare.swap_remove(at),
        None => Buffer::empty(lane),
    }
}
