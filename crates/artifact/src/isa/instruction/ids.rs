//! The names of things inside one program: small numbers, one type each.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($number:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $number);

        impl $name {
            /// Its place in the program's list.
            pub fn index(self) -> usize {
                usize::from(self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id! {
    /// A dim that the program walks over; its extent is patched at launch.
    Dim(u8), "d"
}
id! {
    /// A tile buffer in LX. Programs have few; a draft that is still to share them may have many.
    Register(u16), "r"
}
id! {
    /// A tensor in device memory.
    Operand(u8), "o"
}
id! {
    /// A patched word: a number or a flag that is only known at launch.
    ScalarWord(u8), "s"
}

impl Register {
    /// Its number in an encoded instruction. Drafts may have more registers than programs: one that
    /// does not fit a byte is encoded as one that no program has.
    pub(super) fn code(self) -> u8 {
        u8::try_from(self.0).unwrap_or(u8::MAX)
    }
}
