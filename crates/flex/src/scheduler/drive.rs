//! Carrying blocks to the device: the same loop for workers, submitters and hosts that wait.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use spyre_hal::{BlockKind, ControlBlock, EngineIndex, EventCell, Fault, Loan, Started, Token};

use super::{Drive, Scheduler};
use crate::core::{End, Note, Only, Picked, Run, Wake};
use crate::stream::table::{Entry, Lane};
use crate::sync::{self, Ordering, often, spin_loop};

/// Number of times that a worker looks for the next block of a leased stream.
const PATIENCE: u32 = often(64, 2);

/// Runs that a submitter carries out before it lets another one go on with that.
const SHARE: u64 = often(32, 2) as u64;

sync::thread_local! {
    /// The scheduler whose blocks this thread carries out, by its address.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's are made when they are used")]
    static DRIVEN: Cell<usize> = Cell::new(0);
}

impl Scheduler {
    /// Carries out blocks until there are none, unless another thread is at it: then that one sees
    /// to these, too. Call it after a fence.
    pub(super) fn combine(&self) {
        self.combiner.run(|| self.drive_all());
    }

    /// Carries out a share on each engine, and says whether there may be more.
    fn drive_all(&self) -> bool {
        let mut is_more = false;
        for engine in 0..self.engines {
            is_more |= self.drive(EngineIndex(engine), None, SHARE) == SHARE;
        }
        if self.has_callback_thread.get() == Some(&false) {
            self.run_callbacks();
        }
        is_more
    }

    /// Carries out runs on an engine until there is nothing for it, or for `turns` of them; only of
    /// one stream, and only in its turn, if asked. Returns how many.
    #[inline]
    pub(super) fn drive(&self, engine: EngineIndex, only: Option<Only>, turns: u64) -> u64 {
        let before = DRIVEN.with(|driven| driven.replace(self.address()));
        let done = self.drive_turns(engine, only, turns);
        DRIVEN.with(|driven| driven.set(before));
        done
    }

    /// Returns true if this thread is carrying out a run, and a device's code asks: no other thread
    /// will end it.
    pub(super) fn is_driven_here(&self) -> bool {
        DRIVEN.with(Cell::get) == self.address()
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[inline]
    fn drive_turns(&self, engine: EngineIndex, only: Option<Only>, turns: u64) -> u64 {
        // A worker waits a little for the next block of a leased stream; others have more to do.
        let is_worker = self.drive == Drive::Workers && only.is_none();
        let patience = if is_worker { PATIENCE } else { 1 };
        let mut run = Run::default();
        let mut ended = None;
        for turn in 0.. {
            let picked = self.turn(engine, only, ended.take(), turn < turns, &mut run);
            let Some(picked) = picked else { return turn };
            let lane = self.table.get(picked.stream).expect("a stream that was picked");
            ended = Some((picked.token, self.carry_out(engine, &picked, lane, patience, &mut run)));
        }
        turns
    }

    /// Tells the state machine how a run ended, asks it for the next, and does what else it wants
    /// once the lock is free.
    #[inline]
    fn turn(
        &self,
        engine: EngineIndex,
        only: Option<Only>,
        ended: Option<(Token, End)>,
        may_pick: bool,
        run: &mut Run,
    ) -> Option<Picked> {
        let mut core = self.core.lock();
        if let Some((token, end)) = ended {
            core.finish(engine, token, end, run);
        }
        let picked = if may_pick { core.pick(engine, only, run) } else { None };
        let wakes = core.take_wakes();
        let has_callback = core.has_callback();
        let due = core.take_due_external();
        // A worker whose engine is busy cannot help: it would wake the next such in turn.
        let needed = if self.engines > 1 && self.workers.is_anyone_asleep() && core.has_ready() {
            core.free_engines()
        } else {
            0
        };
        drop(core);
        wake(wakes);
        if has_callback {
            self.call_for_callbacks();
        }
        if !due.is_empty() {
            self.begin_external(due);
        }
        if needed != 0 {
            self.workers.ring_one_of(needed);
        }
        picked
    }

    /// Starts the blocks of a run, one after another for as long as they are done at once.
    #[inline]
    fn carry_out(
        &self,
        engine: EngineIndex,
        picked: &Picked,
        lane: &Arc<Lane>,
        patience: u32,
        run: &mut Run,
    ) -> End {
        if picked.is_cancelled {
            return cancel(run, picked.started_at);
        }
        let is_timed = self.is_timed || self.is_tracing.load(Ordering::Relaxed);
        let mut nth = 0;
        while let Some(entry) = self.next_entry(lane, patience, run) {
            let started_at = if is_timed && nth > 0 { self.env.now() } else { picked.started_at };
            let mut note = Note::new(&entry, started_at);
            let started = match entry.block {
                ControlBlock::RecordEvent(cell) => self.reach(cell, &mut note, run),
                ControlBlock::WaitEvent(_)
                | ControlBlock::HostCallback(_)
                | ControlBlock::External(_) => {
                    run.entries.push(entry);
                    return End::Done;
                }
                block => {
                    note.engine = engine;
                    self.start_block(engine, Token(picked.token.0 + nth), block)
                }
            };
            if is_timed {
                note.done_at = self.env.now();
                if started == Started::Done(Ok(())) && note.kind != BlockKind::RecordEvent {
                    note.modelled_nanoseconds = self.hardware.modelled_nanoseconds(engine);
                }
            }
            match started {
                Started::Done(Ok(())) => run.notes.push(note),
                Started::Done(Err(fault)) => return End::Failed(note, fault),
                Started::Later => return End::Later(note),
            }
            // A thread that spins for it need not wait for the rest of the run. Where `start` may
            // hang there is no rest, and the stream may be past this block: given up.
            if !self.is_timed {
                lane.complete(picked.first_sequence + nth);
            }
            nth += 1;
        }
        End::Done
    }

    #[inline]
    fn reach(&self, cell: Option<Arc<EventCell>>, note: &mut Note, run: &mut Run) -> Started {
        if let Some(cell) = cell {
            note.done_at = self.env.now();
            cell.reach(note.done_at);
            run.reached.add(cell);
        }
        Started::Done(Ok(()))
    }

    /// The next block of a run: one that is in hand, or one of the leased stream.
    #[inline]
    fn next_entry(&self, lane: &Lane, patience: u32, run: &mut Run) -> Option<Entry> {
        if !run.entries.is_empty() {
            return run.entries.pop();
        }
        let cursor = run.lease.as_mut()?;
        if run.notes.is_empty() {
            // It was seen there when the stream was picked.
            return lane.ring.pop(cursor);
        }
        for look in 1..=patience {
            if run.notes.len() as u64 >= run.limit || self.arrivals.is_called() {
                return None;
            }
            if let Some(entry) = lane.ring.pop(cursor) {
                run.pace.found();
                return Some(entry);
            }
            if look < patience {
                (0..run.pace.pauses()).for_each(|_| spin_loop());
            }
        }
        None
    }

    /// Starts a block, unless the host has taken back the memory that it lent for it. A device whose
    /// code panics is a device that is lost.
    #[inline]
    fn start_block(&self, engine: EngineIndex, token: Token, block: ControlBlock) -> Started {
        if block.loan().is_some_and(|loan| !Loan::claim(loan)) {
            return leave_out(block);
        }
        let start = AssertUnwindSafe(|| self.hardware.start(engine, token, block));
        catch_unwind(start).unwrap_or_else(|panic| {
            let why = format!("its code panicked: {}", super::callbacks::message(&*panic));
            Started::Done(Err(Fault::DeviceLost { why: why.into() }))
        })
    }

    pub(super) fn start_workers(&self) {
        if self.drive == Drive::Workers {
            for engine in 0..self.engines {
                let Some(scheduler) = self.me.upgrade() else { return };
                let body = Box::new(move || scheduler.work(EngineIndex(engine)));
                let is_started = self.env.spawn(format!("spyre engine {engine}"), body);
                assert!(is_started, "a device that is not prompt needs a thread for each engine");
            }
        }
    }

    /// A worker's life.
    fn work(&self, engine: EngineIndex) {
        self.workers.register(usize::from(engine.0));
        self.awake_workers.fetch_add(1, Ordering::AcqRel);
        while !self.is_at_its_end() {
            self.look_for_blocks(engine);
            if self.is_at_its_end() {
                break;
            }
            self.awake_workers.fetch_sub(1, Ordering::AcqRel);
            self.workers.sleep(usize::from(engine.0), &*self.env, || {
                self.core.lock().has_work(engine) || self.is_at_its_end()
            });
            self.awake_workers.fetch_add(1, Ordering::AcqRel);
        }
        self.awake_workers.fetch_sub(1, Ordering::AcqRel);
        self.workers.ring_all();
        self.callbacks.ring_all();
    }

    /// Carries out what there is, and spins for more for a while.
    fn look_for_blocks(&self, engine: EngineIndex) {
        let mut looks = 0;
        while looks < self.settings.spins {
            match self.drive(engine, None, u64::MAX) {
                0 => looks += 1,
                _ => looks = 0,
            }
            spin_loop();
        }
    }

    /// Returns true if there are no more submissions, and all is done.
    pub(super) fn is_at_its_end(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst) && self.core.lock().is_idle()
    }
}

/// Drops blocks that are not to be started.
#[cold]
fn cancel(run: &mut Run, now: u64) -> End {
    while let Some(entry) = run.entries.pop() {
        run.notes.push(Note::new(&entry, now));
    }
    End::Done
}

pub(crate) fn wake(wakes: Vec<Wake>) {
    wakes.into_iter().for_each(Wake::call);
}

/// A block whose memory the host has taken back touches nothing.
#[cold]
fn leave_out(block: ControlBlock) -> Started {
    drop(block);
    Started::Done(Ok(()))
}
