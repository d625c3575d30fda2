use spyre_hal::HostBuffer;
use spyre_layout::View;
use spyre_numerics::DType;

use crate::{Element, Error};

/// A tensor in host memory, row by row.
///
/// ```
/// use spyre_runtime::CPUTensor;
///
/// let tensor = CPUTensor::from_values(&[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// assert_eq!(tensor.stride(), [3, 1]);
/// assert_eq!(tensor.values::<f32>()?[4], 5.0);
/// assert!(tensor.values::<i32>().is_err());
/// # Ok::<(), spyre_runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CPUTensor {
    buffer: HostBuffer,
    view: View,
    dtype: DType,
}

impl CPUTensor {
    /// These elements.
    pub fn from_values<T: Element>(shape: &[usize], values: &[T]) -> Result<Self, Error> {
        let mut bytes = Vec::with_capacity(size_of_val(values));
        values.iter().for_each(|value| value.put(&mut bytes));
        Self::from_bytes(shape, T::DTYPE, bytes)
    }

    /// Elements as they lie in memory.
    pub fn from_bytes(shape: &[usize], dtype: DType, bytes: Vec<u8>) -> Result<Self, Error> {
        let view = View::contiguous(shape)?;
        let given = bytes.len() / element_bytes(dtype);
        let expected = view.elements();
        if bytes.len() != expected * element_bytes(dtype) {
            return Err(Error::ElementCount { given, expected, shape: shape.to_vec() });
        }
        Ok(Self { buffer: bytes.into(), view, dtype })
    }

    /// Zeros.
    pub fn zeroed(shape: &[usize], dtype: DType) -> Result<Self, Error> {
        let view = View::contiguous(shape)?;
        let buffer = HostBuffer::zeroed(view.elements() * element_bytes(dtype));
        Ok(Self { buffer, view, dtype })
    }

    /// Elements along each dimension.
    pub fn shape(&self) -> &[usize] {
        self.view.size()
    }

    /// Elements between neighbours along each dimension.
    pub fn stride(&self) -> &[usize] {
        self.view.stride()
    }

    /// Data type of its elements.
    pub fn data_type(&self) -> DType {
        self.dtype
    }

    /// Its bytes, which copies borrow while they are queued.
    pub fn buffer(&self) -> &HostBuffer {
        &self.buffer
    }

    /// All elements. Refused while a copy is writing them: synchronize first.
    pub fn values<T: Element>(&self) -> Result<Vec<T>, Error> {
        if T::DTYPE != self.dtype {
            return Err(Error::HostDataType { expected: T::DTYPE, given: self.dtype });
        }
        let bytes = self.buffer.read()?;
        Ok(bytes.chunks_exact(size_of::<T>()).map(T::take).collect())
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }
}

/// Bytes of one element on the host; every dtype has some.
pub(crate) fn element_bytes(dtype: DType) -> usize {
    dtype.host_format().element_bytes().unwrap_or(1)
}
