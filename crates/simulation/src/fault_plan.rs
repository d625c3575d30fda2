use crate::random::Random;

/// Rates of faults: blocks in a million, but for the last three.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// A block ends with a data fault and touches nothing.
    pub data: u64,
    /// A block writes the first half of its target and fails.
    pub short_copy: u64,
    /// A block ends with a fault that its stream must be reset for.
    pub structural: u64,
    /// A block hangs until it is aborted.
    pub hang: u64,
    /// A block hangs and does not heed an abort.
    pub hang_forever: u64,
    /// The device is lost.
    pub loss: u64,
    /// A host callback fails: one in so many; zero for none.
    pub callback: u64,
    /// The card refuses a region: one in so many; zero for none.
    pub region: u64,
    /// The clock jumps: one in so many operations; zero for none.
    pub clock_jump: u64,
}

/// Fault that is planned for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BlockFault {
    Data,
    ShortCopy,
    Structural,
    Hang,
    HangForever,
    Loss,
}

impl FaultPlan {
    /// Now and then one of each.
    pub fn usual() -> Self {
        Self {
            data: 1200,
            short_copy: 800,
            structural: 500,
            hang: 200,
            hang_forever: 40,
            loss: 40,
            callback: 8,
            region: 6,
            clock_jump: 2000,
        }
    }

    /// Ten times as often.
    pub fn stormy() -> Self {
        let usual = Self::usual();
        Self {
            data: 10 * usual.data,
            short_copy: 10 * usual.short_copy,
            structural: 10 * usual.structural,
            hang: 10 * usual.hang,
            hang_forever: 10 * usual.hang_forever,
            loss: 10 * usual.loss,
            callback: 2,
            region: 2,
            clock_jump: 200,
        }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> Option<BlockFault> {
        let mut number = random.below(1_000_000);
        let rates = [
            (self.data, BlockFault::Data),
            (self.short_copy, BlockFault::ShortCopy),
            (self.structural, BlockFault::Structural),
            (self.hang, BlockFault::Hang),
            (self.hang_forever, BlockFault::HangForever),
            (self.loss, BlockFault::Loss),
        ];
        for (rate, fault) in rates {
            if number < rate {
                return Some(fault);
            }
            number -= rate;
        }
        None
    }
}

/// One in so many times, where zero means never.
pub(crate) fn is_due(one_in: u64, random: &mut Random) -> bool {
    one_in > 0 && random.one_in(one_in)
}
