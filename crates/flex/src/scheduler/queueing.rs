//! Blocks on their way into a stream's queue: checked, given places, handed over.

use std::slice;
use std::sync::Arc;

use spyre_hal::{CheckedOperands, ControlBlock, Fault, Label, StreamPoint};

use crate::allocator::{UsedWith, Uses};
use crate::stream::fences;
use crate::stream::ring::{Full, Reservation};
use crate::stream::table::{Entry, Lane};
use crate::sync::{Ordering, fence};
use crate::{Error, MemoryUse, StreamFault};

use super::{Drive, Scheduler};

impl Scheduler {
    /// Queues one block: the way of most, with nothing on it that only several need.
    #[inline]
    pub(crate) fn queue_block(
        &self,
        lane: &Lane,
        block: ControlBlock,
    ) -> Result<StreamPoint, Error> {
        self.check_block(&block)?;
        let reservation = self.reserve(lane, 1, slice::from_ref(&block))?;
        self.publish_one(lane, &reservation, block);
        Ok(self.announce(lane, 1, &reservation))
    }

    /// Queues one block and waits for it. The caller carries it out, and what is queued before it,
    /// if an engine is free: no worker is woken for that. If the wait is interrupted, memory that
    /// the block borrows is taken back, and what it was to write is poisoned.
    pub(crate) fn run_block(&self, lane: &Lane, block: ControlBlock) -> Result<(), Error> {
        self.check_wait(lane)?;
        let loan = block.loan().cloned();
        let kind = block.kind();
        let [_, written] = block.ranges();
        let sequence = self.run_if_free(lane, block)?;
        let point = StreamPoint { stream: lane.index, sequence };
        let waited = self.wait_for_block(point);
        if let (Err(Error::Interrupted { .. }), Some(loan)) = (&waited, loan)
            && loan.recall()
            && let Some(target) = written
        {
            let label = Label::default();
            let fault = Fault::Interrupted;
            let cause = Arc::new(StreamFault { point, kind, label, fault });
            self.allocator.poison(target.handle, &lane.poison_watch, &cause);
        }
        waited
    }

    /// Queues one block and carries it out, if an engine is free; else it is as any that is queued.
    pub(crate) fn run_soon(&self, lane: &Lane, block: ControlBlock) -> Result<(), Error> {
        self.run_if_free(lane, block).map(drop)
    }

    fn run_if_free(&self, lane: &Lane, block: ControlBlock) -> Result<u64, Error> {
        self.check_block(&block)?;
        let reservation = self.reserve(lane, 1, slice::from_ref(&block))?;
        self.publish_one(lane, &reservation, block);
        fence(Ordering::SeqCst);
        self.arrivals.list(lane);
        self.help(lane, reservation.first);
        Ok(reservation.first)
    }

    /// Queues a block that uses memory which it does not name, and begins it, if it is next and an engine is free: no
    /// worker is woken for that.
    pub(crate) fn queue_next(
        &self,
        lane: &Lane,
        block: ControlBlock,
        others: &[MemoryUse],
    ) -> Result<StreamPoint, Error> {
        self.check_block(&block)?;
        let blocks = slice::from_ref(&block);
        let reservation = self.reserve(lane, 1, &UsedWith { blocks, others })?;
        self.publish_one(lane, &reservation, block);
        fence(Ordering::SeqCst);
        self.arrivals.list(lane);
        self.help_on(lane);
        Ok(StreamPoint { stream: lane.index, sequence: reservation.first })
    }

    /// Queues blocks as one reservation.
    #[inline]
    pub(crate) fn queue_blocks<B>(&self, lane: &Lane, blocks: B) -> Result<StreamPoint, Error>
    where
        B: AsRef<[ControlBlock]> + IntoIterator<Item = ControlBlock>,
    {
        let slice = blocks.as_ref();
        slice.iter().try_for_each(|block| self.check_block(block))?;
        let count = slice.len() as u64;
        let reservation = self.reserve(lane, count, slice)?;
        Ok(self.publish(lane, count, &reservation, blocks))
    }

    /// Queues blocks as one reservation; the last one uses `others` besides what they name.
    #[inline]
    pub(crate) fn queue_using(
        &self,
        lane: &Lane,
        blocks: &mut Vec<ControlBlock>,
        others: &[MemoryUse],
    ) -> Result<StreamPoint, Error> {
        blocks.iter().try_for_each(|block| self.check_block(block))?;
        let count = blocks.len() as u64;
        let reservation = self.reserve_now(lane, count, &UsedWith { blocks, others })?;
        Ok(self.publish_all(lane, &reservation, blocks, checked_operands(others)))
    }

    /// Like [`queue_using`](Self::queue_using), unless the lane has failed since that epoch.
    #[inline]
    pub(crate) fn queue_unless_failed_since(
        &self,
        lane: &Lane,
        epoch: u64,
        blocks: &mut Vec<ControlBlock>,
        others: &[MemoryUse],
    ) -> Result<Option<StreamPoint>, Error> {
        blocks.iter().try_for_each(|block| self.check_block(block))?;
        let count = blocks.len() as u64;
        let reservation = self.reserve_now(lane, count, &UsedWith { blocks, others })?;
        if !lane.is_unfailed_since(epoch) {
            blocks.clear();
            self.leave_out(lane, count, &reservation);
            return Ok(None);
        }
        Ok(Some(self.publish_all(lane, &reservation, blocks, checked_operands(others))))
    }

    /// Has nothing done in places that are taken already.
    #[cold]
    fn leave_out(&self, lane: &Lane, count: u64, reservation: &Reservation) {
        let nothing = std::iter::repeat_with(|| ControlBlock::RecordEvent(None));
        self.publish(lane, count, reservation, nothing);
    }

    /// Queues blocks whose ranges are known from before.
    pub(crate) fn queue_known(
        &self,
        lane: &Lane,
        count: u64,
        uses: &[(u64, MemoryUse)],
        blocks: impl IntoIterator<Item = ControlBlock>,
    ) -> Result<StreamPoint, Error> {
        let reservation = self.reserve(lane, count, uses)?;
        Ok(self.publish(lane, count, &reservation, blocks))
    }

    /// Like [`queue_known`](Self::queue_known), unless the lane has failed since that epoch.
    pub(crate) fn queue_known_unless_failed_since(
        &self,
        lane: &Lane,
        epoch: u64,
        (count, uses): (u64, &[(u64, MemoryUse)]),
        blocks: impl IntoIterator<Item = ControlBlock>,
    ) -> Result<Option<StreamPoint>, Error> {
        let reservation = self.reserve(lane, count, uses)?;
        if !lane.is_unfailed_since(epoch) {
            self.leave_out(lane, count, &reservation);
            return Ok(None);
        }
        Ok(Some(self.publish(lane, count, &reservation, blocks)))
    }

    /// Checks ranges, takes slots and notes the uses in one step. At the bound of the queue it waits.
    #[inline]
    fn reserve(
        &self,
        lane: &Lane,
        count: u64,
        uses: &(impl Uses + ?Sized),
    ) -> Result<Reservation, Error> {
        self.reserve_or(lane, count, uses, || self.make_room(lane, count))
    }

    /// Like [`reserve`](Self::reserve), for a caller that holds locks and must not wait: refused at
    /// the queue's bound.
    #[inline]
    fn reserve_now(
        &self,
        lane: &Lane,
        count: u64,
        uses: &(impl Uses + ?Sized),
    ) -> Result<Reservation, Error> {
        self.reserve_or(lane, count, uses, || {
            let bound = lane.ring.bound();
            let full = Error::QueueFull { stream: lane.index, bound };
            Self::finds_room(lane, count).then_some(()).ok_or(full)
        })
    }

    #[inline]
    fn reserve_or(
        &self,
        lane: &Lane,
        count: u64,
        uses: &(impl Uses + ?Sized),
        make_room: impl Fn() -> Result<(), Error>,
    ) -> Result<Reservation, Error> {
        self.check_lane(lane, count)?;
        loop {
            let reserve = || lane.ring.reserve(count).map(|r| (r, r.first));
            match self.allocator.commit(uses, lane, reserve)? {
                Ok((reservation, _)) => return Ok(reservation),
                Err(Full) => make_room()?,
            }
        }
    }

    /// Hands all of the blocks over; the last one says which operands were checked.
    #[inline]
    fn publish_all(
        &self,
        lane: &Lane,
        reservation: &Reservation,
        blocks: &mut Vec<ControlBlock>,
        checked_operands: CheckedOperands,
    ) -> StreamPoint {
        let queued_at = self.queued_at();
        blocks.iter_mut().for_each(|block| block.set_checked_operands(CheckedOperands::NONE));
        if let Some(last) = blocks.last_mut() {
            last.set_checked_operands(checked_operands);
        }
        let count = blocks.len() as u64;
        lane.ring.publish_all(reservation, blocks, |block| Entry { block, queued_at });
        self.announce(lane, count, reservation)
    }

    /// Hands so many blocks over.
    #[inline]
    fn publish(
        &self,
        lane: &Lane,
        count: u64,
        reservation: &Reservation,
        blocks: impl IntoIterator<Item = ControlBlock>,
    ) -> StreamPoint {
        let queued_at = self.queued_at();
        for (nth, mut block) in (0..count).zip(blocks) {
            block.set_checked_operands(CheckedOperands::NONE);
            lane.ring.publish(reservation, nth, Entry { block, queued_at });
        }
        self.announce(lane, count, reservation)
    }

    /// Hands one block over.
    #[inline]
    fn publish_one(&self, lane: &Lane, reservation: &Reservation, mut block: ControlBlock) {
        block.set_checked_operands(CheckedOperands::NONE);
        lane.ring.publish(reservation, 0, Entry { block, queued_at: self.queued_at() });
    }

    /// The time, if it is being traced.
    #[inline]
    fn queued_at(&self) -> u64 {
        if self.is_tracing.load(Ordering::Relaxed) { self.env.now() } else { 0 }
    }

    /// Has blocks that were published carried out.
    #[inline]
    fn announce(&self, lane: &Lane, count: u64, reservation: &Reservation) -> StreamPoint {
        match self.drive {
            // Submitters hand work to each other all the time, workers seldom go to sleep.
            Drive::Inline => fence(Ordering::SeqCst),
            Drive::Workers => fences::light(),
        }
        self.arrivals.list(lane);
        self.go_on_after_fence();
        StreamPoint { stream: lane.index, sequence: reservation.first + count - 1 }
    }
}

#[inline]
fn checked_operands(uses: &[MemoryUse]) -> CheckedOperands {
    CheckedOperands::of_each(uses.iter().map(|used| &used.range))
}
