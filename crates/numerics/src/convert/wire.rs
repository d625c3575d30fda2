//! Machine words as they lie in memory, at any alignment.

/// A word of a fixed number of bytes.
pub(super) trait Wire: Copy {
    /// Its bytes.
    type Bytes: Copy;

    fn load(bytes: Self::Bytes) -> Self;
    fn store(self) -> Self::Bytes;
    fn lanes(bytes: &[u8]) -> &[Self::Bytes];
    fn lanes_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];
}

macro_rules! wire {
    ($($word:ty)*) => { $(
        impl Wire for $word {
            type Bytes = [u8; size_of::<$word>()];

            #[inline(always)]
            fn load(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }

            #[inline(always)]
            fn store(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            #[inline(always)]
            fn lanes(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }

            #[inline(always)]
            fn lanes_mut(bytes: &mut [u8]) -> &mut [Self::Bytes] {
                bytes.as_chunks_mut().0
            }
        }
    )* };
}

wire!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);

/// Applies `f` to each element of `source`, in step with `target`.
#[inline(always)]
pub(super) fn map<S: Wire, T: Wire>(source: &[u8], target: &mut [u8], f: impl Fn(S) -> T) {
    for (from, to) in S::lanes(source).iter().zip(T::lanes_mut(target)) {
        *to = f(S::load(*from)).store();
    }
}
