//! The inverse functions of sine, cosine and tangent.

use std::f64::consts::{FRAC_PI_2, PI};

use super::polynomial;

/// `atan(t) / t` in t^2, for t of 0 to 1.
const ATAN: [f64; 13] = [
    0.999_999_999_990_655,
    -0.333_333_330_053_306_84,
    0.199_999_808_377_333_97,
    -0.142_852_714_395_096_78,
    0.111_057_417_514_213_25,
    -0.090_516_205_372_284_39,
    0.075_039_633_005_707_17,
    -0.060_426_369_267_268_853,
    0.043_967_288_616_838_32,
    -0.026_338_649_546_366_326,
    0.011_646_631_138_815_212,
    -0.003_278_305_689_250_733,
    0.000_432_959_084_798_773_54,
];

/// The angle of a point; no side is NaN.
#[inline(always)]
fn angle(y: f64, x: f64) -> f64 {
    let rise = y.abs();
    let run = x.abs();
    let is_steep = rise > run;
    let short = if is_steep { run } else { rise };
    let long = if is_steep { rise } else { run };
    let slope = short / long;
    // Neither two zeros nor two infinities have a slope.
    let slope = if long == 0.0 { 0.0 } else { slope };
    let slope = if short == f64::INFINITY { 1.0 } else { slope };
    let flat = slope * polynomial(&ATAN, slope * slope);
    let quarter = if is_steep { FRAC_PI_2 - flat } else { flat };
    let half = if x.is_sign_negative() { PI - quarter } else { quarter };
    half.copysign(y)
}

#[inline(always)]
pub(in super::super) fn atan(x: f32) -> f32 {
    let result = angle(x.into(), 1.0) as f32;
    if x.is_nan() { x } else { result }
}

#[inline(always)]
pub(in super::super) fn atan2(y: f32, x: f32) -> f32 {
    let result = angle(y.into(), x.into()) as f32;
    if y.is_nan() | x.is_nan() { y + x } else { result }
}

#[inline(always)]
pub(in super::super) fn asin(x: f32) -> f32 {
    let wide = f64::from(x);
    let result = angle(wide, ((1.0 - wide) * (1.0 + wide)).sqrt()) as f32;
    if x.abs() <= 1.0 { result } else { f32::NAN }
}

#[inline(always)]
pub(in super::super) fn acos(x: f32) -> f32 {
    let wide = f64::from(x);
    let result = angle(((1.0 - wide) * (1.0 + wide)).sqrt(), wide) as f32;
    if x.abs() <= 1.0 { result } else { f32::NAN }
}
