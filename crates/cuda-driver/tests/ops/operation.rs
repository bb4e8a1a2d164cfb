//! One form of an instruction: its text, what it is applied to, and what it must give.

use crate::number::Format;

/// A type of PTX, as `s32`.
pub(crate) type Ty = &'static str;

/// Bits of a register of a type.
pub(crate) fn bits(ty: Ty) -> u32 {
    if let Some(half) = ty.strip_suffix("x2") {
        return 2 * half[half.len() - 2..].parse::<u32>().unwrap();
    }
    ty.trim_start_matches(|c: char| c.is_ascii_alphabetic())
        .parse()
        .unwrap()
}

/// The bits of a value that a register of a type holds.
pub(crate) fn cut(ty: Ty, value: u64) -> u64 {
    value & (u64::MAX >> (64 - bits(ty)))
}

/// What values a source takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values {
    /// All of its type, those at the edges more often.
    Any,
    /// Unsigned numbers below this.
    Below(u64),
    /// Floating-point numbers between these.
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

/// A source of numbers below `limit`.
pub(crate) fn below(ty: Ty, limit: u64) -> Source {
    Source {
        ty,
        values: Values::Below(limit),
    }
}

/// A source of floating-point numbers between two.
pub(crate) fn between(ty: Ty, least: f64, greatest: f64) -> Source {
    Source {
        ty,
        values: Values::Between(least, greatest),
    }
}

/// When a result is right.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// The same bits.
    Exact,
    /// The same bits, or both a NaN: which one is not defined, so that devices may differ in it
    /// too.
    AnyNan(Format),
    /// As far off as the ISA says: by this part of it, or by this much. One of the two must hold.
    Within {
        format: Format,
        relative: f64,
        absolute: f64,
    },
}

/// What lanes must get: `%d` and `%e`.
pub(crate) type Results = [u64; 2];

type OfLane = dyn Fn(&[u64]) -> Results;
type OfGroup = dyn Fn(&[Vec<u64>]) -> Vec<Results>;

pub(crate) enum Reference {
    /// Each lane from its own sources.
    Lane(Box<OfLane>),
    /// So many threads beside each other, from the sources of all.
    Group(usize, Box<OfGroup>),
}

/// A form of an instruction.
///
/// In the text `%a`, `%b`, `%c` and `%f` are the sources, `%d` and `%e` the results, `%p` and `%q`
/// predicates, `%m` is the address of 8 zeroed bytes in global memory for each thread, and `%s` of
/// 16 bytes in shared memory.
pub(crate) struct Operation {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) sources: Vec<Source>,
    pub(crate) to: Vec<Ty>,
    pub(crate) rule: Rule,
    /// The first architecture that has it, as 90 for `sm_90`.
    pub(crate) since: u32,
    /// The version of PTX that it came with.
    pub(crate) version: (u32, u32),
    pub(crate) reference: Reference,
}

impl Operation {
    /// One whose lanes have nothing to do with each other.
    pub(crate) fn new<S: Into<Source> + Copy>(
        text: impl Into<String>,
        sources: &[S],
        to: Ty,
        reference: impl Fn(&[u64]) -> u64 + 'static,
    ) -> Self {
        let both = move |sources: &[u64]| [reference(sources), 0];
        Self::with(text, sources, &[to], Reference::Lane(Box::new(both)))
    }

    /// One with the results `%d` and `%e`.
    pub(crate) fn pair<S: Into<Source> + Copy>(
        text: impl Into<String>,
        sources: &[S],
        to: [Ty; 2],
        reference: impl Fn(&[u64]) -> Results + 'static,
    ) -> Self {
        Self::with(text, sources, &to, Reference::Lane(Box::new(reference)))
    }

    /// One among the 32 lanes of a warp.
    pub(crate) fn warp<S: Into<Source> + Copy>(
        text: impl Into<String>,
        sources: &[S],
        to: &[Ty],
        reference: impl Fn(&[Vec<u64>]) -> Vec<Results> + 'static,
    ) -> Self {
        Self::group(32, text, sources, to, reference)
    }

    /// One among so many threads.
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

    /// Where the text does not begin with the instruction.
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

    /// What the lanes must get from these sources, as many as whole blocks have.
    pub(crate) fn expected(&self, sources: &[Vec<u64>]) -> Vec<Results> {
        match &self.reference {
            Reference::Lane(lane) => sources.iter().map(|sources| lane(sources)).collect(),
            Reference::Group(size, group) => sources.chunks(*size).flat_map(group).collect(),
        }
    }
}

impl Rule {
    /// Whether `found` is right. Two values in a register are taken one by one.
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
                // An infinity is not near anything.
                let off = (found - expected).abs();
                off <= relative * expected.abs().min(f64::MAX) || off <= absolute
            }
        }
    }

    /// The same with the bounds twice as wide: for two devices, each of which keeps to the bounds.
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
