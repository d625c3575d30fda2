/// Order of elements inside sticks, as the card's own casts permute them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ElementArrangement {
    /// Elements lie in order.
    #[default]
    Standard = 0,
    /// A cast from 16 to 32 bits: groups of four alternate between the two sticks of a pair.
    Dl16ToFp32 = 1,
    /// A cast to 8 bits, per channel. Its permutation is not published.
    QFp8Ch = 2,
    /// Two values per stick. Its packing is not published.
    Exx2 = 3,
    /// Pairs of host neighbours, such as the parts of complex numbers: the two are neighbours inside a
    /// stick, whatever the sticks run along. The stride map's last entry is the step from pair to pair.
    Parts = 4,
}

impl ElementArrangement {
    /// The name that the Python enum gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "STANDARD",
            Self::Dl16ToFp32 => "DL16_TO_FP32",
            Self::QFp8Ch => "QFP8CH",
            Self::Exx2 => "EXX2",
            Self::Parts => "PARTS",
        }
    }
}
