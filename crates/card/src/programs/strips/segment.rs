//! A segment in the making: values, their readers, and the place of each.

use smallvec::SmallVec;
use spyre_artifact::{Instruction, Lane, Operand, Program, Register, Span, Touch};
use spyre_numerics::DataFormat;

use crate::programs::schedule::reuse::touched;
use crate::programs::strips::plan::{DeviceTile, OpKind, Place, Readers, StripOp, StripSegment};

/// Registers that a program has at most.
const REGISTERS: usize = 64;

/// Gathers strip operations until one cannot follow, and gives each value a place.
pub(super) struct SegmentBuilder<'a> {
    program: &'a Program,
    wide: Span,
    values: Vec<DraftValue>,
    ops: Vec<DraftOp>,
    sources: Vec<DeviceTile>,
    targets: Vec<DeviceTile>,
    recalled: Vec<Operand>,
    /// DraftValue that each register holds, if an operation of this segment made it.
    current: [Option<usize>; REGISTERS],
    /// Kept tile that each register's value is, if it is one.
    kept: [Option<u8>; REGISTERS],
    /// Registers that were read from outside, that were written, and that were reduced to.
    read: u64,
    written: u64,
    reduced: u64,
}

struct DraftValue {
    register: Register,
    /// Operation that makes it.
    made_by: usize,
    last_read: Option<usize>,
    reads: usize,
    keep: Option<u8>,
    place: Option<Place>,
}

struct DraftOp {
    kind: OpKind,
    target: Drafted,
    sources: SmallVec<[Drafted; 3]>,
}

#[derive(Clone, Copy)]
enum Drafted {
    Value(usize),
    Place(Place),
}

impl<'a> SegmentBuilder<'a> {
    pub(super) fn new(program: &'a Program, wide: Span) -> Self {
        Self {
            program,
            wide,
            values: Vec::new(),
            ops: Vec::new(),
            sources: Vec::new(),
            targets: Vec::new(),
            recalled: Vec::new(),
            current: [None; REGISTERS],
            kept: [None; REGISTERS],
            read: 0,
            written: 0,
            reduced: 0,
        }
    }

    /// Returns true if an operation can be in this segment.
    pub(super) fn takes(&self, instruction: Instruction) -> bool {
        let (reads, _) = touched(instruction);
        let is_reduced = match instruction {
            Instruction::Reduce { source, .. } => self.reduced >> source.index() & 1 == 1,
            _ => reads & self.reduced != 0,
        };
        // A load sees all that was stored before.
        let is_load = matches!(instruction, Instruction::Load { .. });
        !is_reduced && (!is_load || self.targets.is_empty())
    }

    /// Returns true if an instruction on whole tiles can be carried out before all of this segment.
    pub(super) fn can_follow(&self, instruction: Instruction) -> bool {
        let (reads, writes) = touched(instruction);
        let stays = match instruction {
            Instruction::Store { .. } | Instruction::Scatter { .. } => self.ops.is_empty(),
            Instruction::Load { .. } | Instruction::Gather { .. } | Instruction::Dot { .. } => {
                self.targets.is_empty()
            }
            _ => true,
        };
        let made = self.written | self.reduced;
        stays && reads & made == 0 && writes & (made | self.read) == 0
    }

    /// Notes that registers were written outside of the segment.
    pub(super) fn forget(&mut self, written: u64) {
        for at in (0..REGISTERS).filter(|at| written >> at & 1 == 1) {
            self.kept[at] = None;
            self.current[at] = None;
        }
    }

    /// Notes that a register's value is a tile that was kept.
    pub(super) fn recall(&mut self, register: Register, value: u8, instruction: Instruction) {
        if let Instruction::Load { source, .. } = instruction {
            self.recalled.push(source);
        }
        self.current[register.index()] = None;
        self.kept[register.index()] = Some(value);
        self.written |= 1 << register.index();
    }

    /// Adds an instruction as an operation; its result is kept as a value, perhaps.
    pub(super) fn push(
        &mut self,
        at: usize,
        instruction: Instruction,
        kind: OpKind,
        keep: Option<u8>,
    ) {
        match instruction {
            Instruction::Load { target, source } => {
                let from = Place::Source(self.sources.len());
                self.sources.push(DeviceTile { at, operand: source });
                let kind = if self.is_plain(source) { OpKind::Copy } else { kind };
                self.make(kind, target, [Drafted::Place(from)].into_iter().collect(), keep);
            }
            Instruction::Store { target, source } => {
                let to = Place::Target(self.targets.len());
                self.targets.push(DeviceTile { at, operand: target });
                let kind = if self.is_plain(target) { OpKind::Copy } else { kind };
                let from = self.read(source);
                let sources = [from].into_iter().collect();
                self.ops.push(DraftOp { kind, target: Drafted::Place(to), sources });
            }
            Instruction::Reduce { op, target, source } => {
                let from = self.read(source);
                self.reduced |= 1 << target.index();
                let target = Drafted::Place(Place::Reduced(op, target));
                self.ops.push(DraftOp { kind, target, sources: [from].into_iter().collect() });
            }
            _ => {
                let mut bare = instruction;
                let mut read = SmallVec::<[Register; 3]>::new();
                let mut target = None;
                bare.touch_registers(|touch, register| match touch {
                    Touch::Write => target = Some(*register),
                    _ => read.push(*register),
                });
                let sources = read.into_iter().map(|register| self.read(register)).collect();
                let target = target.expect("operations of strips write one register");
                self.make(kind, target, sources, keep);
            }
        }
    }

    /// Ends the segment, if it has operations. `is_read` tells if later instructions read a register.
    pub(super) fn finish(
        &mut self,
        is_read: impl Fn(Register, Readers) -> bool,
    ) -> Option<StripSegment> {
        self.read = 0;
        self.written = 0;
        self.reduced = 0;
        let current = std::mem::replace(&mut self.current, [None; REGISTERS]);
        let mut values = std::mem::take(&mut self.values);
        let mut ops = std::mem::take(&mut self.ops);
        let sources = std::mem::take(&mut self.sources);
        let targets = std::mem::take(&mut self.targets);
        let recalled = std::mem::take(&mut self.recalled);
        if ops.is_empty() {
            return None;
        }
        for &value in current.iter().flatten() {
            let DraftValue { register, keep, .. } = values[value];
            let place = Place::Tile(register);
            match keep {
                Some(kept) if is_read(register, Readers::Steps) => {
                    let is_bool = self.program.register(register).lane == Lane::Bool;
                    let kind = if is_bool { OpKind::CopyBools } else { OpKind::Copy };
                    let sources = [Drafted::Place(Place::Kept(kept))].into_iter().collect();
                    ops.push(DraftOp { kind, target: Drafted::Place(place), sources });
                }
                None if is_read(register, Readers::All) => values[value].place = Some(place),
                _ => {}
            }
        }
        for value in values.iter_mut().filter(|value| value.place.is_none()) {
            value.place = value.keep.map(Place::Kept);
        }
        fold_loads(&mut values, &mut ops);
        fold_stores(&mut values, &mut ops);
        let is_known = |value: &DraftValue| matches!(value.place, None | Some(Place::Tile(_)));
        let is_in_tiles = sources.is_empty()
            && targets.is_empty()
            && recalled.is_empty()
            && values.iter().all(is_known)
            && !ops.iter().flat_map(|op| &op.sources).any(is_kept);
        join_chains(&mut values, &ops, is_in_tiles);
        let is_bool = |register| self.program.register(register).lane == Lane::Bool;
        let scratch = place_in_scratch(&mut values, &ops, is_bool);
        let mut segment = StripSegment {
            sources,
            targets,
            recalled,
            scratch,
            is_in_tiles,
            ops: Vec::new(),
            places: Vec::new(),
        };
        for op in ops.iter().filter(|op| !is_idle(op, &values)) {
            segment.push(op, &values);
        }
        Some(segment)
    }

    /// Returns true if an operand holds float32.
    fn is_plain(&self, operand: Operand) -> bool {
        self.program.operand(operand).format == DataFormat::IeeeFp32
    }

    fn read(&mut self, register: Register) -> Drafted {
        let at = register.index();
        if let Some(value) = self.current[at] {
            self.values[value].reads += 1;
            self.values[value].last_read = Some(self.ops.len());
            return Drafted::Value(value);
        }
        if let Some(kept) = self.kept[at] {
            return Drafted::Place(Place::Kept(kept));
        }
        self.read |= 1 << at;
        let is_wide = self.program.register(register).span == self.wide;
        Drafted::Place(if is_wide { Place::Tile(register) } else { Place::Narrow(register) })
    }

    fn make(
        &mut self,
        kind: OpKind,
        register: Register,
        sources: SmallVec<[Drafted; 3]>,
        keep: Option<u8>,
    ) {
        let value = self.values.len();
        self.values.push(DraftValue {
            register,
            made_by: self.ops.len(),
            last_read: None,
            reads: 0,
            keep,
            place: None,
        });
        self.ops.push(DraftOp { kind, target: Drafted::Value(value), sources });
        self.current[register.index()] = Some(value);
        self.kept[register.index()] = keep;
        self.written |= 1 << register.index();
    }
}

/// Has float32 that are loaded be read where they lie, if all that reads them comes before the next store.
fn fold_loads(values: &mut [DraftValue], ops: &mut [DraftOp]) {
    for value in values.iter_mut().filter(|value| value.place.is_none()) {
        let load = &ops[value.made_by];
        let [Drafted::Place(source @ Place::Source(_))] = load.sources[..] else { continue };
        let is_store = |op: &DraftOp| matches!(op.target, Drafted::Place(Place::Target(_)));
        let next_store = ops.iter().position(is_store).unwrap_or(ops.len());
        let is_read_in_time = value.last_read.is_none_or(|read| read <= next_store);
        if load.kind == OpKind::Copy && is_read_in_time {
            value.place = Some(source);
        }
    }
}

/// Has results that are stored at once, and read by nothing else, be made where they are stored.
fn fold_stores(values: &mut [DraftValue], ops: &mut [DraftOp]) {
    for at in 1..ops.len() {
        let (before, store) = ops.split_at_mut(at);
        let store = &mut store[0];
        let (Drafted::Place(target @ Place::Target(_)), [Drafted::Value(made)]) =
            (store.target, &store.sources[..])
        else {
            continue;
        };
        let value = &mut values[*made];
        let is_last = value.made_by == at - 1 && value.reads == 1 && value.place.is_none();
        let makes_floats = !matches!(before[at - 1].kind, OpKind::Load(_));
        if store.kind == OpKind::Copy && is_last && makes_floats {
            value.place = Some(target);
        }
    }
}

fn is_kept(drafted: &Drafted) -> bool {
    matches!(drafted, Drafted::Place(Place::Kept(_)))
}

/// Has values that only a function in place reads be made where its result is kept, or in its register if strips of
/// registers are runs of elements.
fn join_chains(values: &mut [DraftValue], ops: &[DraftOp], is_in_tiles: bool) {
    for (at, op) in ops.iter().enumerate().rev() {
        let (OpKind::Unary(_), Drafted::Value(made), [Drafted::Value(source)]) =
            (op.kind, op.target, &op.sources[..])
        else {
            continue;
        };
        let place = values[made].place;
        let value = &mut values[*source];
        let is_last = value.last_read == Some(at) && value.place.is_none();
        let reads_it = |op: &DraftOp| {
            op.sources
                .iter()
                .any(|source| matches!(*source, Drafted::Place(of) if Some(of) == place))
        };
        let is_free = match place {
            Some(Place::Kept(_)) => true,
            Some(Place::Tile(_)) => is_in_tiles && !ops[value.made_by + 1..at].iter().any(reads_it),
            _ => false,
        };
        if is_last && is_free {
            value.place = place;
        }
    }
}

/// Gives the rest of the values strips of their own, which are used again after the last read.
fn place_in_scratch(
    values: &mut [DraftValue],
    ops: &[DraftOp],
    is_bool: impl Fn(Register) -> bool,
) -> usize {
    let mut free_from: Vec<usize> = Vec::new();
    for (at, op) in ops.iter().enumerate() {
        let Drafted::Value(value) = op.target else { continue };
        let value = &mut values[value];
        if value.place.is_some() {
            continue;
        }
        // A strip that this operation reads last may be the one that it writes.
        let slot = free_from.iter().position(|&free| free <= at).unwrap_or_else(|| {
            free_from.push(0);
            free_from.len() - 1
        });
        free_from[slot] = value.last_read.unwrap_or(at);
        let is_bool = is_bool(value.register);
        value.place = Some(if is_bool { Place::BoolScratch(slot) } else { Place::Scratch(slot) });
    }
    free_from.len()
}

/// Returns true for an operation that leaves nothing to do: its result lies where it is read.
fn is_idle(op: &DraftOp, values: &[DraftValue]) -> bool {
    let is_there = op.kind == OpKind::Copy
        && op.sources.iter().all(|&source| place_of(source, values) == place_of(op.target, values));
    let is_unread = match op.target {
        Drafted::Value(value) => {
            values[value].reads == 0
                && matches!(values[value].place, Some(Place::Scratch(_) | Place::BoolScratch(_)))
        }
        Drafted::Place(_) => false,
    };
    is_there || is_unread
}

impl StripSegment {
    fn push(&mut self, op: &DraftOp, values: &[DraftValue]) {
        let sources =
            op.sources.iter().map(|&source| self.index(place_of(source, values))).collect();
        let target = self.index(place_of(op.target, values));
        self.ops.push(StripOp { kind: op.kind, target, sources });
    }

    /// Index of a place, which is new if it is a reduction's.
    fn index(&mut self, place: Place) -> usize {
        let is_shared = !matches!(place, Place::Reduced(..));
        let known = self.places.iter().position(|known| is_shared && *known == place);
        known.unwrap_or_else(|| {
            self.places.push(place);
            self.places.len() - 1
        })
    }
}

fn place_of(drafted: Drafted, values: &[DraftValue]) -> Place {
    match drafted {
        Drafted::Place(place) => place,
        Drafted::Value(value) => values[value].place.unwrap_or(Place::Scratch(0)),
    }
}
