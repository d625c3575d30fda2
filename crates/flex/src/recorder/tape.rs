use crate::recorder::Record;

/// Every block that ended while it was recorded, in that order: what a
/// [recording](crate::Scheduler::start_recording) gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tape {
    /// The blocks.
    pub records: Vec<Record>,
    /// Number of blocks that ended after the tape was full.
    pub lost: u64,
    most: usize,
}

impl Tape {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    #[cold]
    pub(crate) fn push(&mut self, record: Record) {
        if self.records.len() < self.most {
            self.records.push(record);
        } else {
            self.lost += 1;
        }
    }
}
