use crate::{BlockKind, ControlBlock, DeviceHandle, Fault};

/// Condition for a block of a [`ScriptedCard`](crate::ScriptedCard) to behave otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The n-th block that is started from now on; the next one is the first.
    Nth(u64),
    /// The next block of a kind.
    Next(BlockKind),
    /// Every block of a kind.
    Every(BlockKind),
    /// The next launch of a program, by its whole handle.
    NextLaunch(DeviceHandle),
    /// Every launch of a program, by its whole handle.
    EveryLaunch(DeviceHandle),
}

/// Behaviour of such a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// It ends with this fault and touches nothing. [`Fault::DeviceLost`] loses the device.
    Fault(Fault),
    /// It never ends by itself; an abort ends it, and so does a reset.
    Hang,
    /// It never ends by itself, and ignores aborts; only a reset ends it.
    HangForever,
    /// The device is lost: this block, those that hang and all later ones end so, until a reset.
    Lose,
    /// It writes the first half of its target and fails.
    ShortCopy,
}

/// Lines of a trigger and a behaviour; the first that fits a block is followed.
#[derive(Debug, Default)]
pub(super) struct Script {
    lines: Vec<(Trigger, Behaviour)>,
}

impl Script {
    pub(super) fn add(&mut self, trigger: Trigger, behaviour: Behaviour) {
        self.lines.push((trigger, behaviour));
    }

    pub(super) fn clear(&mut self) {
        self.lines.clear();
    }

    /// Behaviour that is written for this block, if any. Counts the block as started.
    pub(super) fn follow(&mut self, block: &ControlBlock) -> Option<Behaviour> {
        let due = self.lines.iter().position(|(trigger, _)| trigger.fits(block));
        let behaviour = due.map(|at| {
            if self.lines[at].0.is_for_one() {
                self.lines.remove(at).1
            } else {
                self.lines[at].1.clone()
            }
        });
        self.lines.retain_mut(|(trigger, _)| trigger.count_down());
        behaviour
    }
}

impl Trigger {
    fn fits(&self, block: &ControlBlock) -> bool {
        match self {
            Self::Nth(number) => *number == 1,
            Self::Next(kind) | Self::Every(kind) => *kind == block.kind(),
            Self::NextLaunch(handle) | Self::EveryLaunch(handle) => {
                matches!(block, ControlBlock::Launch { program, .. } if program == handle)
            }
        }
    }

    fn is_for_one(&self) -> bool {
        matches!(self, Self::Nth(_) | Self::Next(_) | Self::NextLaunch(_))
    }

    /// Another block was started. False once its block has passed.
    fn count_down(&mut self) -> bool {
        if let Self::Nth(number) = self {
            *number = number.saturating_sub(1);
            return *number > 0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceRange, HandleTag, Label, Pattern, VFDeviceHandle};

    fn handle(vf_offset: u64) -> DeviceHandle {
        let tag = HandleTag { epoch: 0, generation: 0, slot: 0 };
        DeviceHandle::vf(VFDeviceHandle { region_id: 0, vf_offset }, tag)
    }

    fn launch(vf_offset: u64) -> ControlBlock {
        ControlBlock::launch(handle(vf_offset), Label::default())
    }

    fn fill() -> ControlBlock {
        let target = DeviceRange::start_of(handle(0), 1);
        ControlBlock::Fill { pattern: Pattern::from(0), target }
    }

    #[test]
    fn the_nth_block_is_counted_from_now() {
        let mut script = Script::default();
        script.add(Trigger::Nth(3), Behaviour::Hang);
        script.add(Trigger::Nth(0), Behaviour::Lose);
        let followed: Vec<_> = (0..5).map(|_| script.follow(&fill())).collect();
        assert_eq!(followed, [None, None, Some(Behaviour::Hang), None, None]);
    }

    #[test]
    fn the_first_line_that_fits_is_followed_and_the_nth_passes() {
        let mut script = Script::default();
        script.add(Trigger::Next(BlockKind::Fill), Behaviour::Hang);
        script.add(Trigger::Nth(1), Behaviour::Lose);
        assert_eq!(script.follow(&fill()), Some(Behaviour::Hang));
        assert_eq!(script.follow(&fill()), None);
    }

    #[test]
    fn launches_are_known_by_their_program() {
        let mut script = Script::default();
        script.add(Trigger::NextLaunch(handle(128)), Behaviour::Hang);
        script.add(Trigger::EveryLaunch(handle(256)), Behaviour::Lose);
        assert_eq!(script.follow(&launch(0)), None);
        for expected in [Some(Behaviour::Hang), None] {
            assert_eq!(script.follow(&launch(128)), expected);
            assert_eq!(script.follow(&launch(256)), Some(Behaviour::Lose));
        }
    }

    #[test]
    fn every_block_of_a_kind_goes_on() {
        let mut script = Script::default();
        script.add(Trigger::Every(BlockKind::Launch), Behaviour::ShortCopy);
        assert_eq!(script.follow(&fill()), None);
        assert_eq!(script.follow(&launch(0)), Some(Behaviour::ShortCopy));
        assert_eq!(script.follow(&launch(1)), Some(Behaviour::ShortCopy));
        script.clear();
        assert_eq!(script.follow(&launch(1)), None);
    }
}
