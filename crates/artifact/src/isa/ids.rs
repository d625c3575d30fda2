//! The names of things inside one program: small numbers, one type each.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u8);

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
    Dim, "d"
}
id! {
    /// A tile buffer in LX.
    Register, "r"
}
id! {
    /// A tensor in device memory.
    Operand, "o"
}
id! {
    /// A patched word: a number or a flag that is only known at launch.
    ScalarWord, "s"
}
