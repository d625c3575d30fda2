//! Labels of sticks.

use super::panel::joined;
use super::sticks::Sticks;

/// Kind of label that sticks have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// An index in which the stick dimension counts sticks.
    Tiled,
    /// The index of the one element in the stick.
    Element,
    /// The stick's number in device order.
    Numbered,
}

impl Sticks {
    /// An index, and what stick it is: how labels are to be read.
    pub(super) fn legend(&self) -> String {
        let example = self.host().last().and_then(|last| self.at(last));
        let index = example.and_then(|stick| self.regular_index(stick));
        match (self.naming(), index.zip(example)) {
            (_, None) if self.host().last().is_none() => "The tensor has no elements.".into(),
            (Naming::Element, _) if self.size().is_empty() => "It holds x.".into(),
            (Naming::Tiled, Some(((index, elements), stick))) => {
                let range = |(dim, at): (usize, &usize)| {
                    if dim == self.lane_dim() {
                        format!("{at}:{}", at + elements)
                    } else {
                        at.to_string()
                    }
                };
                let index: Vec<String> = index.iter().enumerate().map(range).collect();
                format!("{} is x[{}].", self.label(stick), index.join(", "))
            }
            (Naming::Element, Some(((index, _), stick))) => {
                format!("Each holds one: {} is x{index:?}.", self.label(stick))
            }
            _ => "#n is the n-th on the device.".into(),
        }
    }

    /// Characters of the longest label.
    pub(super) fn label_width(&self) -> usize {
        let last: Vec<usize> = self.size().iter().map(|size| size.saturating_sub(1)).collect();
        let width = match self.naming() {
            Naming::Numbered => format!("#{}", self.count().saturating_sub(1)).len(),
            Naming::Tiled | Naming::Element => self.index_label(&last).len(),
        };
        width + usize::from(self.has_copies())
    }

    /// Characters of the longest index without the stick dimension.
    pub(super) fn index_width(&self) -> usize {
        let dims = self.size().iter().enumerate().filter(|(dim, _)| *dim != self.lane_dim());
        let digits = dims.map(|(_, size)| size.saturating_sub(1).to_string().len() + 1);
        digits.sum::<usize>().saturating_sub(1)
    }

    /// Label of a stick, which is the first of its copies.
    pub(super) fn label(&self, stick: usize) -> String {
        match (self.naming(), self.regular_index(stick)) {
            (Naming::Tiled | Naming::Element, Some((index, _))) => self.index_label(&index),
            _ => format!("#{stick}"),
        }
    }

    fn index_label(&self, index: &[usize]) -> String {
        match (self.naming(), index) {
            (_, []) => "x".into(),
            (Naming::Tiled, _) => {
                let part = |(dim, &at): (usize, &usize)| {
                    if dim == self.lane_dim() {
                        format!("s{}", at / self.per_stick())
                    } else {
                        at.to_string()
                    }
                };
                let parts: Vec<String> = index.iter().enumerate().map(part).collect();
                parts.join(",")
            }
            _ => joined(index, ","),
        }
    }
}
