//! One form of an instruction: its text, its sources and the expected results.

use crate::number::Format;

/// A PTX type, such as `s32`.
pub(crate) type Ty = &'static str;

/// The number of bits in a register of a type.
pub(crate) fn bits(ty: Ty) -> u32 {
    if let Some(half) = ty.strip_suffix("x2") {
        return 2 * half[half.len() - 2..].parse::<u32>().unwrap();
    }
    ty.trim_start_matches(|c: char| c.is_ascii_alphabetic())
        .parse()
        .unwrap()
}

/// The bits of `value` that a register of a type holds.
pub(crate) fn cut(ty: Ty, value: u64) -> u64 {
    value & (u64::MAX >> (64 - bits(ty)))
}

/// The values that a source takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values {
    /// Any value of the type; edge values are more frequent.
    Any,
    /// Unsigned numbers below a limit.
    Below(u64),
    /// Floating-point numbers between two limits.
    Between(f64, f64),
}

/// A source: the type of its register, and its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) ty: Ty,
    pub(crate) values: Values,
}

impl From<Ty> for Source {
    fn from(ty: Ty) -> Self {
        Self {
            ty,
            values: Values::Any,
        }
    }
}

/// Creates a source of numbers below `limit`.
pub(crate) fn below(ty: Ty, limit: u64) -> Source {
    Source {
        ty,
        values: Values::Below(limit),
    }
}

/// Creates a source of floating-point numbers between `least` and `greatest`.
pub(crate) fn between(ty: Ty, least: f64, greatest: f64) -> Source {
    Source {
        ty,
        values: Values::Between(least, greatest),
    }
}

/// The condition under which a result is right.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// The bits must be equal.
    Exact,
    /// The bits must be equal, or both must be a NaN: the ISA does not define which one, so devices
    /// may differ as well.
    AnyNan(Format),
    /// The result must be within the error that the ISA allows, either relative or absolute. One of
    /// the two bounds must hold.
    Within {
        format: Format,
        relative: f64,
        absolute: f64,
    },
}

/// The results that a lane must get: `%d` and `%e`.
pub(crate) type Results = [u64; 2];

type OfLane = dyn Fn(&[u64]) -> Results;
type OfGroup = dyn Fn(&[Vec<u64>]) -> Vec<Results>;

pub(crate) enum Reference {
    /// The results of each lane depend on its own sources only.
    Lane(Box<OfLane>),
    /// The results of a group of this many adjacent threads depend on the sources of all of them.
    Group(usize, Box<OfGroup>),
}

/// A form of an instruction.
///
/// In the text `%a`, `%b`, `%c` and `%f` are the sources, `%d` and `%e` the results, and `%p` and
/// `%q` predicates. `%m` is the address of 8 zeroed bytes in global memory for each thread, and
/// `%s` that of 16 bytes in shared memory.
pub(crate) struct Operation {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) sources: Vec<Source>,
    pub(crate) to: Vec<Ty>,
    pub(crate) rule: Rule,
    /// The first architecture that supports it, such as 90 for `sm_90`.
    pub(crate) since: u32,
    /// The PTX version that introduced it.
    pub(crate) version: (u32, u32),
    pub(crate) reference: Reference,
}

impl Operation {
    /// Creates an operation whose lanes are independent.
    pub(crate) fn new<S: Into<Source> + Copy>(
        text: impl Into<String>,
        sources: &[S],
        to: Ty,
        reference: impl Fn(&[u64]) -> u64 + 'static,
    ) -> Self {
        let both = move |sources: &[u64]| [reference(sources), 0];
        Self::with(text, sources, &[to], Reference::Lane(Box::new(both)))
    }

    /// Creates an operation with independent lanes and the results `%d` and `%e`.
    pub(crate) fn pair<S: Into<Source> + Copy>(
        text: impl Into<String>,
        sources: &[S],
        to: [Ty; 2],
        reference: impl Fn(&[u64]) -> Results + 'static,
    ) -> Self {
        Self::with(text, sources, &to, Reference::Lane(Box::new(reference)))
    }

    /// Creates an operation across the 32 lanes of a warp.
    pub(crate) fn warp<S: Into<Source> + Copy>(
        text: impl Into<String>,
        sources: &[S],
        to: &[Ty],
        reference: impl Fn(&[Vec<u64>]) -> Vec<Results> + 'static,
    ) -> Self {
        Self::group(32, text, sources, to, reference)
    }

    /// Creates an operation across groups of `size` threads.
    pub(crate) fn group<S: Into<Source> + Copy>(
        size: usize,
        text: impl Into<String>,
        sources: &[S],
        to: &[Ty],
        reference: impl Fn(&[Vec<u64>]) -> Vec<Results> + 'static,
    ) -> Self {
        Self::with(
            text,
            sources,
            to,
            Reference::Group(size, Box::new(reference)),
        )
    }

    fn with<S: Into<Source> + Copy>(
        text: impl Into<String>,
        sources: &[S],
        to: &[Ty],
        reference: Reference,
    ) -> Self {
        let text = text.into();
        let name = text.split_whitespace().next().unwrap_or_default();
        Self {
            name: name.trim_end_matches(';').to_owned(),
            sources: sources.iter().map(|&source| source.into()).collect(),
            to: to.to_vec(),
            rule: Rule::Exact,
            since: 75,
            version: (8, 0),
            reference,
            text,
        }
    }

    /// Sets the name, for a text that does not begin with the instruction.
    pub(crate) fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    pub(crate) fn rule(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    pub(crate) fn since(mut self, since: u32) -> Self {
        self.since = since;
        self
    }

    pub(crate) fn version(mut self, major: u32, minor: u32) -> Self {
        self.version = (major, minor);
        self
    }

    /// The results that the lanes must get for these sources, whose number is a multiple of the
    /// block size.
    pub(crate) fn expected(&self, sources: &[Vec<u64>]) -> Vec<Results> {
        match &self.reference {
            Reference::Lane(lane) => sources.iter().map(|sources| lane(sources)).collect(),
            Reference::Group(size, group) => sources.chunks(*size).flat_map(group).collect(),
        }
    }
}

impl Rule {
    /// Whether `found` is right. Two values packed in a register are checked separately.
    pub(crate) fn accepts(self, found: u64, expected: u64) -> bool {
        match self {
            Self::AnyNan(format) | Self::Within { format, .. } if format.bits() == 16 => {
                let low = self.accepts_one(found & 0xffff, expected & 0xffff);
                low && self.accepts_one(found >> 16, expected >> 16)
            }
            _ => self.accepts_one(found, expected),
        }
    }

    fn accepts_one(self, found: u64, expected: u64) -> bool {
        if found == expected {
            return true;
        }
        match self {
            Self::Exact => false,
            Self::AnyNan(format) => format.is_nan(found) && format.is_nan(expected),
            Self::Within {
                format,
                relative,
                absolute,
            } => {
                if format.is_nan(found) || format.is_nan(expected) {
                    return format.is_nan(found) && format.is_nan(expected);
                }
                let value = |bits| crate::number::Number::read(bits, format).to_f64();
                let (found, expected) = (value(found), value(expected));
                // An infinity is within no bound of another value.
                let off = (found - expected).abs();
                off <= relative * expected.abs().min(f64::MAX) || off <= absolute
            }
        }
    }

    /// The rule for comparing two devices: the bounds are twice as wide, as each device keeps to
    /// them.
    pub(crate) fn between_two(self) -> Self {
        match self {
            Self::Within {
                format,
                relative,
                absolute,
            } => Self::Within {
                format,
                relative: relative * 2.1,
                absolute: absolute * 2.0,
            },
            other => other,
        }
    }
}
