use spyre_artifact::{Coordinates, Operand, Register, ScatterOp, Span};
use spyre_numerics::{Converter, Rows};
use zerocopy::IntoBytes;

use crate::memory::{MemorySlice, Way};
use crate::programs::access::coordinates::{Places, Run};
use crate::programs::access::operand::Tensor;
use crate::programs::execute::buffer::{Buffer, Element};
use crate::programs::execute::extremes::NanWins;
use crate::programs::execute::vector::vectorised;
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;

/// Tensor of a scatter, and the converters of elements that go to it and come from it.
struct Crossing<'a> {
    tensor: &'a Tensor,
    part: MemorySlice<'a>,
    to: &'a Converter,
    from: &'a Converter,
}

impl Machine<'_> {
    pub(in crate::programs) fn scatter(
        &mut self,
        at: usize,
        op: ScatterOp,
        target: Operand,
        (source, mask): (Register, Option<Register>),
        coordinates: &Coordinates,
    ) -> Result<(), Stop> {
        let span = self.registers.type_of(source).span;
        let apart = mask.map_or(Span::NONE, |mask| self.registers.type_of(mask).span);
        let mut places = self.places(target, coordinates, span, apart);
        let wanted = self.wanted(mask, span, &places);
        let is_wanted = |nth: usize| wanted.as_ref().is_none_or(|wanted| wanted[nth] != 0);
        let strays = |nth: &usize| places.outer[*nth] < 0 && is_wanted(*nth);
        if let Some(nth) = (0..places.outer.len()).find(strays) {
            return Err(self.outside(target, coordinates, span, nth * places.inner));
        }
        // What is not wanted goes nowhere.
        (0..places.outer.len())
            .filter(|&nth| !is_wanted(nth))
            .for_each(|nth| places.outer[nth] = -1);
        let to = self.code.converter(at, 0)?;
        let from = self.code.converter(at, 1)?;
        if let Some((tensor, part)) = self.binding.tensor(target) {
            let crossing = Crossing { tensor, part, to, from };
            let tile = self.registers.tile(source);
            match op {
                ScatterOp::Set => crossing.set(&places, tile, &mut self.raw)?,
                _ => crossing.combine(op, &places, tile, &mut self.raw)?,
            }
        }
        self.registers.give(places.outer);
        if let Some(wanted) = wanted {
            self.registers.give(wanted);
        }
        Ok(())
    }

    /// The mask for each of the outer places.
    fn wanted(&mut self, mask: Option<Register>, span: Span, places: &Places) -> Option<Vec<u8>> {
        let mask = mask?;
        let mut wanted = self.registers.take::<u8>();
        let own = self.registers.type_of(mask).span;
        // Runs are over dims that the mask does not span: those are the last ones.
        let all: Vec<_> = span.dims().collect();
        let mut inner = 1;
        let skipped = all.iter().rev().take_while(|dim| {
            let is_run = inner < places.inner;
            inner *= if is_run { self.tiles.elements[dim.index()] } else { 1 };
            is_run
        });
        let outer = &all[..all.len() - skipped.count()];
        let tile = u8::of(self.registers.tile(mask));
        crate::programs::execute::broadcast::spread(
            &self.tiles,
            tile,
            own,
            outer.iter().copied(),
            &mut wanted,
        );
        Some(wanted)
    }
}

impl Crossing<'_> {
    fn set(&self, places: &Places, tile: &Buffer, raw: &mut Vec<u8>) -> Result<(), Stop> {
        if places.runs.is_empty() {
            raw.resize(places.outer.len() * self.tensor.element_bytes(), 0);
            self.to.convert(tile.bytes(), raw)?;
            return match self.tensor.element_bytes() {
                1 => self.write_each::<1>(&places.outer, raw),
                2 => self.write_each::<2>(&places.outer, raw),
                4 => self.write_each::<4>(&places.outer, raw),
                _ => self.write_each::<8>(&places.outer, raw),
            };
        }
        let width = tile.lane().element_bytes();
        let rows = tile.bytes().chunks_exact(places.inner * width);
        for (row, &place) in rows.zip(&places.outer).filter(|(_, place)| **place >= 0) {
            places.runs.iter().for_each(|run| self.write(place, *run, row, width));
        }
        Ok(())
    }

    fn write_each<const BYTES: usize>(&self, places: &[i64], elements: &[u8]) -> Result<(), Stop> {
        for (&place, element) in places.iter().zip(elements.as_chunks::<BYTES>().0) {
            if place >= 0 {
                self.part.write_elements(
                    self.tensor.byte(place)?,
                    0,
                    std::slice::from_ref(element),
                );
            }
        }
        Ok(())
    }

    fn combine(
        &self,
        op: ScatterOp,
        places: &Places,
        tile: &Buffer,
        raw: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        match tile {
            Buffer::F32(tile) => self.combine_all(op, places, tile, raw),
            Buffer::F64(tile) => self.combine_all(op, places, tile, raw),
            Buffer::I64(tile) => self.combine_all(op, places, tile, raw),
            Buffer::Bool(_) => Err(Stop::refused(format!("{op} is not for truth values"))),
        }
    }

    fn combine_all<T: Combined>(
        &self,
        op: ScatterOp,
        places: &Places,
        tile: &[T],
        raw: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        if places.runs.is_empty() {
            return self.combine_each(op, places, tile, raw);
        }
        let mut old = vec![T::default(); places.inner];
        for (row, &place) in tile.chunks_exact(places.inner).zip(&places.outer) {
            if place < 0 {
                continue;
            }
            for run in &places.runs {
                self.read(place, *run, old.as_mut_bytes(), size_of::<T>());
            }
            vectorised(|| T::join(op, &mut old, row));
            for run in &places.runs {
                self.write(place, *run, old.as_bytes(), size_of::<T>());
            }
        }
        Ok(())
    }

    /// Each is read, combined, rounded and written before the next one is read: they may meet.
    fn combine_each<T: Combined>(
        &self,
        op: ScatterOp,
        places: &Places,
        tile: &[T],
        raw: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        if self.to.is_copy() && self.from.is_copy() {
            return self.combine_as_it_lies(op, places, tile);
        }
        raw.resize(self.tensor.element_bytes(), 0);
        let mut old = [T::default()];
        for (&place, value) in places.outer.iter().zip(tile).filter(|(place, _)| **place >= 0) {
            let at = self.tensor.byte(place)?;
            self.part.read(at, raw);
            self.from.convert(raw, old.as_mut_bytes())?;
            T::join(op, &mut old, std::slice::from_ref(value));
            self.to.convert(old.as_bytes(), raw)?;
            self.part.write(at, raw);
        }
        Ok(())
    }

    /// Combines with elements that lie in memory as they are computed with.
    fn combine_as_it_lies<T: Combined>(
        &self,
        op: ScatterOp,
        places: &Places,
        tile: &[T],
    ) -> Result<(), Stop> {
        for (&place, value) in places.outer.iter().zip(tile).filter(|(place, _)| **place >= 0) {
            let at = self.tensor.byte(place)?;
            let mut old = T::read(self.part, at);
            T::join(op, std::slice::from_mut(&mut old), std::slice::from_ref(value));
            old.write(self.part, at);
        }
        Ok(())
    }

    fn read(&self, place: i64, run: Run, row: &mut [u8], width: usize) {
        let rows = Rows {
            count: run.rows,
            elements: run.elements,
            source_stride: run.stride_bytes,
            target_stride: run.pitch * width,
        };
        let row = &mut row[run.place * width..];
        self.part.convert_out(self.from, place as usize + run.at, rows, row);
    }

    fn write(&self, place: i64, run: Run, row: &[u8], width: usize) {
        let rows = Rows {
            count: run.rows,
            elements: run.elements,
            source_stride: run.pitch * width,
            target_stride: run.stride_bytes,
        };
        let row = &row[run.place * width..];
        self.part.convert_in(self.to, row, place as usize + run.at, rows, Way::Cached);
    }
}

/// Numbers that are combined in place.
trait Combined: Element + IntoBytes {
    /// Combines what is there with what comes, element by element.
    fn join(op: ScatterOp, there: &mut [Self], comes: &[Self]);

    /// The number whose bytes lie at a place.
    fn read(part: MemorySlice<'_>, at: usize) -> Self;

    /// Puts its bytes at a place.
    fn write(self, part: MemorySlice<'_>, at: usize);
}

#[inline(always)]
fn each<T: Copy>(there: &mut [T], comes: &[T], act: impl Fn(T, T) -> T) {
    there.iter_mut().zip(comes).for_each(|(there, &comes)| *there = act(*there, comes));
}

macro_rules! combined {
    ($type:ty, $add:expr, $multiply:expr, $smaller:expr, $larger:expr) => {
        impl Combined for $type {
            #[inline(always)]
            fn join(op: ScatterOp, there: &mut [Self], comes: &[Self]) {
                match op {
                    ScatterOp::Add => each(there, comes, $add),
                    ScatterOp::Multiply => each(there, comes, $multiply),
                    ScatterOp::Min => each(there, comes, $smaller),
                    ScatterOp::Max => each(there, comes, $larger),
                    _ => there.copy_from_slice(comes),
                }
            }

            #[inline(always)]
            fn read(part: MemorySlice<'_>, at: usize) -> Self {
                let mut bytes = [[0; size_of::<Self>()]];
                part.read_elements(at, 0, &mut bytes);
                Self::from_ne_bytes(bytes[0])
            }

            #[inline(always)]
            fn write(self, part: MemorySlice<'_>, at: usize) {
                part.write_elements(at, 0, &[self.to_ne_bytes()]);
            }
        }
    };
}

combined!(f32, |a, b| a + b, |a, b| a * b, NanWins::smaller, NanWins::larger);
combined!(f64, |a, b| a + b, |a, b| a * b, NanWins::smaller, NanWins::larger);
combined!(i64, Self::wrapping_add, Self::wrapping_mul, Ord::min, Ord::max);
