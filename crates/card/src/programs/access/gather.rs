use spyre_artifact::{Coordinates, Lane, Operand, Register};
use spyre_numerics::{Converter, Rows};

use crate::memory::MemorySlice;
use crate::programs::access::coordinates::Places;
use crate::programs::access::operand::Tensor;
use crate::programs::execute::buffer::Buffer;
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;

impl Machine<'_> {
    pub(in crate::programs) fn gather(
        &mut self,
        at: usize,
        target: Register,
        source: Operand,
        coordinates: &Coordinates,
        keeps_outside: bool,
    ) -> Result<(), Stop> {
        let span = self.registers.type_of(target).span;
        let places = self.places(source, coordinates, span, spyre_artifact::Span::NONE);
        let first_outside = places.outer.iter().position(|&place| place < 0);
        if let Some(nth) = first_outside.filter(|_| !keeps_outside) {
            return Err(self.outside(source, coordinates, span, nth * places.inner));
        }
        let converter = self.code.converter(at, 0)?;
        let mut tile = self.registers.lend(target);
        let outcome = match self.binding.tensor(source) {
            Some((tensor, part)) if places.runs.is_empty() => {
                let has_holes = first_outside.is_some();
                self.gather_each(tensor, part, &places, converter, &mut tile, has_holes)
            }
            Some((_, part)) => {
                gather_runs(part, &places, converter, &mut tile);
                Ok(())
            }
            None => Ok(()),
        };
        *self.registers.tile_mut(target) = tile;
        self.registers.give(places.outer);
        outcome
    }

    /// Reads single elements, and converts all of them at once.
    fn gather_each(
        &mut self,
        tensor: &Tensor,
        part: MemorySlice<'_>,
        places: &Places,
        converter: &Converter,
        tile: &mut Buffer,
        has_holes: bool,
    ) -> Result<(), Stop> {
        self.raw.resize(places.outer.len() * tensor.element_bytes(), 0);
        match tensor.element_bytes() {
            1 => read_each::<1>(tensor, part, &places.outer, &mut self.raw),
            2 => read_each::<2>(tensor, part, &places.outer, &mut self.raw),
            4 => read_each::<4>(tensor, part, &places.outer, &mut self.raw),
            _ => read_each::<8>(tensor, part, &places.outer, &mut self.raw),
        }?;
        let elements = places.outer.len();
        if !has_holes {
            let bytes = tile.resized(elements);
            converter.convert(&self.raw, bytes)?;
            to_bools(tile.lane(), converter, tile.resized(elements));
            return Ok(());
        }
        let mut found = Buffer::empty(tile.lane());
        converter.convert(&self.raw, found.resized(elements))?;
        to_bools(found.lane(), converter, found.resized(elements));
        keep_where(&places.outer, &found, tile);
        Ok(())
    }
}

fn read_each<const BYTES: usize>(
    tensor: &Tensor,
    part: MemorySlice<'_>,
    places: &[i64],
    target: &mut [u8],
) -> Result<(), Stop> {
    for (&place, target) in places.iter().zip(target.as_chunks_mut::<BYTES>().0) {
        if place >= 0 {
            part.read_elements(tensor.byte(place)?, 0, std::slice::from_mut(target));
        }
    }
    Ok(())
}

fn gather_runs(part: MemorySlice<'_>, places: &Places, converter: &Converter, tile: &mut Buffer) {
    let lane = tile.lane();
    let width = tile.lane().element_bytes();
    let target = tile.resized(places.outer.len() * places.inner);
    for (row, &place) in target.chunks_exact_mut(places.inner * width).zip(&places.outer) {
        if place < 0 {
            continue;
        }
        for run in &places.runs {
            let rows = Rows {
                count: run.rows,
                elements: run.elements,
                source_stride: run.stride_bytes,
                target_stride: run.pitch * width,
            };
            part.convert_out(
                converter,
                place as usize + run.at,
                rows,
                &mut row[run.place * width..],
            );
        }
        to_bools(lane, converter, row);
    }
}

/// Makes every byte that is not zero a one, in a tile of booleans.
fn to_bools(lane: Lane, converter: &Converter, tile: &mut [u8]) {
    if lane == Lane::Bool && converter.is_copy() {
        tile.iter_mut().for_each(|flag| *flag = u8::from(*flag != 0));
    }
}

/// Replaces elements that have a place.
fn keep_where(places: &[i64], found: &Buffer, tile: &mut Buffer) {
    fn replace<T: Copy>(places: &[i64], found: &[T], tile: &mut [T]) {
        for ((&place, &found), tile) in places.iter().zip(found).zip(tile) {
            *tile = if place < 0 { *tile } else { found };
        }
    }
    tile.resized(places.len());
    match (found, tile) {
        (Buffer::F32(found), Buffer::F32(tile)) => replace(places, found, tile),
        (Buffer::F64(found), Buffer::F64(tile)) => replace(places, found, tile),
        (Buffer::I64(found), Buffer::I64(tile)) => replace(places, found, tile),
        (Buffer::Bool(found), Buffer::Bool(tile)) => replace(places, found, tile),
        _ => {}
    }
}
