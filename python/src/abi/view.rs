use std::ffi::c_void;
use std::marker::PhantomData;
use std::slice;
use std::sync::Arc;

use smallvec::SmallVec;
use spyre::layout::TensorView;
use spyre::numerics::DType;
use spyre::runtime::{SharedLayout, StorageLayout};

use crate::failure::Failure;

/// Memory that a tensor is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(dead_code, reason = "the shim makes them")]
pub enum SpyreMemoryKind {
    /// The host's.
    Host,
    /// The host's, in a block that copies read and write in place.
    Pinned,
    /// A device's.
    Device,
}

/// A tensor that the shim holds until the call returns.
///
/// On the host `data` is its first element and `offset` zero; on the device `data` is the storage's address and
/// `offset` counts elements from there. A negative `dim` stands for a tensor that is undefined.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SpyreView<'a> {
    data: *mut c_void,
    sizes: *const i64,
    strides: *const i64,
    dim: i64,
    offset: i64,
    layout: LayoutPointer,
    dtype: i32,
    place: SpyreMemoryKind,
    numbers: PhantomData<&'a [i64]>,
}

/// A layout that the shim holds a count of, or null.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct LayoutPointer(*const StorageLayout);

impl LayoutPointer {
    /// No layout.
    pub(crate) const NULL: Self = Self(std::ptr::null());

    /// A layout that is held as long as it is used.
    fn to(layout: &SharedLayout) -> Self {
        Self(Arc::as_ptr(layout))
    }

    /// Hands a count over to the shim.
    pub(crate) fn of(layout: SharedLayout) -> Self {
        Self(Arc::into_raw(layout))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// One more count of it.
    pub(crate) fn shared(self) -> Option<SharedLayout> {
        if self.is_null() {
            return None;
        }
        // SAFETY: the pointer came from `of`, and the shim holds a count for the call: one more is made here, which
        // is the result's.
        unsafe {
            Arc::increment_strong_count(self.0);
            Some(Arc::from_raw(self.0))
        }
    }

    /// The count that the shim gives up.
    pub(crate) fn into_shared(self) -> Option<SharedLayout> {
        // SAFETY: the pointer came from `of`, and the shim does not use it any more.
        (!self.is_null()).then(|| unsafe { Arc::from_raw(self.0) })
    }
}

impl<'a> SpyreView<'a> {
    /// A tensor of a device whose storage is at an address.
    pub(crate) fn of(tensor: &TensorView<'a>, address: u64) -> Self {
        Self {
            data: address as *mut c_void,
            sizes: tensor.size.as_ptr().cast(),
            strides: tensor.stride.as_ptr().cast(),
            dim: tensor.size.len() as i64,
            offset: tensor.offset as i64,
            layout: LayoutPointer::NULL,
            dtype: number_of(tensor.dtype),
            place: SpyreMemoryKind::Device,
            numbers: PhantomData,
        }
    }

    /// Has a layout of its own, if there is one.
    pub(crate) fn with_layout(self, layout: Option<&'a SharedLayout>) -> Self {
        Self { layout: layout.map_or(LayoutPointer::NULL, LayoutPointer::to), ..self }
    }

    /// Address of the storage, or of the first element on the host.
    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.data as u64
    }

    /// First byte, on the host.
    pub(crate) fn bytes(&self) -> *mut u8 {
        self.data.cast()
    }

    pub(crate) fn place(&self) -> SpyreMemoryKind {
        self.place
    }

    /// Layout of its own, in place of its memory's.
    pub(crate) fn layout(&self) -> LayoutPointer {
        self.layout
    }

    /// Returns true if it stands for an undefined tensor.
    pub(crate) fn is_nothing(&self) -> bool {
        self.dim < 0
    }

    #[inline]
    fn numbers(&self, first: *const i64) -> &'a [i64] {
        if self.dim <= 0 {
            return &[];
        }
        // SAFETY: the shim or `of` makes views, whose numbers are as many as the tensor has dims, and live for `'a`.
        unsafe { slice::from_raw_parts(first, self.dim as usize) }
    }

    /// Adds all but the memory to what a call is known by; `false` if it has a layout of its own.
    #[inline]
    pub(crate) fn add_to_key(&self, key: &mut SmallVec<[u64; 64]>) -> bool {
        key.push(self.dtype as u64 | (self.dim as u64) << 8);
        key.extend_from_slice(unsigned_words(self.numbers(self.sizes)));
        key.extend_from_slice(unsigned_words(self.numbers(self.strides)));
        key.push(self.offset as u64);
        self.layout.is_null()
    }

    /// The tensor; refused if it has numbers that are negative.
    #[inline]
    pub(crate) fn tensor(&self) -> Result<TensorView<'a>, Failure> {
        let sizes = self.numbers(self.sizes);
        let strides = self.numbers(self.strides);
        let (Some(size), Some(stride), 0..) = (unsigned(sizes), unsigned(strides), self.offset)
        else {
            return Err(Failure::runtime(format!(
                "negative sizes, strides or offsets are not supported: {sizes:?}, {strides:?}, {}",
                self.offset
            )));
        };
        Ok(TensorView { dtype: dtype_of(self.dtype)?, size, stride, offset: self.offset as usize })
    }
}

/// Numbers that are not negative; `None` if one is.
#[inline]
fn unsigned(numbers: &[i64]) -> Option<&[usize]> {
    if numbers.iter().any(|&number| number < 0) {
        return None;
    }
    // SAFETY: a signed and an unsigned number of 64 bits have one size, and all of these mean the same in both.
    Some(unsafe { slice::from_raw_parts(numbers.as_ptr().cast(), numbers.len()) })
}

/// Bits of signed numbers as unsigned ones.
#[inline]
fn unsigned_words(numbers: &[i64]) -> &[u64] {
    // SAFETY: a signed and an unsigned number of 64 bits have one size, and every bit pattern is one of either.
    unsafe { slice::from_raw_parts(numbers.as_ptr().cast(), numbers.len()) }
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
