use crate::{Crew, DmaNest, Endpoint, Error, SpyreTensorLayout, View};

/// Carries a whole storage from one layout to another: a new backing store with other sticks.
///
/// Both layouts must be for the same host shape. Formats may differ: elements are then converted.
///
/// ```
/// use spyre_layout::{Solo, SpyreTensorLayout, restickify};
/// use spyre_numerics::DataFormat::IeeeFp16;
///
/// let rows = SpyreTensorLayout::contiguous(&[100, 200], IeeeFp16)?;
/// let mut columns = rows.clone();
/// columns.set_stick_dims(&[0])?;
///
/// let old = vec![1; rows.device_bytes()];
/// let mut new = vec![0; columns.device_bytes()];
/// restickify(&rows, &old, &columns, &mut new, &Solo)?;
/// # Ok::<(), spyre_layout::Error>(())
/// ```
pub fn restickify(
    from: &SpyreTensorLayout,
    source: &[u8],
    to: &SpyreTensorLayout,
    target: &mut [u8],
    crew: &dyn Crew,
) -> Result<(), Error> {
    if from.storage_elements().is_none() || to.storage_elements().is_none() {
        return Err(Error::NoHostShape);
    }
    let from_view = View::new(from.dma_sizes(), from.dma_strides(), 0)?;
    let to_view = View::new(to.dma_sizes(), to.dma_strides(), 0)?;
    let source_end = Endpoint::device(&from_view, from);
    let nest = DmaNest::derive(source_end, Endpoint::device(&to_view, to))?;
    nest.copy(source, target, crew)
}
