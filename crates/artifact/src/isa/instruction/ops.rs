//! Element-wise functions of instructions: lists that grow at their ends, since codes are in files.

use std::fmt;

use super::{Constant, Lane};

macro_rules! ops {
    ($(#[$doc:meta])* $name:ident { $($(#[$op_doc:meta])* $op:ident = $code:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum $name {
            $($(#[$op_doc])* $op = $code,)*
        }

        impl $name {
            /// Every one, in the order of its code.
            pub const ALL: &[Self] = &[$(Self::$op,)*];

            /// The name that disassembly gives it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$op => $text,)* }
            }

            /// The one of this code.
            pub fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$op),)* _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

ops! {
    /// One value in, one out.
    UnaryOp {
        /// Minus; integers wrap.
        Neg = 0 "neg",
        /// Magnitude; integers wrap.
        Abs = 1 "abs",
        /// Square root.
        Sqrt = 2 "sqrt",
        /// One over the square root.
        Rsqrt = 3 "rsqrt",
        /// One over.
        Reciprocal = 4 "reciprocal",
        /// e to the power.
        Exp = 5 "exp",
        /// Natural logarithm.
        Log = 6 "log",
        /// Hyperbolic tangent.
        Tanh = 7 "tanh",
        /// Sine.
        Sin = 8 "sin",
        /// Cosine.
        Cos = 9 "cos",
        /// The error function.
        Erf = 10 "erf",
        /// Down to a whole number.
        Floor = 11 "floor",
        /// Up to a whole number.
        Ceil = 12 "ceil",
        /// Rounded to the nearest whole number, ties to even.
        Round = 13 "round",
        /// Towards zero to a whole number.
        Trunc = 14 "trunc",
        /// -1, 0 or 1; NaN stays.
        Sign = 15 "sign",
        /// False for true.
        Not = 16 "not",
        /// Every bit turned.
        BitNot = 17 "bit_not",
        /// True if it is NaN.
        IsNan = 18 "is_nan",
        /// Negative numbers to zero; NaN stays.
        Relu = 19 "relu",
        /// Two to the power.
        Exp2 = 20 "exp2",
        /// e to the power, minus one.
        Expm1 = 21 "expm1",
        /// Logarithm to base two.
        Log2 = 22 "log2",
        /// Logarithm to base ten.
        Log10 = 23 "log10",
        /// Logarithm of one plus.
        Log1p = 24 "log1p",
        /// Tangent.
        Tan = 25 "tan",
        /// Arc sine.
        Asin = 26 "asin",
        /// Arc cosine.
        Acos = 27 "acos",
        /// Arc tangent.
        Atan = 28 "atan",
        /// Hyperbolic sine.
        Sinh = 29 "sinh",
        /// Hyperbolic cosine.
        Cosh = 30 "cosh",
        /// One over one plus e to the minus.
        Sigmoid = 31 "sigmoid",
        /// True if it is an infinity.
        IsInf = 32 "is_inf",
        /// Inverse hyperbolic sine.
        Asinh = 33 "asinh",
        /// Inverse hyperbolic cosine.
        Acosh = 34 "acosh",
        /// Inverse hyperbolic tangent.
        Atanh = 35 "atanh",
        /// One minus the error function.
        Erfc = 36 "erfc",
        /// The inverse of the error function.
        Erfinv = 37 "erfinv",
        /// `erfc` times e to the square.
        Erfcx = 38 "erfcx",
        /// Logarithm of the gamma function's magnitude.
        Lgamma = 39 "lgamma",
        /// Derivative of `lgamma`.
        Digamma = 40 "digamma",
        /// Modified Bessel function I of order 0.
        BesselI0 = 41 "bessel_i0",
        /// Modified Bessel function I of order 0, times e to the minus magnitude.
        BesselI0e = 42 "bessel_i0e",
        /// Modified Bessel function I of order 1.
        BesselI1 = 43 "bessel_i1",
        /// Modified Bessel function I of order 1, times e to the minus magnitude.
        BesselI1e = 44 "bessel_i1e",
        /// Bessel function J of order 0.
        BesselJ0 = 45 "bessel_j0",
        /// Bessel function J of order 1.
        BesselJ1 = 46 "bessel_j1",
        /// Bessel function Y of order 0.
        BesselY0 = 47 "bessel_y0",
        /// Bessel function Y of order 1.
        BesselY1 = 48 "bessel_y1",
        /// Modified Bessel function K of order 0.
        BesselK0 = 49 "bessel_k0",
        /// Modified Bessel function K of order 0, times e to the power.
        BesselK0e = 50 "bessel_k0e",
        /// Modified Bessel function K of order 1.
        BesselK1 = 51 "bessel_k1",
        /// Modified Bessel function K of order 1, times e to the power.
        BesselK1e = 52 "bessel_k1e",
        /// The Airy function Ai.
        AiryAi = 53 "airy_ai",
        /// The inverse of the normal distribution's cumulative function.
        Ndtri = 54 "ndtri",
        /// Logarithm of the normal distribution's cumulative function.
        LogNdtr = 55 "log_ndtr",
        /// True if its sign is minus, zeros and NaN too.
        SignBit = 56 "sign_bit",
        /// Times its own `sigmoid`.
        Silu = 57 "silu",
        /// Times the normal distribution's cumulative function of it.
        Gelu = 58 "gelu",
        /// Approximation of `gelu` with `tanh`.
        GeluTanh = 59 "gelu_tanh",
        /// Logarithm of one plus e to the power.
        Softplus = 60 "softplus",
        /// The mantissa that C's `frexp` gives: 0.5 to 1 in magnitude.
        Mantissa = 61 "frexp_mantissa",
        /// The exponent that C's `frexp` gives, as a float.
        Exponent = 62 "frexp_exponent",
    }
}

ops! {
    /// Two values in, one out. Integer division by zero is a data fault.
    BinaryOp {
        /// Plus; integers wrap.
        Add = 0 "add",
        /// Minus; integers wrap.
        Sub = 1 "sub",
        /// Times; integers wrap.
        Mul = 2 "mul",
        /// Divided by; integers towards zero.
        Div = 3 "div",
        /// The smaller one; NaN wins.
        Min = 4 "min",
        /// The larger one; NaN wins.
        Max = 5 "max",
        /// The first one to the power of the second.
        Pow = 6 "pow",
        /// Remainder of a division towards zero: C's `fmod` and `%`.
        Rem = 7 "rem",
        /// Both, bit by bit.
        And = 8 "and",
        /// One or both, bit by bit.
        Or = 9 "or",
        /// One and not both, bit by bit.
        Xor = 10 "xor",
        /// Shifted left; 64 or more gives zero.
        ShiftLeft = 11 "shift_left",
        /// Shifted right with the sign; 64 or more gives the sign.
        ShiftRight = 12 "shift_right",
        /// Divided by, down to a whole number: Python's `//`.
        FloorDiv = 13 "floor_div",
        /// Remainder of a division downwards: Python's `%`.
        Modulo = 14 "modulo",
        /// The angle of a point, y first.
        Atan2 = 15 "atan2",
        /// The first one's magnitude with the second one's sign.
        CopySign = 16 "copy_sign",
        /// The smaller one; a number wins over NaN.
        Fmin = 17 "fmin",
        /// The larger one; a number wins over NaN.
        Fmax = 18 "fmax",
        /// Length of the vector of the two.
        Hypot = 19 "hypot",
        /// The float next to the first one on the way to the second.
        NextAfter = 20 "next_after",
        /// Logarithm of the sum of e to each power.
        LogAddExp = 21 "log_add_exp",
        /// Logarithm to base two of the sum of two to each power.
        LogAddExp2 = 22 "log_add_exp2",
        /// Hurwitz's zeta function: the exponent first.
        Zeta = 23 "zeta",
        /// The lower incomplete gamma function, as a part of one: the parameter first.
        Igamma = 24 "igamma",
        /// The upper incomplete gamma function, as a part of one: the parameter first.
        Igammac = 25 "igammac",
        /// The greatest common divisor; never negative, but for what wraps.
        Gcd = 26 "gcd",
        /// Chebyshev polynomial of the first kind: the degree second, rounded towards zero.
        ChebyshevT = 27 "chebyshev_t",
        /// Chebyshev polynomial of the second kind.
        ChebyshevU = 28 "chebyshev_u",
        /// Chebyshev polynomial of the third kind.
        ChebyshevV = 29 "chebyshev_v",
        /// Chebyshev polynomial of the fourth kind.
        ChebyshevW = 30 "chebyshev_w",
        /// Hermite polynomial, as physicists have it.
        HermiteH = 31 "hermite_h",
        /// Hermite polynomial, as statisticians have it.
        HermiteHe = 32 "hermite_he",
        /// Laguerre polynomial.
        LaguerreL = 33 "laguerre_l",
        /// Legendre polynomial.
        LegendreP = 34 "legendre_p",
    }
}

ops! {
    /// Two values in, a truth value out. NaN differs from everything.
    CompareOp {
        /// The same.
        Equal = 0 "eq",
        /// Not the same.
        NotEqual = 1 "ne",
        /// Smaller.
        Less = 2 "lt",
        /// Smaller or the same.
        LessEqual = 3 "le",
        /// Larger.
        Greater = 4 "gt",
        /// Larger or the same.
        GreaterEqual = 5 "ge",
    }
}

ops! {
    /// Many values in, one out.
    ReduceOp {
        /// All together.
        Sum = 0 "sum",
        /// All multiplied.
        Product = 1 "product",
        /// The smallest; NaN wins.
        Min = 2 "min",
        /// The largest; NaN wins.
        Max = 3 "max",
        /// True if one is true.
        Any = 4 "any",
        /// True if all are true.
        All = 5 "all",
    }
}

ops! {
    /// Function of a prefix scan along a dim: each element becomes the result of all up to it.
    ScanOp {
        /// All together.
        Sum = 0 "scan_sum",
        /// All multiplied.
        Product = 1 "scan_product",
        /// The smallest; NaN stays.
        Min = 2 "scan_min",
        /// The largest; NaN stays.
        Max = 3 "scan_max",
        /// The logarithm of the sum of what e to their power is.
        LogSumExp = 4 "scan_logsumexp",
    }
}

ops! {
    /// Place that is sought along a dim.
    SeekOp {
        /// Place of the first of the smallest; NaN is smaller than everything.
        ArgMin = 0 "argmin",
        /// Place of the first of the largest; NaN is larger than everything.
        ArgMax = 1 "argmax",
    }
}

ops! {
    /// Direction of a sort. Equal elements stay in their order.
    OrderOp {
        /// Smallest first, NaN last.
        Ascending = 0 "order",
        /// NaN first, then the largest.
        Descending = 1 "order_descending",
    }
}

ops! {
    /// Combination of the value in a place with the one that is scattered there.
    ScatterOp {
        /// The new one replaces the old one.
        Set = 0 "set",
        /// They are added.
        Add = 1 "add",
        /// They are multiplied.
        Multiply = 2 "multiply",
        /// The smaller one stays; NaN wins.
        Min = 3 "min",
        /// The larger one stays; NaN wins.
        Max = 4 "max",
    }
}

impl UnaryOp {
    /// Lane of the result for a source of this lane; `None` if it does not take it.
    pub fn result(self, source: Lane) -> Option<Lane> {
        match self {
            Self::Neg | Self::Abs | Self::Sign | Self::Relu => number(source),
            Self::Not => (source == Lane::Bool).then_some(Lane::Bool),
            Self::BitNot => (source == Lane::I64).then_some(Lane::I64),
            Self::IsNan | Self::IsInf | Self::SignBit => source.is_float().then_some(Lane::Bool),
            _ => source.is_float().then_some(source),
        }
    }
}

impl BinaryOp {
    /// Lane of the result for two sources of this lane; `None` if it does not take them.
    pub fn result(self, sources: Lane) -> Option<Lane> {
        match self {
            Self::And | Self::Or | Self::Xor => (!sources.is_float()).then_some(sources),
            Self::ShiftLeft | Self::ShiftRight | Self::Gcd => {
                (sources == Lane::I64).then_some(sources)
            }
            Self::Add
            | Self::Sub
            | Self::Mul
            | Self::Div
            | Self::Min
            | Self::Max
            | Self::Pow
            | Self::Rem
            | Self::FloorDiv
            | Self::Modulo => number(sources),
            _ => sources.is_float().then_some(sources),
        }
    }
}

impl ReduceOp {
    /// Returns true if it takes values of this lane.
    pub fn takes(self, lane: Lane) -> bool {
        match self {
            Self::Any | Self::All => lane == Lane::Bool,
            Self::Sum | Self::Product | Self::Min | Self::Max => number(lane).is_some(),
        }
    }
}

impl ScanOp {
    /// Returns true if it takes values of this lane.
    pub fn takes(self, lane: Lane) -> bool {
        match self {
            Self::LogSumExp => lane.is_float(),
            Self::Sum | Self::Product | Self::Min | Self::Max => number(lane).is_some(),
        }
    }

    /// Value that it carries before the first element, in a lane that it takes.
    pub fn start(self, lane: Lane) -> Constant {
        let is_float = lane.is_float();
        match self {
            // Zero would make a first element of -0 one of 0.
            Self::Sum if is_float => Constant::Float(-0.0),
            Self::Sum => Constant::Int(0),
            Self::Product if is_float => Constant::Float(1.0),
            Self::Product => Constant::Int(1),
            Self::Min if is_float => Constant::Float(f64::INFINITY),
            Self::Min => Constant::Int(i64::MAX),
            Self::Max if is_float => Constant::Float(f64::NEG_INFINITY),
            Self::Max => Constant::Int(i64::MIN),
            Self::LogSumExp => Constant::Float(f64::NEG_INFINITY),
        }
    }
}

impl ScatterOp {
    /// Function that combines the two; `None` if only one stays whatever they are.
    pub fn step(self) -> Option<BinaryOp> {
        match self {
            Self::Set => None,
            Self::Add => Some(BinaryOp::Add),
            Self::Multiply => Some(BinaryOp::Mul),
            Self::Min => Some(BinaryOp::Min),
            Self::Max => Some(BinaryOp::Max),
        }
    }

    /// Returns true if it takes values of this lane.
    pub fn takes(self, lane: Lane) -> bool {
        self.step().is_none_or(|op| op.result(lane).is_some())
    }
}

fn number(lane: Lane) -> Option<Lane> {
    (lane != Lane::Bool).then_some(lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_their_places_in_the_list() {
        for (at, &op) in UnaryOp::ALL.iter().enumerate() {
            assert_eq!((op as usize, UnaryOp::from_code(at as u8)), (at, Some(op)));
        }
        for (at, &op) in BinaryOp::ALL.iter().enumerate() {
            assert_eq!((op as usize, BinaryOp::from_code(at as u8)), (at, Some(op)));
        }
        assert_eq!((CompareOp::ALL.len(), ReduceOp::ALL.len()), (6, 6));
        assert_eq!(ScatterOp::ALL.len(), 5);
        assert_eq!(UnaryOp::from_code(200), None);
    }

    #[test]
    fn a_scan_starts_with_a_number_of_its_lane() {
        for &op in ScanOp::ALL {
            let taken = Lane::ALL.into_iter().filter(|&lane| op.takes(lane));
            taken.for_each(|lane| assert!(op.start(lane).fits(lane), "{op} of {lane}"));
        }
    }

    #[test]
    fn every_op_takes_some_lane() {
        let takes_one = |takes: &dyn Fn(Lane) -> bool| Lane::ALL.into_iter().any(takes);
        assert!(UnaryOp::ALL.iter().all(|op| takes_one(&|lane| op.result(lane).is_some())));
        assert!(BinaryOp::ALL.iter().all(|op| takes_one(&|lane| op.result(lane).is_some())));
        assert!(ReduceOp::ALL.iter().all(|op| takes_one(&|lane| op.takes(lane))));
        assert!(ScanOp::ALL.iter().all(|op| takes_one(&|lane| op.takes(lane))));
    }
}
