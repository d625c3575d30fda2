use std::ffi::c_void;
use std::slice;

use smallvec::SmallVec;
use spyre::numerics::DType;
use spyre::runtime::{ElementsView, StorageLayout};

use crate::failure::Failure;

/// `SpyreView` in `csrc/spyre.h`.
#[repr(C)]
pub(crate) struct RawView {
    pub(crate) data: *mut c_void,
    sizes: *const i64,
    strides: *const i64,
    dim: i64,
    offset: i64,
    pub(crate) layout: *const StorageLayout,
    dtype: i32,
    pub(crate) place: i32,
}

/// Memory that a tensor is in; the numbers are `SpyreMemoryKind` in `csrc/spyre.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    Host,
    Pinned,
    Device,
}

/// A tensor's shape, with numbers that cannot be negative.
pub(crate) struct Shape<'a> {
    pub(crate) dtype: DType,
    pub(crate) size: &'a [usize],
    pub(crate) stride: &'a [usize],
    pub(crate) offset: usize,
}

impl RawView {
    pub(crate) fn place(&self) -> MemoryKind {
        match self.place {
            0 => MemoryKind::Host,
            1 => MemoryKind::Pinned,
            _ => MemoryKind::Device,
        }
    }

    /// Returns true if it stands for an undefined tensor.
    pub(crate) fn is_nothing(&self) -> bool {
        self.dim < 0
    }

    /// Adds all but the memory to what a call is known by; `false` if it has a layout of its own.
    ///
    /// # Safety
    /// As for [`shape`](Self::shape).
    #[inline]
    pub(crate) unsafe fn add_to_key(&self, key: &mut SmallVec<[u64; 64]>) -> bool {
        key.push(self.dtype as u64 | (self.dim as u64) << 8);
        if self.dim > 0 {
            // SAFETY: as promised.
            unsafe {
                key.extend_from_slice(slice::from_raw_parts(self.sizes.cast(), self.dim as usize));
                key.extend_from_slice(slice::from_raw_parts(
                    self.strides.cast(),
                    self.dim as usize,
                ));
            }
        }
        key.push(self.offset as u64);
        self.layout.is_null()
    }

    /// # Safety
    /// The pointers are good for as many numbers as it says, for as long as `self` is borrowed.
    #[inline]
    pub(crate) unsafe fn shape(&self) -> Result<Shape<'_>, Failure> {
        let dim = self.dim as usize;
        // SAFETY: as promised; a signed and an unsigned number have one size, and are compared with
        // zero before anybody uses them.
        let (size, stride) = unsafe {
            if dim == 0 {
                (&[][..], &[][..])
            } else {
                (
                    slice::from_raw_parts(self.sizes.cast::<usize>(), dim),
                    slice::from_raw_parts(self.strides.cast::<usize>(), dim),
                )
            }
        };
        let is_negative = |numbers: &[usize]| numbers.iter().any(|&number| (number as isize) < 0);
        if is_negative(size) || is_negative(stride) || self.offset < 0 {
            return Err(Failure::runtime(format!(
                "negative sizes, strides or offsets are not supported: {:?}, {:?}, {}",
                signed(size),
                signed(stride),
                self.offset
            )));
        }
        Ok(Shape { dtype: dtype_of(self.dtype)?, size, stride, offset: self.offset as usize })
    }
}

impl<'a> Shape<'a> {
    pub(crate) fn elements(&self) -> ElementsView<'a> {
        let Self { dtype, size, stride, offset } = *self;
        ElementsView { dtype, size, stride, offset }
    }

    /// Bytes from the first element to the end of the last.
    pub(crate) fn reach_bytes(&self) -> usize {
        if self.size.contains(&0) {
            return 0;
        }
        let steps = self.size.iter().zip(self.stride);
        let last: usize = steps.map(|(size, stride)| (size - 1) * stride).sum();
        (last + 1) * bytes_of(self.dtype)
    }
}

fn signed(numbers: &[usize]) -> SmallVec<[isize; 8]> {
    numbers.iter().map(|&number| number as isize).collect()
}

/// Bytes of one element on the host.
pub(crate) fn bytes_of(dtype: DType) -> usize {
    dtype.host_format().element_bytes().unwrap_or(1)
}

/// PyTorch's `ScalarType`. Types that only hold bits are integers of the same width.
#[inline]
pub(crate) fn dtype_of(scalar_type: i32) -> Result<DType, Failure> {
    Ok(match scalar_type {
        0 | 13 | 16..=21 | 30..=43 | 45 => DType::UInt8,
        1 | 12 => DType::Int8,
        2 => DType::Int16,
        3 | 14 => DType::Int32,
        4 => DType::Int64,
        5 => DType::Float16,
        6 => DType::Float32,
        7 => DType::Float64,
        8 => DType::Complex32,
        9 => DType::Complex64,
        10 => DType::Complex128,
        11 => DType::Bool,
        15 => DType::BFloat16,
        23 => DType::Float8E5M2,
        24 => DType::Float8E4M3Fn,
        25 => DType::Float8E5M2FnUz,
        26 => DType::Float8E4M3FnUz,
        22 | 27 => DType::UInt16,
        28 => DType::UInt32,
        29 => DType::UInt64,
        44 => DType::Float8E8M0FnU,
        other => return Err(Failure::runtime(format!("spyre does not support dtype {other}"))),
    })
}

/// The number of PyTorch's `ScalarType`.
pub(crate) fn number_of(dtype: DType) -> i32 {
    match dtype {
        DType::UInt8 => 0,
        DType::Int8 => 1,
        DType::Int16 => 2,
        DType::Int32 => 3,
        DType::Int64 => 4,
        DType::Float16 => 5,
        DType::Float32 => 6,
        DType::Float64 => 7,
        DType::Complex32 => 8,
        DType::Complex64 => 9,
        DType::Complex128 => 10,
        DType::Bool => 11,
        DType::BFloat16 => 15,
        DType::Float8E5M2 => 23,
        DType::Float8E4M3Fn => 24,
        DType::Float8E5M2FnUz => 25,
        DType::Float8E4M3FnUz => 26,
        DType::UInt16 => 27,
        DType::UInt32 => 28,
        DType::UInt64 => 29,
        DType::Float8E8M0FnU => 44,
        // PyTorch's own word for none.
        _ => 46,
    }
}
