//! The error function, what it leaves, and the normal distribution.

use super::exponential::exp_wide;
use super::reduction::{LOWERED, Whole};
use super::{at_most, polynomial, polynomial_f32};

/// Factors of `x^2` and x in a simple quadratic function that is close to `log(erfc(x))`.
const SQUARE: f32 = -29.0 / 32.0;
const LINEAR: f32 = -7.0 / 8.0;

/// `log(erfc(x))` without the quadratic function, over x, for x of 0 to `FLAT`.
const REST: [f32; 10] = [
    -0.253_379_17,
    0.269_630_16,
    -0.102_771_28,
    0.019_117_698,
    0.000_253_079_66,
    -0.001_799_414_2,
    0.000_740_761_34,
    -0.000_167_527_26,
    2.136_838_7e-5,
    -1.194_888e-6,
];

/// `erf(x) / x` at zero, and what it is besides in `x^2`, up to `SMALL`.
const SLOPE: f32 = std::f32::consts::FRAC_2_SQRT_PI;
const BENDS: [f32; 5] =
    [-5.879_903_5e-8, -0.376_126_35, 0.112_835_33, -0.026_820_663, 0.004_894_614_7];
const SMALL: f32 = 0.4;

/// 1.5 * 2^16: added to a small number and subtracted again, it leaves it rounded to 2^-7.
const TO_SEVEN_BITS: f32 = 98_304.0;

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
const FLAT: f32 = 3.95;

/// `erfc(x)` for x of zero and more, of which the square is known.
#[inline(always)]
pub(super) fn erfc_wide(x: f64, square: f64) -> f64 {
    // Where the polynomial ends, nothing is left in f32.
    let mapped = 1.0 / at_most(x, 10.3).mul_add(0.35, 1.0);
    let place = mapped.mul_add(1.0 / REACH, -MIDDLE / REACH);
    exp_wide(-square) * polynomial(&ERFCX, place)
}

/// One minus `e^log(erfc(x))`, within one unit of the last place. The quadratic function is computed of a
/// number with so few bits that it is exact; the slope mends that.
#[inline(always)]
pub(in super::super) fn erf(x: f32) -> f32 {
    let magnitude = if x.abs() > FLAT { FLAT } else { x.abs() };
    let rounded = (magnitude + TO_SEVEN_BITS) - TO_SEVEN_BITS;
    let slope = rounded.mul_add(SQUARE, LINEAR);
    let quadratic = rounded * slope;
    let whole = Whole::nearest_to_power_of_e(quadratic);
    let mended_slope = magnitude.mul_add(SQUARE, slope);
    let rest = magnitude * polynomial_f32(&REST, magnitude);
    let rest = (magnitude - rounded).mul_add(mended_slope, rest);
    let [high, low] = whole.past_one(quadratic, rest);
    let scale = whole.power_of_two(0);
    let large = scale.mul_add(-(high + low), 1.0 - scale);
    // Here the quadratic function is too rough.
    let square = magnitude * magnitude;
    let raised = magnitude * (1.0 / LOWERED);
    let small = raised.mul_add(SLOPE, raised * polynomial_f32(&BENDS, square)) * LOWERED;
    let result = if magnitude < SMALL { small } else { large };
    result.copysign(x)
}

#[inline(always)]
pub(in super::super) fn erfc(x: f32) -> f32 {
    let wide = f64::from(x);
    let above = erfc_wide(wide.abs(), wide * wide);
    (if wide < 0.0 { 2.0 - above } else { above }) as f32
}
