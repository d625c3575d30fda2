//! Engines, and the blocks that run on them.

use spyre_hal::{EngineIndex, Fault, Outcome, StreamIndex, StreamPoint, Token};

use super::stream_state::Phase;
use super::{Core, LEASED, Note, Picked, Run};

#[derive(Debug)]
pub(super) struct EngineState {
    pub(super) running: Option<Running>,
    /// True if its last block was done at once.
    pub(super) was_done: bool,
}

/// Blocks that an engine is carrying out.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) token: u64,
    pub(super) blocks: u64,
    pub(super) is_cancelled: bool,
    pub(super) is_leased: bool,
    pub(super) first: Started,
    /// The device said that the first block will be done later.
    pub(super) is_later: bool,
    /// It may hang: `start` of a prompt device does not, whatever holds its thread up.
    pub(super) is_watched: bool,
    /// It was done before the device could say so.
    pub(super) early: Option<(u64, Outcome)>,
    /// Time that the block would have taken on a real card, once it has ended.
    pub(super) modelled_nanoseconds: u64,
    pub(super) is_abort_asked: bool,
}

/// A block that was started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started {
    pub(super) point: StreamPoint,
    pub(super) note: Note,
}

/// Action that the watchdog is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    Abort(EngineIndex),
    Lost(EngineIndex),
}

impl Running {
    /// Remainder when the block with this number is under way, and those before it are done.
    pub(super) fn later(self, sequence: u64, note: Note) -> Self {
        let StreamPoint { stream, sequence: first } = self.first.point;
        let token = self.token + (sequence - first);
        Self {
            token,
            blocks: 1,
            is_leased: false,
            is_later: true,
            first: Started { point: StreamPoint { stream, sequence }, note },
            early: self.early.filter(|(early, _)| *early == token),
            ..self
        }
    }
}

impl Core {
    /// A block that was to be done later has ended. Reports that fit nothing are ignored.
    pub(crate) fn complete(
        &mut self,
        engine: EngineIndex,
        token: Token,
        outcome: Outcome,
        modelled_nanoseconds: u64,
    ) {
        let Some(state) = self.engines.get_mut(usize::from(engine.0)) else { return };
        let Some(running) = &mut state.running else { return };
        let tokens = if running.is_leased { LEASED as u64 } else { running.blocks };
        let is_ours = (running.token..running.token + tokens).contains(&token.0);
        if is_ours {
            running.modelled_nanoseconds = modelled_nanoseconds;
        }
        if !is_ours {
            return;
        }
        if running.is_later {
            self.end_later(engine, outcome);
        } else {
            running.early = Some((token.0, outcome));
        }
    }

    /// An engine that is free.
    pub(crate) fn free_engine(&self) -> Option<EngineIndex> {
        let free = self.engines.iter().position(|engine| engine.running.is_none())?;
        Some(EngineIndex(free as u16))
    }

    /// All that are free, as bits.
    pub(crate) fn free_engines(&self) -> u64 {
        let free = self.engines.iter().enumerate().filter(|(_, engine)| engine.running.is_none());
        free.map(|(at, _)| 1 << at).sum()
    }

    /// Returns true if a thread takes a stream's blocks without the lock.
    pub(crate) fn is_leased(&self) -> bool {
        self.engines.iter().any(|engine| engine.running.as_ref().is_some_and(|run| run.is_leased))
    }

    /// Returns true if blocks that are known to be done are not noted yet: those of runs with
    /// tokens before this one. The thread that carries out such a run notes them when it comes back
    /// with the rest of it.
    pub(crate) fn is_behind(&self, before: Token) -> bool {
        let running = self.engines.iter().filter_map(|engine| engine.running.as_ref());
        running.filter(|running| running.token < before.0 && !running.is_later).any(|running| {
            let StreamPoint { stream, sequence } = running.first.point;
            self.streams[usize::from(stream.0)].lane.is_done(sequence)
        })
    }

    /// The next run's token.
    pub(crate) fn next_token(&self) -> Token {
        Token(self.next_token)
    }

    /// Asks the thread that carries out a stream without the lock to come back.
    pub(crate) fn call_back(&self) {
        if self.is_leased() {
            self.arrivals.call();
        }
    }

    /// The block that an engine has, if that was found to be overdue.
    pub(crate) fn to_be_aborted(&self, engine: EngineIndex) -> Option<Token> {
        let running = self.engines[usize::from(engine.0)].running.as_ref();
        running.filter(|running| running.is_abort_asked).map(|running| Token(running.token))
    }

    /// Engines whose block has been running for longer than `limit` nanoseconds; one that did not
    /// heed an abort after as long again is given up, and the device with it.
    pub(crate) fn overdue(&mut self, limit: u64) -> Vec<Overdue> {
        let now = self.env.now();
        let mut overdue = Vec::new();
        for (at, engine) in self.engines.iter_mut().enumerate() {
            let Some(running) = engine.running.as_mut().filter(|r| r.is_watched) else { continue };
            let engine = EngineIndex(at as u16);
            let elapsed = now.saturating_sub(running.first.note.started_at);
            if elapsed > limit && !running.is_abort_asked {
                running.is_abort_asked = true;
                overdue.push(Overdue::Abort(engine));
            } else if elapsed > limit.saturating_mul(2) && running.is_abort_asked {
                overdue.push(Overdue::Lost(engine));
            }
        }
        for late in overdue.clone() {
            if let Overdue::Lost(engine) = late {
                self.give_up(engine, now);
            }
        }
        overdue
    }

    #[inline]
    pub(super) fn begin(
        &mut self,
        engine: EngineIndex,
        stream: StreamIndex,
        is_cancelled: bool,
        note: Note,
        run: &mut Run,
    ) -> Picked {
        let started_at = if self.is_timed || self.is_tracing {
            // The block before it has just ended, and the clock costs as much as a small block.
            run.ended_at.take().unwrap_or_else(|| self.env.now())
        } else {
            0
        };
        let state = &mut self.streams[usize::from(stream.0)];
        state.phase = Phase::Busy;
        // Of a lease that has none the first is still in the ring, and in hand.
        let blocks = run.entries.len().max(1) as u64;
        let sequence = state.taken() + 1 - blocks;
        let token = self.next_token;
        let is_leased = run.lease.is_some();
        self.next_token += if is_leased { LEASED as u64 } else { blocks };
        #[expect(
            clippy::unnecessary_lazy_evaluations,
            reason = "the engine is free: it is made in its place, and not copied there"
        )]
        self.engines[usize::from(engine.0)].running.get_or_insert_with(|| Running {
            token,
            blocks,
            is_cancelled,
            is_leased,
            first: Started {
                point: StreamPoint { stream, sequence },
                note: Note { engine, started_at, done_at: started_at, ..note },
            },
            is_later: false,
            is_watched: self.is_timed,
            early: None,
            modelled_nanoseconds: 0,
            is_abort_asked: false,
        });
        Picked { stream, token: Token(token), first_sequence: sequence, is_cancelled, started_at }
    }

    /// The block with this number is under way, and those before it are done.
    pub(super) fn wait_for(&mut self, engine: EngineIndex, sequence: u64, note: Note) {
        let state = &mut self.engines[usize::from(engine.0)];
        let Some(running) = state.running.take() else { return };
        let mut running = running.later(sequence, note);
        running.first.note.started_at = self.env.now();
        running.is_watched = true;
        running.is_abort_asked = false;
        let early = running.early.take();
        let state = &mut self.engines[usize::from(engine.0)];
        state.running = Some(running);
        state.was_done = false;
        if let Some((_, outcome)) = early {
            self.end_later(engine, outcome);
        }
    }

    pub(super) fn end_later(&mut self, engine: EngineIndex, outcome: Outcome) {
        let Some(mut running) = self.engines[usize::from(engine.0)].running.take() else { return };
        let now = self.env.now();
        running.first.note.done_at = now;
        running.first.note.modelled_nanoseconds = running.modelled_nanoseconds;
        let outcome = outcome.map_err(|fault| running.first.note.timed(fault));
        let StreamPoint { stream, sequence } = running.first.point;
        self.end_with(stream, sequence, &running.first.note, outcome);
    }

    pub(super) fn give_up(&mut self, engine: EngineIndex, now: u64) {
        let Some(mut running) = self.engines[usize::from(engine.0)].running.take() else { return };
        running.first.note.done_at = now;
        let milliseconds = now.saturating_sub(running.first.note.started_at) / 1_000_000;
        let why = format!("a block hung for {milliseconds} ms and did not heed an abort");
        let StreamPoint { stream, sequence } = running.first.point;
        let fault = Fault::DeviceLost { why: why.into() };
        self.end_with(stream, sequence, &running.first.note, Err(fault));
        // Blocks of the run that the device never let go on are gone, too.
        self.publish(stream, sequence + running.blocks - 1);
    }
}
