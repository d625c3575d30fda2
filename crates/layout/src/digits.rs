//! The map from host elements to device elements, as a number written in mixed radix.
//!
//! A stride map says how many host elements one step along each device dimension spans. Taken from
//! the largest to the smallest, these spans are the places of a number system: a host element is
//! written in it by division, digit by digit, and each digit is a coordinate on the device. Tiling,
//! folding, over-padding and permuted hosts are all this one rule.

mod reciprocal;

use smallvec::SmallVec;

pub(crate) use reciprocal::Reciprocal;

use crate::{ElementArrangement, Error};

/// One place of the number system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digit {
    /// The device dimension that it stands for.
    pub(crate) dim: usize,
    /// Host elements per step.
    pub(crate) radix: usize,
    /// Steps that the device has room for.
    pub(crate) extent: usize,
    /// Device elements per step.
    pub(crate) stride: usize,
}

/// A device dimension that holds the same elements over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) extent: usize,
    pub(crate) stride: usize,
}

/// All places, largest radix first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digits {
    levels: SmallVec<[Digit; 6]>,
    /// Radices of the places, for divisions by them.
    reciprocals: SmallVec<[Reciprocal; 6]>,
    replicas: SmallVec<[Replica; 1]>,
    /// Reason why copies are refused, if they are.
    refused: Option<Box<Error>>,
}

impl Digits {
    /// The digits of a device shape; `stride_map` is in host elements.
    pub(crate) fn new(
        device_size: &[usize],
        stride_map: &[i64],
        arrangement: ElementArrangement,
    ) -> Self {
        let mut digits = Self::default();
        let mut stride = 1;
        for (dim, (&extent, &radix)) in device_size.iter().zip(stride_map).enumerate().rev() {
            match radix {
                _ if extent == 1 => {}
                // Room for nothing: no element has a place.
                _ if extent == 0 => digits.levels.push(Digit { dim, radix: 1, extent, stride }),
                0 => digits.replicas.push(Replica { extent, stride }),
                1.. => digits.levels.push(Digit { dim, radix: radix as usize, extent, stride }),
                _ => {}
            }
            stride *= extent.max(1);
        }
        match arrangement {
            ElementArrangement::Standard => {}
            ElementArrangement::Dl16ToFp32 => digits.arrange_pairs(device_size, stride_map),
            ElementArrangement::Parts => digits.arrange_parts(device_size),
            other => digits.refused = Some(Box::new(Error::Arrangement { name: other.name() })),
        }
        // Stable, and from the innermost dimension out: among equal radices the stick is last.
        digits.levels.reverse();
        digits.levels.sort_by_key(|digit| std::cmp::Reverse(digit.radix));
        digits.join();
        digits.reciprocals =
            digits.levels.iter().map(|digit| Reciprocal::new(digit.radix)).collect();
        digits
    }

    /// Makes places one that follow each other on the host and on the device alike: what remains
    /// are the carries that move an element away from its neighbour.
    fn join(&mut self) {
        for at in (1..self.levels.len()).rev() {
            let outer = self.levels[at - 1];
            let inner = self.levels[at];
            let continues = |inner: usize, outer: usize| {
                inner.checked_mul(self.levels[at].extent) == Some(outer)
            };
            if continues(inner.radix, outer.radix) && continues(inner.stride, outer.stride) {
                let extent = outer.extent * inner.extent;
                self.levels[at - 1] = Digit { extent, ..inner };
                self.levels.remove(at);
            }
        }
    }

    /// Largest radix first.
    pub(crate) fn levels(&self) -> Result<&[Digit], Error> {
        match &self.refused {
            Some(error) => Err((**error).clone()),
            None => Ok(&self.levels),
        }
    }

    /// The dimensions that repeat what the others hold.
    pub(crate) fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    /// The device element of a host element, if there is room for it.
    pub(crate) fn locate(&self, element: usize) -> Option<usize> {
        let mut rest = element;
        let mut device = 0;
        for (digit, reciprocal) in self.divided() {
            let coordinate = reciprocal.quotient(rest);
            if coordinate >= digit.extent {
                return None;
            }
            rest -= coordinate * digit.radix;
            device += coordinate * digit.stride;
        }
        (rest == 0 && self.refused.is_none()).then_some(device)
    }

    /// All places with what divides by their radices.
    pub(crate) fn divided(&self) -> impl Iterator<Item = (&Digit, Reciprocal)> {
        self.levels.iter().zip(self.reciprocals.iter().copied())
    }

    /// Returns true if copies are refused: no element has a place.
    pub(crate) fn are_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Splits the stick into pairs, and these into their halves: pair p lies at positions 2 p and 2 p + 1.
    fn arrange_parts(&mut self, device_size: &[usize]) {
        let lane = device_size.len() - 1;
        for digit in self.levels.iter_mut().filter(|digit| digit.dim == lane) {
            *digit = Digit { extent: digit.extent / 2, stride: 2, ..*digit };
        }
        // From the innermost dimension out.
        self.levels.insert(0, Digit { dim: lane, radix: 1, extent: 2, stride: 1 });
    }

    /// Splits the stick and the stick count into the four places of `DL16_TO_FP32`: column
    /// 64 p + 8 g + 4 s + i lies in stick 2 p + s at position 4 g + i.
    fn arrange_pairs(&mut self, device_size: &[usize], stride_map: &[i64]) {
        let lane = device_size.len() - 1;
        let unit = stride_map[lane];
        let elements = device_size[lane];
        let count_radix = unit.checked_mul(32);
        let is_count = |digit: &Digit| {
            digit.dim == lane.saturating_sub(2) && Some(digit.radix as i64) == count_radix
        };
        let count = self.levels.iter().position(is_count);
        let sticks = count.map_or(1, |at| self.levels[at].extent);
        let (Some(count), 32, 0, 1..) = (count, elements, sticks % 2, unit) else {
            let error = Error::ArrangementSticks { sticks, elements };
            self.refused = Some(Box::new(error));
            return;
        };
        let stick = self.levels[count];
        let unit = unit as usize;
        let place = |radix, extent, stride| Digit { dim: lane, radix, extent, stride };
        self.levels.retain(|digit| digit.dim != lane && digit.dim != stick.dim);
        if sticks > 2 {
            let pairs = place(64 * unit, sticks / 2, 2 * stick.stride);
            self.levels.push(Digit { dim: stick.dim, ..pairs });
        }
        self.levels.push(place(8 * unit, 8, 4));
        self.levels.push(place(4 * unit, 2, stick.stride));
        self.levels.push(place(unit, 4, 1));
    }
}
