//! Integers and bool, each as functions from and to the widest number of its kind.

use super::wire::Wire;
use crate::cast::Truncate;

/// An integer format.
pub(super) trait Integer: Wire {
    fn to_i64(self) -> i64;
    fn from_i64(value: i64) -> Self;
    fn from_f64(value: f64) -> Self;
}

macro_rules! integer {
    ($($word:ty, $truncate:ident;)*) => { $(
        impl Integer for $word {
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }

            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                value as Self
            }

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                Truncate::$truncate(value) as Self
            }
        }
    )* };
}

integer! {
    i8, to_i32;
    u8, to_i32;
    i16, to_i32;
    u16, to_i32;
    i32, to_i32;
    u32, to_i64;
    i64, to_i64;
    u64, to_u64;
}

/// One byte: zero is `false`, everything else reads as `true` and is written as one.
#[derive(Clone, Copy)]
pub(super) struct Bool(u8);

impl Wire for Bool {
    type Bytes = u8;
    const ZERO: u8 = 0;

    #[inline(always)]
    fn load(bytes: u8) -> Self {
        Self((bytes != 0).into())
    }

    #[inline(always)]
    fn store(self) -> u8 {
        self.0
    }

    #[inline(always)]
    fn lanes(bytes: &[u8]) -> &[u8] {
        bytes
    }

    #[inline(always)]
    fn lanes_mut(bytes: &mut [u8]) -> &mut [u8] {
        bytes
    }
}

impl Integer for Bool {
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self.0.into()
    }

    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        Self((value != 0).into())
    }

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        Self((value.to_bits() << 1 != 0).into())
    }
}
