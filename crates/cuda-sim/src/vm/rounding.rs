//! Floating-point arithmetic of PTX: rounding modes, flushing of subnormals, saturation and
//! canonical NaNs.

use rustc_apfloat::Float as _;
use rustc_apfloat::ieee::Double;

/// A rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    Near,
    Zero,
    Down,
    Up,
}

impl Round {
    /// Decodes the number that [`bits`](Self::bits) returns.
    #[inline(always)]
    pub(super) fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::Near,
            1 => Self::Zero,
            2 => Self::Down,
            _ => Self::Up,
        }
    }

    pub(super) fn bits(self) -> u64 {
        self as u64
    }

    fn apfloat(self) -> rustc_apfloat::Round {
        match self {
            Self::Near => rustc_apfloat::Round::NearestTiesToEven,
            Self::Zero => rustc_apfloat::Round::TowardZero,
            Self::Down => rustc_apfloat::Round::TowardNegative,
            Self::Up => rustc_apfloat::Round::TowardPositive,
        }
    }
}

/// Whether `mul_add` is MinGW's, which rounds twice.
const MINGW: bool = cfg!(all(windows, target_env = "gnu"));

/// The NaN that f32 operations return.
pub(super) const NAN32: f32 = f32::from_bits(0x7fff_ffff);

/// Replaces any NaN by the canonical one. Works on bits, because the compiler may replace one NaN
/// by another.
#[inline(always)]
pub(super) fn canonical(a: f32) -> f32 {
    let bits = a.to_bits();
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        NAN32
    } else {
        f32::from_bits(bits)
    }
}

/// Flushes subnormal numbers to zero and keeps their sign.
///
/// A subnormal value that rounding turns into the least normal number is flushed too, see
/// [`flush_rounded`].
#[inline(always)]
pub(super) fn flush(a: f32) -> f32 {
    let bits = a.to_bits();
    if bits & 0x7f80_0000 == 0 {
        f32::from_bits(bits & 0x8000_0000)
    } else {
        a
    }
}

/// The result of `f` in a rounding mode, flushed.
///
/// Measured on an H200 (driver 580) with `mul` and `fma` of f32 and f16: `.ftz` flushes a result
/// that is below the least normal number before rounding, even if rounding would produce the least
/// normal number.
#[inline(always)]
pub(super) fn flush_rounded(round: Round, f: impl Fn(Round) -> f32) -> f32 {
    let value = f(round);
    let is_least = value.to_bits() & 0x7fff_ffff == 0x0080_0000;
    flush(if is_least { f(Round::Zero) } else { value })
}

/// Clamps to 0..1; NaN becomes 0.
#[inline(always)]
pub(super) fn saturate(a: f32) -> f32 {
    if a > 0.0 {
        if a < 1.0 { a } else { 1.0 }
    } else {
        0.0
    }
}

/// Clamps to 0..1; NaN becomes 0.
#[inline(always)]
pub(super) fn saturate64(a: f64) -> f64 {
    if a > 0.0 {
        if a < 1.0 { a } else { 1.0 }
    } else {
        0.0
    }
}

/// Rounds `high + low` to f32, where `high` is the nearest f64 to that sum and the sign of `low`
/// shows on which side of `high` the exact sum lies.
#[inline]
fn narrow(high: f64, low: f64, round: Round) -> f32 {
    if !high.is_finite() {
        return high as f32;
    }
    // Round to odd: if bits are lost, set the last bit.
    let mut odd = high;
    if low != 0.0 && high.to_bits() & 1 == 0 {
        odd = if (low > 0.0) == (high > 0.0) || high == 0.0 {
            f64::from_bits(high.to_bits() + 1)
        } else {
            f64::from_bits(high.to_bits() - 1)
        };
    }
    round_f32(odd, round)
}

/// Converts f64 to f32 in a rounding mode.
#[inline]
pub(super) fn round_f32(a: f64, round: Round) -> f32 {
    let near = a as f32;
    if a.is_nan() {
        return NAN32;
    }
    if a.is_infinite() {
        return near;
    }
    let wide = f64::from(near);
    let (too_high, too_low) = (wide > a, wide < a);
    match round {
        Round::Near => near,
        Round::Down if too_high => near.next_down(),
        Round::Up if too_low => near.next_up(),
        Round::Zero if too_high && a > 0.0 => near.next_down(),
        Round::Zero if too_low && a < 0.0 => near.next_up(),
        _ => near,
    }
}

/// The rounding error of `sum = a + b`.
#[inline]
fn two_sum_error(a: f64, b: f64, sum: f64) -> f64 {
    let rest = sum - a;
    (a - (sum - rest)) + (b - rest)
}

/// The sign of an exact zero sum: negative only when rounding down, unless both operands are
/// negative.
#[inline]
fn zero_sum(a: f64, b: f64, round: Round) -> f32 {
    let both = a.is_sign_negative() && b.is_sign_negative();
    let either = a.is_sign_negative() || b.is_sign_negative();
    if both || (either && round == Round::Down) {
        -0.0
    } else {
        0.0
    }
}

pub(super) fn add32(a: f32, b: f32, round: Round) -> f32 {
    let (a, b) = (f64::from(a), f64::from(b));
    let sum = a + b;
    if sum == 0.0 {
        return zero_sum(a, b, round);
    }
    canonical(narrow(sum, two_sum_error(a, b, sum), round))
}

pub(super) fn mul32(a: f32, b: f32, round: Round) -> f32 {
    canonical(round_f32(f64::from(a) * f64::from(b), round))
}

/// `a * b + c`, rounded once to nearest.
#[inline(always)]
pub(super) fn fused32(a: f32, b: f32, c: f32) -> f32 {
    if MINGW {
        libm::fmaf(a, b, c)
    } else {
        a.mul_add(b, c)
    }
}

/// `a * b + c`, rounded once to nearest.
#[inline(always)]
pub(super) fn fused64(a: f64, b: f64, c: f64) -> f64 {
    if MINGW {
        libm::fma(a, b, c)
    } else {
        a.mul_add(b, c)
    }
}

pub(super) fn fma32(a: f32, b: f32, c: f32, round: Round) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let c = f64::from(c);
    let sum = product + c;
    if sum == 0.0 {
        return zero_sum(product, c, round);
    }
    canonical(narrow(sum, two_sum_error(product, c, sum), round))
}

pub(super) fn div32(a: f32, b: f32, round: Round) -> f32 {
    let (a, b) = (f64::from(a), f64::from(b));
    let quotient = a / b;
    let rest = fused64(-quotient, b, a);
    let low = if b < 0.0 { -rest } else { rest };
    // Nothing is lost if an infinity takes part.
    let low = if low.is_finite() { low } else { 0.0 };
    canonical(narrow(quotient, low, round))
}

pub(super) fn sqrt32(a: f32, round: Round) -> f32 {
    let a = f64::from(a);
    let root = a.sqrt();
    let low = if root.is_finite() {
        fused64(-root, root, a)
    } else {
        0.0
    };
    canonical(narrow(root, low, round))
}

fn double(a: f64) -> Double {
    Double::from_bits(a.to_bits().into())
}

fn from_double(a: Double) -> f64 {
    f64::from_bits(a.to_bits() as u64)
}

pub(super) fn add64(a: f64, b: f64, round: Round) -> f64 {
    match round {
        Round::Near => a + b,
        _ => from_double(double(a).add_r(double(b), round.apfloat()).value),
    }
}

pub(super) fn mul64(a: f64, b: f64, round: Round) -> f64 {
    match round {
        Round::Near => a * b,
        _ => from_double(double(a).mul_r(double(b), round.apfloat()).value),
    }
}

pub(super) fn fma64(a: f64, b: f64, c: f64, round: Round) -> f64 {
    match round {
        Round::Near => fused64(a, b, c),
        _ => from_double(
            double(a)
                .mul_add_r(double(b), double(c), round.apfloat())
                .value,
        ),
    }
}

pub(super) fn div64(a: f64, b: f64, round: Round) -> f64 {
    match round {
        Round::Near => a / b,
        _ => from_double(double(a).div_r(double(b), round.apfloat()).value),
    }
}

pub(super) fn sqrt64(a: f64, round: Round) -> f64 {
    let root = a.sqrt();
    if round == Round::Near || !root.is_finite() || root == 0.0 {
        return root;
    }
    // Scale tiny numbers up, so that the rest is exact.
    let (scaled, scale) = if a < 1e-200 {
        (a * 2f64.powi(400), 2f64.powi(200))
    } else {
        (a, 1.0)
    };
    let rest = fused64(-root * scale, root * scale, scaled);
    match round {
        Round::Down | Round::Zero if rest < 0.0 => root.next_down(),
        Round::Up if rest > 0.0 => root.next_up(),
        _ => root,
    }
}

/// Rounds an f64 to an integral value in a rounding mode.
pub(super) fn integral(a: f64, round: Round) -> f64 {
    match round {
        Round::Near => a.round_ties_even(),
        Round::Zero => a.trunc(),
        Round::Down => a.floor(),
        Round::Up => a.ceil(),
    }
}

/// Converts an integer to f32 in a rounding mode.
pub(super) fn int_to_f32(value: i128, round: Round) -> f32 {
    let near = value as f32;
    let (too_high, too_low) = (near as i128 > value, (near as i128) < value);
    step(
        near,
        too_high,
        too_low,
        value < 0,
        round,
        f32::next_down,
        f32::next_up,
    )
}

/// Converts an integer to f64 in a rounding mode.
pub(super) fn int_to_f64(value: i128, round: Round) -> f64 {
    let near = value as f64;
    let (too_high, too_low) = (near as i128 > value, (near as i128) < value);
    step(
        near,
        too_high,
        too_low,
        value < 0,
        round,
        f64::next_down,
        f64::next_up,
    )
}

/// Converts an integer to f64, rounded to odd. A second rounding to a shorter format then gives the
/// same result as rounding the integer directly.
pub(super) fn int_to_odd(value: i128) -> f64 {
    let cut = int_to_f64(value, Round::Zero);
    f64::from_bits(cut.to_bits() | u64::from(cut as i128 != value))
}

fn step<T>(
    near: T,
    too_high: bool,
    too_low: bool,
    negative: bool,
    round: Round,
    down: fn(T) -> T,
    up: fn(T) -> T,
) -> T {
    match round {
        Round::Down if too_high => down(near),
        Round::Up if too_low => up(near),
        Round::Zero if too_high && !negative => down(near),
        Round::Zero if too_low && negative => up(near),
        _ => near,
    }
}
