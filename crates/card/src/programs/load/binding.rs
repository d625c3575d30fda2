use std::fmt;
use std::sync::Arc;

use spyre_artifact::{EntryHeader, MAX_DIMS, OPERAND_WORDS, Operand};
use spyre_hal::{CheckedOperands, DeviceHandle, DeviceRange, Fault};
use zerocopy::IntoBytes;

use crate::memory::{MemorySlice, RegionAddress, Window};
use crate::programs::access::operand::Tensor;
use crate::programs::execute::contiguous::Flat;
use crate::programs::load::allocations::Programs;
use crate::programs::load::code::LoadedCode;
use crate::programs::load::decoded_image::{DecodedImage, LoadedImage};
use crate::programs::load::limits;
use crate::programs::load::piece_table::PieceTable;
use crate::programs::schedule::launch_buffers::LaunchBuffers;
use crate::programs::schedule::pattern;
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::stop::handle_of;
use crate::programs::schedule::tile_steps::TileSteps;
use crate::programs::schedule::traffic;
use crate::work::Work;

/// Data that a launch derived from its instance's table. The next launch derives anew what differs.
#[derive(Default)]
pub(in crate::programs) struct LaunchBinding {
    code: Option<Arc<DecodedImage>>,
    /// Table that the rest was derived from, if it is whole.
    table: Vec<u64>,
    is_whole: bool,
    /// Table that lies in device memory now.
    found: Vec<u64>,
    pub(in crate::programs) extents: [usize; MAX_DIMS],
    pub(in crate::programs) steps: TileSteps,
    /// `None` for a tensor without elements, which no tile is of.
    tensors: Vec<Option<Tensor>>,
    /// All of the regions that tensors lie in, open while a program runs.
    windows: Vec<(u16, Window)>,
    /// Start of each tensor: the index of its window, and bytes from there.
    starts: Vec<(usize, usize)>,
    pub(in crate::programs) plan: PieceTable,
    pub(in crate::programs) flat: Option<Flat>,
    /// Buffers that stay here while they are small.
    buffers: LaunchBuffers,
    /// Ranges that the tensors may touch, for the allocator, which knows the handles.
    ranges: Vec<DeviceRange>,
    /// The allocations for programs that stores were compared with.
    plain_as_of: Option<u64>,
    /// Modelled nanoseconds on a real card.
    modelled_nanoseconds: u64,
}

impl LaunchBinding {
    /// Makes it what the instance at `entry` says now, and checks all that can be checked before
    /// anything runs.
    pub(in crate::programs) fn update(
        &mut self,
        work: &Work<'_>,
        entry: DeviceHandle,
        header: &EntryHeader,
        checked_operands: CheckedOperands,
    ) -> Result<(), Stop> {
        self.is_whole &= self.code.as_ref().is_some_and(|code| code.is_current());
        if !self.is_whole {
            self.forget();
            self.code = Some(work.loaded(handle_of(header.code, "code image")?)?);
            header.check_program(self.code()?.program())?;
        }
        self.read_table(work, entry, header)?;
        if !self.is_whole || self.found != self.table {
            self.is_whole = false;
            self.bind(header, work.programs.most_work()).inspect_err(|_| self.forget())?;
            std::mem::swap(&mut self.table, &mut self.found);
            self.plain_as_of = None;
            self.is_whole = true;
        }
        self.check_handles(work, checked_operands)?;
        self.open(work)
    }

    pub(in crate::programs) fn code(&self) -> Result<&LoadedCode, Stop> {
        match self.code.as_deref().map(DecodedImage::image) {
            Some(LoadedImage::Code(code)) => Ok(code),
            _ => Err(Stop::refused("what it names as its code is none")),
        }
    }

    /// The word table.
    pub(in crate::programs) fn table(&self) -> &[u64] {
        &self.table
    }

    /// A tensor, and its bytes; `None` if it has no elements.
    pub(in crate::programs) fn tensor(
        &self,
        operand: Operand,
    ) -> Option<(&Tensor, MemorySlice<'_>)> {
        let tensor = self.tensors.get(operand.index())?.as_ref()?;
        let &(window, start) = self.starts.get(operand.index())?;
        let bytes = tensor.range().bytes as usize;
        Some((tensor, self.windows.get(window)?.1.part(start, bytes)?))
    }

    /// Buffers for a launch: those of the last one, or some of another instance.
    pub(in crate::programs) fn take_buffers(&mut self, programs: &Programs) -> LaunchBuffers {
        let buffers = std::mem::take(&mut self.buffers);
        if buffers.is_empty() { programs.buffers() } else { buffers }
    }

    /// Small buffers stay, so that the next launch has them at hand; large ones are for all.
    pub(in crate::programs) fn give_back(&mut self, buffers: LaunchBuffers, programs: &Programs) {
        if buffers.is_small() {
            self.buffers = buffers;
        } else {
            programs.give_back(buffers);
        }
    }

    /// Modelled nanoseconds of a launch on a real card.
    pub(in crate::programs) fn modelled_nanoseconds(&self) -> u64 {
        self.modelled_nanoseconds
    }

    /// Lets device memory go.
    pub(in crate::programs) fn close(&mut self) {
        self.windows.clear();
        self.starts.clear();
    }

    /// Keeps nothing that the next launch could rely on.
    fn forget(&mut self) {
        self.tensors.clear();
        self.table.clear();
        self.is_whole = false;
    }

    fn read_table(
        &mut self,
        work: &Work<'_>,
        entry: DeviceHandle,
        header: &EntryHeader,
    ) -> Result<(), Stop> {
        self.found.resize(header.shape.words(), 0);
        let offset = header.table_offset() as u64;
        let bytes = header.shape.bytes() as u64;
        let range = DeviceRange { handle: entry, offset, bytes };
        let RegionAddress { region, start } = work.memory.place(&range)?;
        let illegal = || Fault::IllegalAccess { range };
        self.windows.clear();
        self.windows.push((region, work.memory.region(region).ok_or_else(illegal)?));
        let words = self.found.as_mut_bytes();
        let part = self.windows[0].1.part(start as usize, words.len()).ok_or_else(illegal)?;
        part.read(0, words);
        Ok(())
    }

    fn bind(&mut self, header: &EntryHeader, most_work: u64) -> Result<(), Stop> {
        let code = self.code.take();
        let bound = match code.as_deref().map(DecodedImage::image) {
            Some(LoadedImage::Code(code)) => self.bind_to(header, code, most_work),
            _ => Err(Stop::refused("what it names as its code is none")),
        };
        self.code = code;
        bound
    }

    fn bind_to(
        &mut self,
        header: &EntryHeader,
        code: &LoadedCode,
        most_work: u64,
    ) -> Result<(), Stop> {
        let program = code.program();
        let mut extents = [0; MAX_DIMS];
        for (at, extent) in extents.iter_mut().enumerate().take(program.dims()) {
            let word = self.found[header.shape.extent_word(spyre_artifact::Dim(at as u8))];
            *extent = usize::try_from(word).unwrap_or(usize::MAX);
        }
        let is_as_long = extents == self.extents && !self.table.is_empty();
        if !is_as_long {
            limits::check_work(program, &extents, most_work)?;
        }
        self.extents = extents;
        self.tensors.resize_with(program.operands().len(), || None);
        self.ranges.clear();
        let mut has_changed = !is_as_long;
        for (at, (&of, tensor)) in program.operands().iter().zip(&mut self.tensors).enumerate() {
            let words = &self.found[header.shape.operand_words(Operand(at as u8))];
            let words = words.first_chunk::<OPERAND_WORDS>().expect("as long as an operand");
            let is_moved = is_as_long && tensor.as_mut().is_some_and(|known| known.move_to(words));
            if !is_moved {
                *tensor = Tensor::bind(at, of, words, &extents)?;
                let has_axes = code.is_indexed(at) || code.is_multiplied(at) || code.has_strips();
                if let Some(tensor) = tensor.as_mut().filter(|_| has_axes) {
                    tensor.prepare_axes(of.span, &extents);
                }
                has_changed = true;
            }
            self.ranges.extend(tensor.as_ref().map(Tensor::range));
        }
        if !is_as_long {
            let memory_bytes =
                self.ranges.iter().map(|range| range.bytes).fold(0, u64::saturating_add);
            let checked = limits::check_tiles(program, &extents, memory_bytes);
            checked.inspect_err(|_| self.table.clear())?; // the extents are not known as good ones
        }
        if !is_as_long {
            self.steps = TileSteps::of(program, &self.extents);
        }
        if has_changed {
            self.plan = PieceTable::of(program, &self.extents, &self.steps, &self.tensors);
            self.flat = Flat::of(program, &self.extents, &self.tensors);
        }
        // Scalars say what is skipped.
        let scalars = header.shape.words() - header.shape.scalars..;
        if has_changed || self.table.get(scalars.clone()) != self.found.get(scalars) {
            let scalar = |word| self.found[header.shape.scalar_word(word)];
            let traffic = traffic::of(code, &self.extents, &self.tensors, scalar);
            let pattern = pattern::of(code.program(), &self.extents, &self.tensors);
            self.modelled_nanoseconds = traffic.nanoseconds(pattern);
        }
        Ok(())
    }

    /// Checks that the handles are good ones, and that none that is written leads to programs.
    fn check_handles(
        &mut self,
        work: &Work<'_>,
        checked_operands: CheckedOperands,
    ) -> Result<(), Stop> {
        // The allocator is busy on another core: handles that the scheduler has checked are not looked up
        // again.
        if !checked_operands.is_for(&self.ranges) {
            self.ask_for_handles(work)?;
        }
        let changes = work.programs.changes();
        if self.plain_as_of != Some(changes) {
            self.check_stores(work)?;
            self.plain_as_of = Some(changes);
        }
        Ok(())
    }

    fn ask_for_handles(&self, work: &Work<'_>) -> Result<(), Stop> {
        let refused = work.programs.allocations();
        let refused = refused.and_then(|allocations| allocations.first_refused(&self.ranges));
        let Some((nth, why)) = refused else { return Ok(()) };
        let operand = self.tensors.iter().flatten().nth(nth).map_or(0, Tensor::operand);
        Err(Stop::operand(operand, why))
    }

    fn check_stores(&self, work: &Work<'_>) -> Result<(), Stop> {
        for tensor in self.tensors.iter().flatten().filter(|tensor| tensor.is_written()) {
            let range = tensor.range();
            if !work.programs.is_plain(work.memory.place(&range)?, range.bytes) {
                let why = format!("it would store to {range}, which holds programs");
                return Err(Stop::operand(tensor.operand(), why));
            }
        }
        Ok(())
    }

    fn open(&mut self, work: &Work<'_>) -> Result<(), Stop> {
        self.starts.clear();
        for tensor in &self.tensors {
            let Some(tensor) = tensor else {
                self.starts.push((0, 0));
                continue;
            };
            let outside = || {
                let why = format!("{} are not in memory that is there", tensor.range());
                Stop::operand(tensor.operand(), why)
            };
            let RegionAddress { region, start } =
                work.memory.place(&tensor.range()).map_err(|_| outside())?;
            let known = self.windows.iter().position(|(open, _)| *open == region);
            let at = match known {
                Some(at) => at,
                None => {
                    self.windows.push((region, work.memory.region(region).ok_or_else(outside)?));
                    self.windows.len() - 1
                }
            };
            let start = usize::try_from(start).map_err(|_| outside())?;
            let bytes = usize::try_from(tensor.range().bytes).map_err(|_| outside())?;
            self.windows[at].1.part(start, bytes).ok_or_else(outside)?;
            self.starts.push((at, start));
        }
        Ok(())
    }
}

impl fmt::Debug for LaunchBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LaunchBinding({} tensors)", self.tensors.len())
    }
}
