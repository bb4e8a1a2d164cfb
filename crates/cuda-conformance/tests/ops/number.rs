//! Exact numbers that are rounded once: the reference for floating-point results.

use std::cmp::Ordering;

use num_bigint::BigUint;

/// A binary format of IEEE 754, or a smaller one of the same structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// The number of exponent bits.
    pub(crate) exponent: u32,
    /// The number of fraction bits.
    pub(crate) fraction: u32,
}

pub(crate) const F16: Format = Format::new(5, 10);
pub(crate) const BF16: Format = Format::new(8, 7);
pub(crate) const F32: Format = Format::new(8, 23);
pub(crate) const F64: Format = Format::new(11, 52);

impl Format {
    pub(crate) const fn new(exponent: u32, fraction: u32) -> Self {
        Self { exponent, fraction }
    }

    /// The format of a PTX type.
    pub(crate) fn of(ty: &str) -> Self {
        match ty {
            "f16" | "f16x2" => F16,
            "bf16" | "bf16x2" => BF16,
            "f32" => F32,
            "f64" => F64,
            _ => panic!("{ty} is not a floating-point type"),
        }
    }

    pub(crate) fn bits(self) -> u32 {
        1 + self.exponent + self.fraction
    }

    pub(crate) fn sign(self) -> u64 {
        1 << (self.bits() - 1)
    }

    pub(crate) fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    pub(crate) fn bias(self) -> i64 {
        (1 << (self.exponent - 1)) - 1
    }

    /// The exponent of the last bit of a subnormal number.
    fn least(self) -> i64 {
        1 - self.bias() - i64::from(self.fraction)
    }

    pub(crate) fn is_nan(self, bits: u64) -> bool {
        bits & !self.sign() & self.mask() > self.infinity()
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// The NaN that operations give. For f64 it is not defined; see
    /// [`Rule::AnyNan`](crate::operation::Rule).
    pub(crate) fn nan(self) -> u64 {
        match self {
            F64 => 0x7ff8_0000_0000_0000,
            _ => self.mask() >> 1,
        }
    }

    /// Replaces any NaN by [`nan`](Self::nan). `neg` and `abs` give this NaN on an H200 (driver
    /// 580); the ISA leaves it open.
    pub(crate) fn canonical(self, bits: u64) -> u64 {
        if self.is_nan(bits) { self.nan() } else { bits }
    }

    /// Replaces a subnormal number by a zero of its sign.
    pub(crate) fn flush(self, bits: u64) -> u64 {
        if bits & self.infinity() == 0 {
            bits & self.sign()
        } else {
            bits
        }
    }
}

/// A rounding mode, named as in PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Near,
    Zero,
    Down,
    Up,
    /// To the nearest number; a tie is rounded away from zero.
    Away,
}

impl Mode {
    pub(crate) const ALL: [(&'static str, Self); 4] = [
        ("rn", Self::Near),
        ("rz", Self::Zero),
        ("rm", Self::Down),
        ("rp", Self::Up),
    ];

    /// Whether an inexact magnitude is rounded up. `rest` compares the lost part with half of the
    /// last bit; the lost part is not zero.
    fn grows(self, negative: bool, odd: bool, rest: Ordering) -> bool {
        match self {
            Self::Near => rest.is_gt() || rest.is_eq() && odd,
            Self::Away => rest.is_ge(),
            Self::Zero => false,
            Self::Down => negative,
            Self::Up => !negative,
        }
    }
}

/// An exact number, an infinity or a NaN.
#[derive(Clone, Debug)]
pub(crate) enum Number {
    Nan,
    /// An infinity; true if it is negative.
    Infinite(bool),
    Finite(Finite),
}

/// The number `magnitude * 2^exponent`, plus less than one unit of the last bit if `more`.
#[derive(Clone, Debug)]
pub(crate) struct Finite {
    pub(crate) negative: bool,
    pub(crate) magnitude: BigUint,
    pub(crate) exponent: i64,
    /// Set only where there are more bits than in any format.
    more: bool,
}

impl Finite {
    fn new(negative: bool, magnitude: BigUint, exponent: i64) -> Self {
        Self {
            negative,
            magnitude,
            exponent,
            more: false,
        }
    }

    fn is_zero(&self) -> bool {
        self.magnitude == BigUint::ZERO
    }

    /// The magnitude, in units of `2^exponent`.
    fn scaled(&self, exponent: i64) -> BigUint {
        &self.magnitude << (self.exponent - exponent)
    }

    /// The magnitude divided by `2^shift` and rounded.
    fn cut(&self, shift: i64, mode: Mode) -> BigUint {
        if shift <= 0 {
            assert!(!self.more, "bits to spare");
            return &self.magnitude << -shift;
        }
        let kept = &self.magnitude >> shift;
        let rest = &self.magnitude - (&kept << shift);
        if rest == BigUint::ZERO && !self.more {
            return kept;
        }
        let half = BigUint::from(1_u32) << (shift - 1);
        let order = match rest.cmp(&half) {
            Ordering::Equal if self.more => Ordering::Greater,
            order => order,
        };
        let grows = mode.grows(self.negative, kept.bit(0), order);
        kept + u32::from(grows)
    }
}

impl Number {
    pub(crate) fn zero(negative: bool) -> Self {
        Self::Finite(Finite::new(negative, BigUint::ZERO, 0))
    }

    pub(crate) fn integer(value: i128) -> Self {
        let magnitude = value.unsigned_abs().into();
        Self::Finite(Finite::new(value < 0, magnitude, 0))
    }

    /// The number that `bits` encode in a format.
    pub(crate) fn read(bits: u64, format: Format) -> Self {
        let negative = bits & format.sign() != 0;
        let exponent = (bits & format.infinity()) >> format.fraction;
        let fraction = bits & ((1 << format.fraction) - 1);
        if exponent == (1 << format.exponent) - 1 {
            return match fraction {
                0 => Self::Infinite(negative),
                _ => Self::Nan,
            };
        }
        let hidden = u64::from(exponent != 0) << format.fraction;
        let place = i64::try_from(exponent.max(1)).unwrap() - 1;
        let magnitude = (fraction | hidden).into();
        Self::Finite(Finite::new(negative, magnitude, format.least() + place))
    }

    /// Rounds to a number of a format by `mode` and returns its bits.
    pub(crate) fn round(&self, format: Format, mode: Mode) -> u64 {
        let sign = |negative: bool| if negative { format.sign() } else { 0 };
        let finite = match self {
            Self::Nan => return format.nan(),
            Self::Infinite(negative) => return sign(*negative) | format.infinity(),
            Self::Finite(finite) => finite,
        };
        let bits = i64::try_from(finite.magnitude.bits()).unwrap();
        let precision = i64::from(format.fraction) + 1;
        let unit = (finite.exponent + bits - precision).max(format.least());
        let kept = finite.cut(unit - finite.exponent, mode);
        let kept = u128::try_from(kept).unwrap();
        // The hidden bit adds one to the exponent.
        let steps = u128::try_from(unit - format.least()).unwrap() << format.fraction;
        let infinity = u128::from(format.infinity());
        let magnitude = if finite.is_zero() { 0 } else { steps + kept };
        let magnitude = if magnitude >= infinity {
            let stays = match mode {
                Mode::Near | Mode::Away => false,
                Mode::Zero => true,
                Mode::Down => !finite.negative,
                Mode::Up => finite.negative,
            };
            infinity - u128::from(stays)
        } else {
            magnitude
        };
        sign(finite.negative) | u64::try_from(magnitude).unwrap()
    }

    pub(crate) fn is_nan(&self) -> bool {
        matches!(self, Self::Nan)
    }

    pub(crate) fn is_negative(&self) -> bool {
        match self {
            Self::Nan => false,
            Self::Infinite(negative) => *negative,
            Self::Finite(finite) => finite.negative,
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        matches!(self, Self::Finite(finite) if finite.is_zero())
    }

    /// Whether the number is closer to zero than the smallest normal number of a format.
    pub(crate) fn is_tiny(&self, format: Format) -> bool {
        match self {
            Self::Finite(finite) => {
                let bits = i64::try_from(finite.magnitude.bits()).unwrap();
                finite.exponent + bits <= 1 - format.bias()
            }
            _ => false,
        }
    }

    pub(crate) fn negated(mut self) -> Self {
        match &mut self {
            Self::Nan => {}
            Self::Infinite(negative) => *negative = !*negative,
            Self::Finite(finite) => finite.negative = !finite.negative,
        }
        self
    }

    /// The exact sum. `mode` decides the sign of a zero.
    pub(crate) fn plus(&self, other: &Self, mode: Mode) -> Self {
        let (a, b) = match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => return Self::Nan,
            (Self::Infinite(a), Self::Infinite(b)) if a != b => return Self::Nan,
            (Self::Infinite(a), _) | (_, Self::Infinite(a)) => return Self::Infinite(*a),
            (Self::Finite(a), Self::Finite(b)) => (a, b),
        };
        let exponent = a.exponent.min(b.exponent);
        let (x, y) = (a.scaled(exponent), b.scaled(exponent));
        let (negative, magnitude) = if a.negative == b.negative {
            (a.negative, x + y)
        } else {
            match x.cmp(&y) {
                Ordering::Greater => (a.negative, x - y),
                Ordering::Less => (b.negative, y - x),
                Ordering::Equal => (mode == Mode::Down, BigUint::ZERO),
            }
        };
        Self::Finite(Finite::new(negative, magnitude, exponent))
    }

    pub(crate) fn times(&self, other: &Self) -> Self {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Infinite(_), b) | (b, Self::Infinite(_)) if b.is_zero() => Self::Nan,
            (Self::Infinite(_), _) | (_, Self::Infinite(_)) => Self::Infinite(negative),
            (Self::Finite(a), Self::Finite(b)) => Self::Finite(Finite::new(
                negative,
                &a.magnitude * &b.magnitude,
                a.exponent + b.exponent,
            )),
        }
    }

    pub(crate) fn over(&self, other: &Self) -> Self {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Infinite(_), Self::Infinite(_)) => Self::Nan,
            (Self::Infinite(_), _) => Self::Infinite(negative),
            (_, Self::Infinite(_)) => Self::zero(negative),
            (Self::Finite(a), Self::Finite(b)) => {
                if b.is_zero() {
                    return match a.is_zero() {
                        true => Self::Nan,
                        false => Self::Infinite(negative),
                    };
                }
                // More bits than two significands of any format have.
                let dividend = &a.magnitude << 200_u32;
                let quotient = &dividend / &b.magnitude;
                let more = &quotient * &b.magnitude != dividend;
                Self::Finite(Finite {
                    negative,
                    magnitude: quotient,
                    exponent: a.exponent - b.exponent - 200,
                    more,
                })
            }
        }
    }

    pub(crate) fn root(&self) -> Self {
        match self {
            Self::Finite(finite) if finite.is_zero() => self.clone(),
            number if number.is_negative() || number.is_nan() => Self::Nan,
            Self::Finite(finite) => {
                let shift = 300 + (finite.exponent & 1);
                let square = &finite.magnitude << shift;
                let root = square.sqrt();
                let more = &root * &root != square;
                Self::Finite(Finite {
                    negative: false,
                    magnitude: root,
                    exponent: (finite.exponent - shift) / 2,
                    more,
                })
            }
            other => other.clone(),
        }
    }

    /// Rounds to an integral number, which keeps the sign even if it is zero.
    pub(crate) fn integral(&self, mode: Mode) -> Self {
        match self {
            Self::Finite(finite) if finite.exponent < 0 => {
                let magnitude = finite.cut(-finite.exponent, mode);
                Self::Finite(Finite::new(finite.negative, magnitude, 0))
            }
            other => other.clone(),
        }
    }

    /// The nearest integer in a range to an integral number, or `None` for a NaN.
    pub(crate) fn clamped(&self, least: i128, greatest: i128) -> Option<i128> {
        match self {
            Self::Nan => None,
            Self::Infinite(true) => Some(least),
            Self::Infinite(false) => Some(greatest),
            Self::Finite(finite) => {
                let far = if finite.negative { least } else { greatest };
                let magnitude = finite.scaled(finite.exponent.min(0)) >> -finite.exponent.min(0);
                let Ok(magnitude) = i128::try_from(magnitude) else {
                    return Some(far);
                };
                let value = if finite.negative {
                    -magnitude
                } else {
                    magnitude
                };
                Some(value.clamp(least, greatest))
            }
        }
    }

    /// Compares two numbers; `None` if one is a NaN.
    pub(crate) fn order(&self, other: &Self) -> Option<Ordering> {
        let sign = |negative: bool| {
            if negative {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        };
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => None,
            (Self::Infinite(a), Self::Infinite(b)) => Some(b.cmp(a)),
            (Self::Infinite(a), _) => Some(sign(*a)),
            (_, Self::Infinite(b)) => Some(sign(!*b)),
            _ => match self.plus(&other.clone().negated(), Mode::Near) {
                difference if difference.is_zero() => Some(Ordering::Equal),
                difference => Some(sign(difference.is_negative())),
            },
        }
    }

    /// The nearest f64.
    pub(crate) fn to_f64(&self) -> f64 {
        f64::from_bits(self.round(F64, Mode::Near))
    }
}

#[test]
fn exact_numbers_round_as_the_processor_does() {
    let mut random = fastrand::Rng::with_seed(1);
    let read = |value: f64| Number::read(value.to_bits(), F64);
    for _ in 0..20_000 {
        let mut number = || f64::from_bits(random.u64(..));
        let (a, b, c) = (number(), number(), number());
        let near = |number: Number| number.round(F64, Mode::Near);
        let same = |number: Number, value: f64| {
            let found = f64::from_bits(near(number));
            assert!(
                found.to_bits() == value.to_bits() || (found.is_nan() && value.is_nan()),
                "{a:e}, {b:e}, {c:e}: got {found:e}, expected {value:e}"
            );
        };
        same(read(a).plus(&read(b), Mode::Near), a + b);
        same(read(a).times(&read(b)), a * b);
        same(read(a).over(&read(b)), a / b);
        same(read(a).root(), a.sqrt());
        same(read(a).integral(Mode::Near), a.round_ties_even());
        same(read(a).integral(Mode::Down), a.floor());
        let product = read(a).times(&read(b));
        same(product.plus(&read(c), Mode::Near), a.mul_add(b, c));
        let single = f32::from_bits(read(a).round(F32, Mode::Near) as u32);
        assert!(single == a as f32 || a.is_nan());
        assert_eq!(read(a).order(&read(b)), a.partial_cmp(&b));
        let small = a.abs().log2() * 1e6;
        let clamped = read(small)
            .integral(Mode::Zero)
            .clamped(i32::MIN.into(), i32::MAX.into());
        assert_eq!(clamped.unwrap_or(0), i128::from(small as i32));
    }
}
