//! Segments on the current tile: places become addresses, and operations run from strip to strip.

use std::ptr::null_mut;

use smallvec::{SmallVec, smallvec};
use spyre_artifact::{Lane, Operand, ReduceOp, Register};

use crate::programs::access::operand::TensorLines;
use crate::programs::execute::buffer::{Buffer, Element};
use crate::programs::execute::reduce::values_of;
use crate::programs::execute::vector::LANES;
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::tiles::dims;
use crate::programs::strips::buffers::{ScratchLine, StripBuffers};
use crate::programs::strips::kernels;
use crate::programs::strips::lines::{Form, LINE, StripLines, TileLines};
use crate::programs::strips::ops::{SPARE, StripRun};
use crate::programs::strips::plan::{BlockPart, BlockPlan, Place, StripSegment};
use crate::programs::strips::prefetch::FetchedLines;
use crate::programs::strips::shape::{LINES, LineSteps, TileShape};

/// Lines of no strip yet.
const NO_LINES: StripLines =
    StripLines { first: null_mut(), outer: 0, inner: 0, form: Form::Whole };

/// TileLines of an operand: in device memory, or in a buffer on its way there.
#[derive(Clone, Copy)]
struct DeviceLines {
    lines: TileLines,
    line_bytes: usize,
    is_staged: bool,
}

impl Machine<'_> {
    /// Runs the block that begins at a place, if there is a plan for it and its tiles are large enough. The
    /// place behind it comes back.
    #[inline]
    pub(in crate::programs) fn run_block(&mut self, at: usize) -> Result<Option<usize>, Stop> {
        let code = self.code;
        let Some(plan) = code.block_at(at) else { return Ok(None) };
        let Some(shape) = TileShape::of(&self.tiles, plan.wide, &plan.narrow) else {
            return Ok(None);
        };
        self.run_parts(plan, &shape)?;
        Ok(Some(plan.range.end))
    }

    fn run_parts(&mut self, plan: &BlockPlan, shape: &TileShape) -> Result<(), Stop> {
        for part in plan.parts(self.reuse_state()) {
            match *part {
                BlockPart::Step(at) => {
                    self.step(at, self.code.program().instructions()[at])?;
                    if self.active_nest.is_some() {
                        self.keep(self.code.reuse().mark_of(at));
                    }
                }
                BlockPart::Recall(at) => {
                    self.recalls(self.code.reuse().mark_of(at));
                }
                BlockPart::Segment(ref segment) => self.run_segment(segment, plan, shape)?,
            }
        }
        Ok(())
    }

    fn run_segment(
        &mut self,
        segment: &StripSegment,
        plan: &BlockPlan,
        shape: &TileShape,
    ) -> Result<(), Stop> {
        let mut buffers = std::mem::take(&mut self.strips);
        let outcome = self.run_segment_in(segment, plan, shape, &mut buffers);
        self.strips = buffers;
        outcome
    }

    fn run_segment_in(
        &mut self,
        segment: &StripSegment,
        plan: &BlockPlan,
        shape: &TileShape,
        buffers: &mut StripBuffers,
    ) -> Result<(), Stop> {
        let lines = (segment.scratch + SPARE) * LINES;
        if buffers.scratch.len() < lines {
            buffers.scratch.resize(lines, ScratchLine::default());
        }
        self.make_room(segment, shape);
        let from = self.bind_sources(segment, plan, shape, &mut buffers.staged)?;
        let to = self.bind_targets(segment, plan, shape, &mut buffers.staged)?;
        self.clear_lanes(segment, shape, &mut buffers.lanes)?;
        let lines = self.bind(segment, shape, [&from, &to], buffers)?;
        let mut upcoming = self.upcoming_lines(segment, plan, shape)?;
        upcoming.extend(from.into_iter().chain(to.iter().copied()).filter(DeviceLines::is_fetched));
        let shares = segment.shares_of(upcoming.len());
        let mut fetched: SmallVec<[FetchedLines; 4]> =
            upcoming.iter().map(|lines| lines.to_be_fetched()).collect();
        let mut current: SmallVec<[StripLines; 12]> = smallvec![NO_LINES; lines.len()];
        let spare = &mut buffers.scratch[segment.scratch * LINES..];
        let code = self.code;
        shape.each_strip(segment.is_in_tiles, |strip| {
            for (current, lines) in current.iter_mut().zip(&lines) {
                *current = lines.of(strip);
            }
            let later = strip.later();
            for (fetched, upcoming) in fetched.iter_mut().zip(&upcoming) {
                fetched.lines = upcoming.lines.of(&later);
            }
            for (op, share) in segment.ops.iter().zip(&shares) {
                let own = if strip.is_whole() { &fetched[share.clone()] } else { &[] };
                let loops = strip.loops(own);
                StripRun { lines: &lines, current: &current, strip, loops: &loops, spare }
                    .carry_out(op, code)?;
            }
            Ok::<(), Stop>(())
        })?;
        self.finish_reductions(segment, shape, &buffers.lanes)?;
        self.store_staged(segment, &to, &buffers.staged)
    }

    /// TileLines of all places of a segment.
    fn bind(
        &mut self,
        segment: &StripSegment,
        shape: &TileShape,
        device: [&[DeviceLines]; 2],
        buffers: &mut StripBuffers,
    ) -> Result<SmallVec<[TileLines; 12]>, Stop> {
        let scratch = buffers.scratch.as_mut_ptr();
        let mut lanes = buffers.lanes.as_mut_ptr();
        let mut bound = SmallVec::new();
        for &place in &segment.places {
            bound.push(self.lines_of(place, shape, device, scratch, &mut lanes)?);
        }
        Ok(bound)
    }

    /// Gives tiles that the segment writes their size.
    fn make_room(&mut self, segment: &StripSegment, shape: &TileShape) {
        for op in &segment.ops {
            match segment.places[op.target] {
                Place::Tile(register) => {
                    self.registers.tile_mut(register).resized(shape.elements());
                }
                Place::Kept(value) => {
                    let lane = self.code.reuse().values[usize::from(value)].lane;
                    if let Some(room) = self.room_for(value, lane) {
                        if lane == Lane::F32 {
                            room.make_strips(shape.rows, shape.row_elements);
                        } else {
                            room.tile_mut().resized(shape.elements());
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn bind_sources(
        &mut self,
        segment: &StripSegment,
        plan: &BlockPlan,
        shape: &TileShape,
        buffers: &mut Vec<Buffer>,
    ) -> Result<SmallVec<[DeviceLines; 4]>, Stop> {
        let mut bound = SmallVec::new();
        for (nth, tile) in segment.sources.iter().enumerate() {
            let converter = self.code.converter(tile.at, 0)?;
            let lines = match self.device_lines(tile.operand, plan, shape)? {
                Some(lines) => {
                    Some(DeviceLines::direct(lines, self.line_bytes(tile.operand), false))
                }
                None => {
                    let mut buffer = staged(buffers, nth);
                    let pieces = self.binding.plan.at(tile.at);
                    self.load_tile(tile.operand, converter, dims(plan.wide), pieces, &mut buffer)?;
                    buffers[nth] = buffer;
                    DeviceLines::staged(&mut buffers[nth], shape)
                }
            };
            bound.push(lines.ok_or_else(too_short)?);
        }
        Ok(bound)
    }

    fn bind_targets(
        &mut self,
        segment: &StripSegment,
        plan: &BlockPlan,
        shape: &TileShape,
        buffers: &mut Vec<Buffer>,
    ) -> Result<SmallVec<[DeviceLines; 4]>, Stop> {
        let mut bound = SmallVec::new();
        for (nth, tile) in segment.targets.iter().enumerate() {
            let lines = match self.device_lines(tile.operand, plan, shape)? {
                Some(lines) => {
                    // Stores past the cache are slow in bursts: what makes them is to wait for memory, too.
                    let is_streamed =
                        segment.ops.len() == 1 && self.tensor(tile.operand)?.0.is_streamed();
                    let line_bytes = self.line_bytes(tile.operand);
                    Some(DeviceLines::direct(lines, line_bytes, is_streamed))
                }
                None => {
                    let nth = segment.sources.len() + nth;
                    let mut buffer = staged(buffers, nth);
                    buffer.resized(shape.elements());
                    buffers[nth] = buffer;
                    DeviceLines::staged(&mut buffers[nth], shape)
                }
            };
            bound.push(lines.ok_or_else(too_short)?);
        }
        Ok(bound)
    }

    /// TileLines of an operand's tile in device memory, if it has them.
    fn device_lines(
        &self,
        operand: Operand,
        plan: &BlockPlan,
        shape: &TileShape,
    ) -> Result<Option<TensorLines>, Stop> {
        let (tensor, part) = self.tensor(operand)?;
        Ok(match self.flat {
            Some(first) => Some(tensor.run_lines(part, first, shape.elements())),
            None => tensor.lines(part, &self.tiles, plan.wide, shape),
        })
    }

    /// TileLines of the next rows of operands whose current ones are recalled: the next tile begins with them.
    fn upcoming_lines(
        &self,
        segment: &StripSegment,
        plan: &BlockPlan,
        shape: &TileShape,
    ) -> Result<SmallVec<[DeviceLines; 4]>, Stop> {
        let mut upcoming = SmallVec::new();
        for &operand in &segment.recalled {
            if let Some(lines) = self.device_lines(operand, plan, shape)? {
                let first = lines.first.wrapping_add(shape.rows * lines.row);
                let next = TensorLines { first, ..lines };
                upcoming.push(DeviceLines::direct(next, self.line_bytes(operand), false));
            }
        }
        Ok(upcoming)
    }

    fn line_bytes(&self, operand: Operand) -> usize {
        let format = self.code.program().operand(operand).format;
        LINE * format.element_bytes().unwrap_or(1)
    }

    /// TileLines of a place, all of which are there until the segment ends.
    fn lines_of(
        &mut self,
        place: Place,
        shape: &TileShape,
        [from, to]: [&[DeviceLines]; 2],
        scratch: *mut ScratchLine,
        lanes: &mut *mut [f32; LANES],
    ) -> Result<TileLines, Stop> {
        Ok(match place {
            Place::Reduced(_, register) => {
                let steps = self.steps_of(register, shape)?;
                if steps.has_columns {
                    return self.lines_of(
                        Place::Narrow(register),
                        shape,
                        [from, to],
                        scratch,
                        lanes,
                    );
                }
                let row = if steps.row == 0 { 0 } else { size_of::<[f32; LANES]>() };
                let first = *lanes;
                *lanes = lanes.wrapping_add(lanes_of(steps, shape));
                TileLines::new(first.cast(), row, 0, Form::Whole)
            }
            Place::Scratch(nth) => TileLines::in_scratch::<f32>(scratch.wrapping_add(nth * LINES)),
            Place::BoolScratch(nth) => {
                TileLines::in_scratch::<u8>(scratch.wrapping_add(nth * LINES))
            }
            Place::Source(nth) => from[nth].lines,
            Place::Target(nth) => to[nth].lines,
            Place::Tile(register) => {
                tile_lines(self.registers.tile_mut(register), shape).ok_or_else(too_short)?
            }
            Place::Kept(value) => {
                let lane = self.code.reuse().values[usize::from(value)].lane;
                let room = self.room_for(value, lane).ok_or_else(too_short)?;
                let lines = match room.strips() {
                    Some(strips) => strips.lines(shape),
                    None => tile_lines(room.rows(), shape),
                };
                lines.ok_or_else(too_short)?
            }
            Place::Narrow(register) => {
                let steps = self.steps_of(register, shape)?;
                let tile = self.registers.tile_mut(register);
                let bytes = tile.lane().element_bytes();
                let columns = if steps.has_columns { shape.row_elements } else { 1 };
                let elements = (shape.rows - 1) * steps.row + columns;
                if tile.len() < elements {
                    return Err(too_short());
                }
                let form = if steps.has_columns { Form::Whole } else { Form::One };
                let column = if steps.has_columns { LINE * bytes } else { 0 };
                TileLines::new(tile.first(), steps.row * bytes, column, form)
            }
        })
    }

    fn steps_of(&self, register: Register, shape: &TileShape) -> Result<LineSteps, Stop> {
        let span = self.registers.type_of(register).span;
        shape
            .steps(&self.tiles, span)
            .ok_or_else(|| Stop::refused("rows of a register do not follow each other"))
    }

    /// Makes the lanes of all reductions neutral.
    fn clear_lanes(
        &self,
        segment: &StripSegment,
        shape: &TileShape,
        lanes: &mut Vec<[f32; LANES]>,
    ) -> Result<(), Stop> {
        lanes.clear();
        for (op, register) in reductions(segment) {
            let steps = self.steps_of(register, shape)?;
            if !steps.has_columns {
                let count = lanes.len() + lanes_of(steps, shape);
                lanes.resize(count, [kernels::neutral(op); LANES]);
            }
        }
        Ok(())
    }

    /// Combines the lanes of each row with what is held of it.
    fn finish_reductions(
        &mut self,
        segment: &StripSegment,
        shape: &TileShape,
        lanes: &[[f32; LANES]],
    ) -> Result<(), Stop> {
        let mut rest = lanes;
        for (op, register) in reductions(segment) {
            let steps = self.steps_of(register, shape)?;
            if steps.has_columns {
                continue;
            }
            let (own, behind) = rest.split_at(lanes_of(steps, shape));
            rest = behind;
            let held = f32::of_mut(self.registers.tile_mut(register));
            for (row, lanes) in own.iter().enumerate() {
                let held = &mut held[row * steps.row];
                let [value] = values_of(&[*lanes], |a, b| kernels::combined(op, a, b));
                *held = kernels::combined(op, *held, value);
            }
        }
        Ok(())
    }

    /// Stores tiles that do not lie in whole lines.
    fn store_staged(
        &mut self,
        segment: &StripSegment,
        to: &[DeviceLines],
        staged: &[Buffer],
    ) -> Result<(), Stop> {
        for (nth, (tile, lines)) in segment.targets.iter().zip(to).enumerate() {
            if lines.is_staged {
                let buffer = &staged[segment.sources.len() + nth];
                self.store_tile(tile.at, tile.operand, buffer)?;
            } else {
                self.has_streamed |= lines.lines.form == Form::PastCache;
            }
        }
        Ok(())
    }
}

impl DeviceLines {
    fn direct(lines: TensorLines, line_bytes: usize, is_streamed: bool) -> Self {
        let TensorLines { first, row, columns } = lines;
        let mut lines = TileLines::in_sticks(first, row, columns);
        if is_streamed && lines.are_lines_of_memory() {
            lines = lines.with_form(Form::PastCache);
        }
        Self { lines, line_bytes, is_staged: false }
    }

    /// Returns true for lines that the cache is to have when they are read or written.
    fn is_fetched(&self) -> bool {
        !self.is_staged && self.lines.form != Form::PastCache
    }

    /// Lines of a strip that is not known yet.
    fn to_be_fetched(self) -> FetchedLines {
        FetchedLines { lines: NO_LINES, line_bytes: self.line_bytes }
    }

    /// TileLines of a tile in a buffer of float32.
    fn staged(buffer: &mut Buffer, shape: &TileShape) -> Option<Self> {
        let lines = tile_lines(buffer, shape)?.with_form(Form::Staged);
        Some(Self { lines, line_bytes: LINE * size_of::<f32>(), is_staged: true })
    }
}

/// TileLines of a tile that a buffer holds whole.
fn tile_lines(tile: &mut Buffer, shape: &TileShape) -> Option<TileLines> {
    let bytes = tile.lane().element_bytes();
    let is_whole = tile.len() == shape.elements();
    is_whole.then(|| {
        TileLines::new(tile.first(), shape.row_elements * bytes, LINE * bytes, Form::Whole)
    })
}

/// Reductions of a segment, and the registers that they reduce to.
fn reductions(segment: &StripSegment) -> impl Iterator<Item = (ReduceOp, Register)> {
    segment.places.iter().filter_map(|place| match *place {
        Place::Reduced(op, register) => Some((op, register)),
        _ => None,
    })
}

/// Number of rows that have lanes of their own in a reduction with these steps.
fn lanes_of(steps: LineSteps, shape: &TileShape) -> usize {
    if steps.row == 0 { 1 } else { shape.rows }
}

/// A buffer of float32 for a tile on its way.
fn staged(buffers: &mut Vec<Buffer>, nth: usize) -> Buffer {
    while buffers.len() <= nth {
        buffers.push(Buffer::empty(Lane::F32));
    }
    buffers[nth].taken()
}

fn too_short() -> Stop {
    Stop::refused("a register is shorter than its tile")
}
