use std::mem;

use spyre_artifact::Lane;
use spyre_numerics::DataFormat;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A tile in LX: dense, row-major over the dims that it spans, lowest dim outermost.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::programs) enum Buffer {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
    /// One or zero.
    Bool(Vec<u8>),
}

/// Host type of one element of a tile.
pub(in crate::programs) trait Element:
    Copy + Default + PartialOrd + FromBytes + IntoBytes + Immutable + 'static
{
    /// A tile's elements. Verified programs never ask for another lane than the tile's.
    fn of(buffer: &Buffer) -> &[Self];

    /// A tile's elements, to be replaced.
    fn of_mut(buffer: &mut Buffer) -> &mut Vec<Self>;

    /// A tile of these elements.
    fn tile(elements: Vec<Self>) -> Buffer;

    /// Returns true if a tile holds such elements.
    fn is_in(buffer: &Buffer) -> bool;
}

impl Buffer {
    pub(in crate::programs) fn empty(lane: Lane) -> Self {
        match lane {
            Lane::F64 => Self::F64(Vec::new()),
            Lane::I64 => Self::I64(Vec::new()),
            Lane::Bool => Self::Bool(Vec::new()),
            _ => Self::F32(Vec::new()),
        }
    }

    /// Its elements, out of it. Each vector is taken by itself: a buffer that is replaced as a whole
    /// is copied in wider words than it was written in, and such a load waits for all stores before.
    pub(in crate::programs) fn taken(&mut self) -> Self {
        match self {
            Self::F32(tile) => Self::F32(mem::take(tile)),
            Self::F64(tile) => Self::F64(mem::take(tile)),
            Self::I64(tile) => Self::I64(mem::take(tile)),
            Self::Bool(tile) => Self::Bool(mem::take(tile)),
        }
    }

    /// Number of its elements.
    pub(in crate::programs) fn len(&self) -> usize {
        match self {
            Self::F32(tile) => tile.len(),
            Self::F64(tile) => tile.len(),
            Self::I64(tile) => tile.len(),
            Self::Bool(tile) => tile.len(),
        }
    }

    /// Address of its first element.
    pub(in crate::programs) fn first(&mut self) -> *mut u8 {
        match self {
            Self::F32(tile) => tile.as_mut_ptr().cast(),
            Self::F64(tile) => tile.as_mut_ptr().cast(),
            Self::I64(tile) => tile.as_mut_ptr().cast(),
            Self::Bool(tile) => tile.as_mut_ptr(),
        }
    }

    pub(in crate::programs) fn lane(&self) -> Lane {
        match self {
            Self::F32(_) => Lane::F32,
            Self::F64(_) => Lane::F64,
            Self::I64(_) => Lane::I64,
            Self::Bool(_) => Lane::Bool,
        }
    }

    pub(in crate::programs) fn capacity_bytes(&self) -> usize {
        match self {
            Self::F32(tile) => tile.capacity() * size_of::<f32>(),
            Self::F64(tile) => tile.capacity() * size_of::<f64>(),
            Self::I64(tile) => tile.capacity() * size_of::<i64>(),
            Self::Bool(tile) => tile.capacity(),
        }
    }

    pub(in crate::programs) fn bytes(&self) -> &[u8] {
        match self {
            Self::F32(tile) => tile.as_bytes(),
            Self::F64(tile) => tile.as_bytes(),
            Self::I64(tile) => tile.as_bytes(),
            Self::Bool(tile) => tile,
        }
    }

    /// Makes it a copy of another one, in the memory that it has.
    pub(in crate::programs) fn copy_from(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::F32(tile), Self::F32(other)) => tile.clone_from(other),
            (Self::F64(tile), Self::F64(other)) => tile.clone_from(other),
            (Self::I64(tile), Self::I64(other)) => tile.clone_from(other),
            (Self::Bool(tile), Self::Bool(other)) => tile.clone_from(other),
            _ => *self = other.clone(),
        }
    }

    /// The bytes of so many elements, to be written.
    pub(in crate::programs) fn resized(&mut self, elements: usize) -> &mut [u8] {
        match self {
            Self::F32(tile) => bytes_of(tile, elements),
            Self::F64(tile) => bytes_of(tile, elements),
            Self::I64(tile) => bytes_of(tile, elements),
            Self::Bool(tile) => bytes_of(tile, elements),
        }
    }
}

/// The storage format that a lane's elements have on the host.
pub(in crate::programs) fn format_of(lane: Lane) -> DataFormat {
    match lane {
        Lane::F64 => DataFormat::IeeeFp64,
        Lane::I64 => DataFormat::IeeeInt64,
        Lane::Bool => DataFormat::Bool,
        _ => DataFormat::IeeeFp32,
    }
}

fn bytes_of<T: Element>(tile: &mut Vec<T>, elements: usize) -> &mut [u8] {
    tile.resize(elements, T::default());
    tile.as_mut_bytes()
}

macro_rules! element {
    ($type:ty, $lane:ident) => {
        impl Element for $type {
            fn of(buffer: &Buffer) -> &[Self] {
                match buffer {
                    Buffer::$lane(tile) => tile,
                    _ => &[],
                }
            }

            fn of_mut(buffer: &mut Buffer) -> &mut Vec<Self> {
                if !Self::is_in(buffer) {
                    *buffer = Buffer::$lane(Vec::new());
                }
                match buffer {
                    Buffer::$lane(tile) => tile,
                    _ => unreachable!("it was just made one"),
                }
            }

            fn tile(elements: Vec<Self>) -> Buffer {
                Buffer::$lane(elements)
            }

            fn is_in(buffer: &Buffer) -> bool {
                matches!(buffer, Buffer::$lane(_))
            }
        }
    };
}

element!(f32, F32);
element!(f64, F64);
element!(i64, I64);
element!(u8, Bool);
