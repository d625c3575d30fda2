use half::{bf16, f16};
use spyre_numerics::DType;

/// A Rust type that elements of host tensors have.
pub trait Element: Copy + Send + Sync + 'static + sealed::Sealed {
    /// Name that frameworks have for the type.
    const DTYPE: DType;

    /// Appends its bytes.
    fn put(self, bytes: &mut Vec<u8>);

    /// The element in as many bytes as it has.
    fn take(bytes: &[u8]) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($type:ty => $dtype:ident,)*) => {$(
        impl sealed::Sealed for $type {}

        impl Element for $type {
            const DTYPE: DType = DType::$dtype;

            fn put(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_ne_bytes());
            }

            fn take(bytes: &[u8]) -> Self {
                let mut whole = [0; size_of::<Self>()];
                whole.copy_from_slice(bytes);
                Self::from_ne_bytes(whole)
            }
        }
    )*};
}

elements! {
    u8 => UInt8,
    u16 => UInt16,
    u32 => UInt32,
    u64 => UInt64,
    i8 => Int8,
    i16 => Int16,
    i32 => Int32,
    i64 => Int64,
    f16 => Float16,
    bf16 => BFloat16,
    f32 => Float32,
    f64 => Float64,
}

impl sealed::Sealed for bool {}

impl Element for bool {
    const DTYPE: DType = DType::Bool;

    fn put(self, bytes: &mut Vec<u8>) {
        bytes.push(self.into());
    }

    fn take(bytes: &[u8]) -> Self {
        bytes != [0]
    }
}
