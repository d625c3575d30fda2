//! The error function, what it leaves, and the normal distribution.

use super::exponential::exp_wide;
use super::{at_most, polynomial};

/// `erf(x) / x` for magnitudes of up to 4, in `x^2 / 8 - 1`.
const ERF: [f64; 21] = [
    0.353_530_995_642_474_7,
    -0.176_576_233_232_743_77,
    0.131_675_117_070_770_54,
    -0.107_710_447_738_089_09,
    0.090_208_988_898_235_93,
    -0.074_727_749_948_692_13,
    0.059_886_959_895_422_07,
    -0.045_766_284_040_728_72,
    0.033_060_388_458_040_88,
    -0.022_467_067_801_956_65,
    0.014_349_901_932_437_35,
    -0.008_627_725_235_406_579,
    0.004_854_891_786_776_437,
    -0.002_533_999_626_115_694_3,
    0.001_286_365_673_071_400_7,
    -0.000_669_684_852_208_171_1,
    0.000_286_975_086_415_06,
    -7.404_997_703_269_346e-5,
    3.693_546_447_416_599e-5,
    -3.634_301_543_640_471e-5,
    1.206_170_833_602_716_6e-5,
];

/// `erfc(x) exp(x^2)` for x of 0 to 10.3, in the middle of `1 / (1 + 0.35 x)`.
const ERFCX: [f64; 14] = [
    0.273_906_668_323_113_3,
    0.367_460_216_518_041_1,
    0.222_089_965_591_839_9,
    0.100_068_864_659_486_51,
    0.031_475_752_450_152_36,
    0.005_510_982_745_692_762,
    -0.000_189_915_870_221_308_75,
    -0.000_318_337_552_700_963_85,
    -2.397_746_405_582_697e-5,
    1.902_856_066_310_679_7e-5,
    2.168_850_521_726_547_3e-6,
    -1.392_392_965_508_062_9e-6,
    -1.129_844_910_836_722_7e-7,
    8.856_013_582_468_285e-8,
];

/// The middle of where `ERFCX` holds, and how far it reaches on both sides.
const MIDDLE: f64 = 0.608_577_633_007_600_4;
const REACH: f64 = 0.391_422_366_992_399_6;

/// Bound from which on `erf` is one in f32.
const FLAT: f64 = 4.0;

/// `erfc(x)` for x of zero and more, of which the square is known.
#[inline(always)]
pub(super) fn erfc_wide(x: f64, square: f64) -> f64 {
    // Where the polynomial ends, nothing is left in f32.
    let mapped = 1.0 / at_most(x, 10.3).mul_add(0.35, 1.0);
    let place = mapped.mul_add(1.0 / REACH, -MIDDLE / REACH);
    exp_wide(-square) * polynomial(&ERFCX, place)
}

#[inline(always)]
pub(in super::super) fn erf(x: f32) -> f32 {
    let magnitude = at_most(f64::from(x).abs(), FLAT);
    let place = (magnitude * magnitude).mul_add(0.125, -1.0);
    ((magnitude * polynomial(&ERF, place)) as f32).copysign(x)
}

#[inline(always)]
pub(in super::super) fn erfc(x: f32) -> f32 {
    let wide = f64::from(x);
    let above = erfc_wide(wide.abs(), wide * wide);
    (if wide < 0.0 { 2.0 - above } else { above }) as f32
}
