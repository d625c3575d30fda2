use spyre_numerics::DataFormat;

use crate::{Error, SpyreTensorLayout, View};

/// One end of a copy: a view of host memory, or of a device storage in its layout.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'a> {
    pub(super) view: &'a View,
    place: Location<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Location<'a> {
    Host(DataFormat),
    Device(&'a SpyreTensorLayout),
}

impl<'a> Endpoint<'a> {
    /// Host memory with elements of `format`; offsets count from the start of the buffer.
    pub fn host(view: &'a View, format: DataFormat) -> Self {
        Self { view, place: Location::Host(format) }
    }

    /// A device storage.
    pub fn device(view: &'a View, layout: &'a SpyreTensorLayout) -> Self {
        Self { view, place: Location::Device(layout) }
    }

    pub(super) fn format(&self) -> DataFormat {
        match self.place {
            Location::Host(format) => format,
            Location::Device(layout) => layout.device_dtype(),
        }
    }

    pub(super) fn layout(&self) -> Option<&'a SpyreTensorLayout> {
        match self.place {
            Location::Host(_) => None,
            Location::Device(layout) => Some(layout),
        }
    }

    pub(super) fn is_host(&self) -> bool {
        matches!(self.place, Location::Host(_))
    }

    /// Elements that a walk may touch.
    pub(super) fn reach(&self) -> usize {
        match self.place {
            Location::Host(_) => self.view.last_element().map_or(0, |last| last + 1),
            Location::Device(layout) => layout.device_elements(),
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.layout().map_or(Ok(()), |layout| layout.check_inside(self.view))
    }
}
