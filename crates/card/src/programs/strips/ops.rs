//! Operations on the lines of one strip.
#![allow(unsafe_code, reason = "hands lines of tiles and of device memory to kernels")]

use spyre_artifact::{BinaryOp, CompareOp, UnaryOp};
use spyre_numerics::{Converter, Rows};
use zerocopy::IntoBytes;

use crate::programs::execute::elementwise::choose;
use crate::programs::execute::tier_jobs;
use crate::programs::execute::vector::vectorised;
use crate::programs::load::code::LoadedCode;
use crate::programs::schedule::stop::Stop;
use crate::programs::strips::buffers::ScratchLine;
use crate::programs::strips::functions;
use crate::programs::strips::kernels::{self, StripLoops, ZipOp};
use crate::programs::strips::lines::{Form, LINE, StripLines, TileLines};
use crate::programs::strips::plan::{OpKind, StripOp};
use crate::programs::strips::shape::{LINES, LineStrip};

/// Strips of scratch that operations need in between: three sources and a result.
pub(super) const SPARE: usize = 4;
/// LineStrip of the spare ones that a result is made in.
const MADE: usize = 3;

/// Operations on a strip, with scratch of their own. All lines are there until the segment ends; what an
/// operation reads and writes are the same lines, or others.
pub(super) struct StripRun<'a> {
    /// TileLines of the segment's places.
    pub(super) lines: &'a [TileLines],
    /// StripLines of the same places.
    pub(super) current: &'a [StripLines],
    pub(super) strip: &'a LineStrip,
    pub(super) loops: &'a StripLoops<'a>,
    pub(super) spare: &'a mut [ScratchLine],
}

/// One operation of them.
struct OpRun<'a> {
    op: &'a StripOp,
    lines: &'a [TileLines],
    current: &'a [StripLines],
    strip: &'a LineStrip,
    loops: &'a StripLoops<'a>,
    spare: *mut ScratchLine,
}

impl StripRun<'_> {
    /// Carries an operation out: the commonest ones here, with little around their loops.
    #[inline]
    pub(super) fn carry_out(&mut self, op: &StripOp, code: &LoadedCode) -> Result<(), Stop> {
        let Self { lines, current, strip, loops, .. } = *self;
        let zip = match op.kind {
            OpKind::Binary(op) if strip.is_whole() => ZipOp::of(op),
            _ => None,
        };
        let source = &current[op.sources[0]];
        let target = &current[op.target];
        match (op.kind, zip) {
            // SAFETY: see `StripRun`.
            (_, Some(zip)) => unsafe {
                kernels::zip(zip, loops, [source, &current[op.sources[1]]], target);
            },
            // SAFETY: see `StripRun`.
            (OpKind::Unary(op), _) if strip.is_whole() => unsafe {
                functions::map(op, loops, source, target)?;
            },
            // SAFETY: see `StripRun`.
            (OpKind::Copy, _) => unsafe { kernels::copy(loops, source, target) },
            // SAFETY: see `StripRun`; a target without columns is lanes.
            (OpKind::Reduce(reduction), _) => unsafe {
                if lines[op.target].column_bytes() == Some(0) {
                    kernels::reduce_rows(reduction, loops, source, target);
                } else {
                    kernels::reduce_columns(reduction, loops, source, target);
                }
            },
            _ => return self.carry_out_by_steps(op, code),
        }
        Ok(())
    }

    /// Carries out an operation that needs strips in between.
    #[inline(never)]
    fn carry_out_by_steps(&mut self, op: &StripOp, code: &LoadedCode) -> Result<(), Stop> {
        assert!(self.spare.len() >= SPARE * LINES, "strips in between");
        let Self { lines, current, strip, loops, .. } = *self;
        loops.fetch_all();
        let run = OpRun { op, lines, current, strip, loops, spare: self.spare.as_mut_ptr() };
        match op.kind {
            OpKind::Load(at) => run.load(code.converter(at, 0)?),
            OpKind::Store(at) => run.store(code.converter(at, 0)?),
            OpKind::Unary(op) => run.unary(op)?,
            OpKind::Binary(op) => run.binary(op)?,
            OpKind::Compare(op) => run.compare(op)?,
            OpKind::Not => run.not()?,
            OpKind::Logic(op) => run.logic(op)?,
            OpKind::Select => run.select(),
            OpKind::Round(at) => run.round(code.converter(at, 0)?, code.converter(at, 1)?)?,
            OpKind::CopyBools => run.put_bools(run.source(0)),
            OpKind::Copy | OpKind::Reduce(_) => {}
        }
        Ok(())
    }
}

impl<'a> OpRun<'a> {
    #[inline(always)]
    fn target(&self) -> StripLines {
        self.current[self.op.target]
    }

    #[inline(always)]
    fn source(&self, nth: usize) -> StripLines {
        self.current[self.op.sources[nth]]
    }

    /// A spare strip.
    fn spare<T>(&self, nth: usize) -> StripLines {
        assert!(nth < SPARE, "a spare strip");
        TileLines::in_scratch::<T>(self.spare.wrapping_add(nth * LINES)).of(self.strip)
    }

    /// Returns true if the lines of a strip are one slice.
    fn is_slice<T>(&self, lines: &StripLines) -> bool {
        let line = LINE * size_of::<T>();
        let rows = self.loops.outer == 1 || lines.outer == self.loops.inner * line;
        let is_dense = lines.form == Form::Whole && self.strip.is_whole() && rows;
        lines.form == Form::Scratch || is_dense && (self.loops.inner == 1 || lines.inner == line)
    }

    /// Elements of lines that are a slice.
    fn elements<T>(&self, lines: StripLines) -> &'a [T] {
        assert!(self.is_slice::<T>(&lines), "lines that follow each other");
        // SAFETY: they are there, and any bits are an element.
        unsafe { std::slice::from_raw_parts(lines.first.cast(), self.strip.lines() * LINE) }
    }

    /// Elements of such lines, which no other slice has.
    fn elements_mut<T>(&self, lines: StripLines) -> &'a mut [T] {
        assert!(self.is_slice::<T>(&lines), "lines that follow each other");
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(lines.first.cast(), self.strip.lines() * LINE) }
    }

    /// Numbers of a source, in a spare strip if they lie apart.
    fn numbers(&self, nth: usize) -> &'a [f32] {
        let source = self.source(nth);
        if self.is_slice::<f32>(&source) {
            return self.elements(source);
        }
        let spare = self.spare::<f32>(nth);
        // SAFETY: see `StripRun`; the spare strip is this operation's.
        unsafe { kernels::copy(self.loops, &source, &spare) };
        self.elements(spare)
    }

    /// Truth values of a source, as [`numbers`](Self::numbers).
    fn bools(&self, nth: usize) -> &'a [u8] {
        let source = self.source(nth);
        if source.form == Form::Scratch {
            return self.elements(source);
        }
        let spare = self.spare::<u8>(nth);
        // SAFETY: see `StripRun`; the spare strip is this operation's.
        unsafe { kernels::copy_bools(self.loops, &source, &spare) };
        self.elements(spare)
    }

    /// Puts numbers that were made in a strip of scratch in their place.
    fn put(&self, made: StripLines) {
        let target = self.target();
        if made.first != target.first {
            // SAFETY: see `StripRun`.
            unsafe { kernels::copy(self.loops, &made, &target) };
        }
    }

    fn put_bools(&self, made: StripLines) {
        // SAFETY: see `StripRun`.
        unsafe { kernels::copy_bools(self.loops, &made, &self.target()) };
    }

    fn unary(&self, op: UnaryOp) -> Result<(), Stop> {
        let target = self.target();
        let is_slice = self.is_slice::<f32>(&target);
        let made = if is_slice { target } else { self.spare::<f32>(MADE) };
        let source = self.source(0);
        if source.first != made.first {
            // SAFETY: see `StripRun`.
            unsafe { kernels::copy(self.loops, &source, &made) };
        }
        tier_jobs::unary::<f32>(op)(self.elements_mut(made))?;
        self.put(made);
        Ok(())
    }

    fn binary(&self, op: BinaryOp) -> Result<(), Stop> {
        let sources = [self.numbers(0), self.numbers(1)];
        let made = self.spare::<f32>(MADE);
        tier_jobs::binary::<f32>(op)(sources, self.elements_mut(made))?;
        self.put(made);
        Ok(())
    }

    fn compare(&self, op: CompareOp) -> Result<(), Stop> {
        let sources = [self.numbers(0), self.numbers(1)];
        let made = self.spare::<u8>(MADE);
        tier_jobs::comparison::<f32>(op)(sources, self.elements_mut(made))?;
        self.put_bools(made);
        Ok(())
    }

    fn not(&self) -> Result<(), Stop> {
        let made = self.spare::<u8>(MADE);
        let bools: &mut [u8] = self.elements_mut(made);
        bools.copy_from_slice(self.bools(0));
        tier_jobs::unary::<u8>(UnaryOp::Not)(bools)?;
        self.put_bools(made);
        Ok(())
    }

    fn logic(&self, op: BinaryOp) -> Result<(), Stop> {
        let sources = [self.bools(0), self.bools(1)];
        let made = self.spare::<u8>(MADE);
        tier_jobs::binary::<u8>(op)(sources, self.elements_mut(made))?;
        self.put_bools(made);
        Ok(())
    }

    fn select(&self) {
        let chosen = self.bools(0);
        let sources = [self.numbers(1), self.numbers(2)];
        let made = self.spare::<f32>(MADE);
        let target: &mut [f32] = self.elements_mut(made);
        vectorised(
            #[inline(always)]
            || choose(chosen, sources, target),
        );
        self.put(made);
    }

    fn round(&self, narrow: &Converter, widen: &Converter) -> Result<(), Stop> {
        let numbers = self.numbers(0);
        let made = self.spare::<f32>(MADE);
        let bytes = numbers.len() * narrow.to().element_bytes().unwrap_or(1);
        let raw = self.spare::<u8>(1).first;
        assert!(bytes <= LINES * size_of::<ScratchLine>(), "a format that is no wider");
        // SAFETY: a spare strip has so many bytes, and the numbers are in another one.
        let raw = unsafe { std::slice::from_raw_parts_mut(raw, bytes) };
        narrow.convert(numbers.as_bytes(), raw)?;
        widen.convert(raw, self.elements_mut::<f32>(made).as_mut_bytes())?;
        self.put(made);
        Ok(())
    }

    /// Converts lines of device memory.
    fn load(&self, converter: &Converter) {
        let from = &self.lines[self.op.sources[0]];
        let to = self.target();
        if from.form == Form::Staged {
            // SAFETY: see `StripRun`.
            return unsafe { kernels::copy(self.loops, &from.of(self.strip), &to) };
        }
        self.each_column(
            from,
            converter.from().element_bytes().unwrap_or(1),
            self.is_slice::<f32>(&to),
            #[inline(always)]
            |column, rows| {
                let target = self.line_of_column(to, column);
                let source = from.at(self.strip.column + column, self.strip.row);
                let rows = Rows {
                    count: rows.count,
                    elements: rows.elements,
                    source_stride: rows.stride,
                    target_stride: to.inner,
                };
                // SAFETY: see `StripRun`; device memory and tiles do not overlap.
                unsafe { converter.convert_rows(source, target, rows) };
            },
        );
    }

    /// Converts lines to device memory.
    fn store(&self, converter: &Converter) {
        let mut from = self.source(0);
        if from.form == Form::One {
            let spare = self.spare::<f32>(0);
            // SAFETY: see `StripRun`; the spare strip is this operation's.
            unsafe { kernels::copy(self.loops, &from, &spare) };
            from = spare;
        }
        let to = &self.lines[self.op.target];
        if to.form == Form::Staged {
            // SAFETY: see `StripRun`.
            return unsafe { kernels::copy(self.loops, &self.source(0), &to.of(self.strip)) };
        }
        let streams = to.form == Form::PastCache && converter.streams() && self.strip.is_whole();
        self.each_column(
            to,
            converter.to().element_bytes().unwrap_or(1),
            self.is_slice::<f32>(&from),
            #[inline(always)]
            |column, rows| {
                let source = self.line_of_column(from, column);
                let target = to.at(self.strip.column + column, self.strip.row);
                let rows = Rows {
                    count: rows.count,
                    elements: rows.elements,
                    source_stride: from.inner,
                    target_stride: rows.stride,
                };
                // SAFETY: see `StripRun`; device memory and tiles do not overlap, and what is streamed fills
                // whole lines.
                unsafe {
                    if streams {
                        converter.stream_rows(source, target, rows);
                    } else {
                        converter.convert_rows(source, target, rows);
                    }
                }
            },
        );
    }

    /// First line of a column of the strip.
    fn line_of_column(&self, lines: StripLines, column: usize) -> *mut u8 {
        if self.strip.is_by_rows { lines.at(0, column) } else { lines.at(column, 0) }
    }

    /// Calls `act` with each column and its rows in device memory; with the only row's columns as rows, if they
    /// lie evenly.
    fn each_column(
        &self,
        device: &TileLines,
        element_bytes: usize,
        is_slice: bool,
        mut act: impl FnMut(usize, DeviceRows),
    ) {
        let LineStrip { columns, rows, elements, is_by_rows, .. } = *self.strip;
        let is_run = |stride| stride == LINE * element_bytes && self.strip.is_whole() && is_slice;
        match device.column_bytes() {
            // One run of memory, as the strip in scratch is.
            Some(stride) if is_by_rows && is_run(stride) => {
                act(0, DeviceRows { count: 1, elements: columns * LINE, stride });
            }
            Some(stride) if is_by_rows => {
                act(0, DeviceRows { count: columns, elements, stride });
            }
            _ => {
                let rows = DeviceRows { count: rows, elements, stride: device.row_bytes() };
                (0..columns).for_each(|column| act(column, rows));
            }
        }
    }
}

/// Rows of a column in device memory.
#[derive(Clone, Copy)]
struct DeviceRows {
    count: usize,
    elements: usize,
    stride: usize,
}
