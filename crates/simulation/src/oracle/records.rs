//! Comparison of the flight recorder with the model: nothing lost, doubled or out of order.

use spyre_flex::{Record, RecordState};
use spyre_hal::StreamPoint;

use super::{Checked, Oracle, State, broken};
use crate::violation::Promise;

impl Oracle {
    /// Compares all blocks that ended since the last time.
    pub(crate) fn compare(&mut self, records: &[Record]) -> Checked {
        self.settle_all()?;
        let mut seen = vec![0; self.lanes.len()];
        for record in records.iter().filter(|record| record.state != RecordState::Running) {
            let point = StreamPoint { stream: record.stream, sequence: record.sequence };
            let last = seen.get_mut(usize::from(record.stream.0));
            let Some(last) = last else {
                return broken(Promise::NoneDoubled, format!("{point:?} was never queued"));
            };
            check_next(*last, point)?;
            *last = record.sequence;
            let verified = self.lane(point.stream).verified;
            if record.sequence > verified {
                check_gap(verified, point)?;
                self.compare_one(point, record)?;
            }
        }
        Ok(())
    }

    fn compare_one(&mut self, point: StreamPoint, record: &Record) -> Checked {
        let lane = self.lane(point.stream);
        let Some(block) = lane.get(point.sequence) else {
            return broken(Promise::NoneDoubled, format!("{record} was never queued"));
        };
        let is_same = matches!(
            (block.state, record.state),
            (State::Done, RecordState::Done)
                | (State::Failed(_), RecordState::Failed)
                | (State::Cancelled(_), RecordState::Cancelled)
        );
        if !is_same || block.kind != record.kind {
            let state = block.state;
            let kind = block.kind;
            let message = format!("{record}, but it is a {kind} that is {state:?}");
            let promise = if state.is_ended() { Promise::RightFault } else { Promise::InOrder };
            return broken(promise, message);
        }
        lane.verified = point.sequence;
        lane.pinned = lane.pinned.max(point.sequence);
        Ok(())
    }
}

/// Blocks of a stream follow each other in the recorder.
fn check_next(last: u64, point: StreamPoint) -> Checked {
    match point.sequence {
        sequence if last == 0 || sequence == last + 1 => Ok(()),
        sequence if sequence <= last => {
            broken(Promise::NoneDoubled, format!("{point:?} ended after block {last}"))
        }
        _ => broken(Promise::NoneLost, format!("{point:?} ended right after block {last}")),
    }
}

fn check_gap(verified: u64, point: StreamPoint) -> Checked {
    if point.sequence == verified + 1 {
        Ok(())
    } else {
        broken(Promise::NoneLost, format!("nothing is recorded between {verified} and {point:?}"))
    }
}
