//! Architectures as NVRTC names them: `compute_90`, `sm_90a`.

use std::fmt;
use std::str::FromStr;

/// A target architecture: a virtual architecture (`compute_90`), for which PTX is written, or a
/// real architecture (`sm_90`), whose machine code a cubin contains.
///
/// ```
/// use cuda_nvrtc::Arch;
///
/// assert_eq!(Arch::compute(9, 0).to_string(), "compute_90");
/// assert_eq!(Arch::sm(9, 0).accelerated().to_string(), "sm_90a");
/// assert_eq!("sm_100f".parse::<Arch>()?, Arch::sm(10, 0).family());
/// # Ok::<(), cuda_nvrtc::ParseArchError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    major: u32,
    minor: u32,
    suffix: Suffix,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Virtual,
    Real,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Suffix {
    None,
    Accelerated,
    Family,
}

impl Arch {
    /// Returns the virtual architecture of compute capability `major.minor`.
    #[must_use]
    pub const fn compute(major: u32, minor: u32) -> Self {
        Self {
            major,
            minor,
            suffix: Suffix::None,
            kind: Kind::Virtual,
        }
    }

    /// Returns the real architecture of compute capability `major.minor`.
    #[must_use]
    pub const fn sm(major: u32, minor: u32) -> Self {
        Self {
            kind: Kind::Real,
            ..Self::compute(major, minor)
        }
    }

    /// Returns this architecture with the suffix `a`: all features of exactly this architecture are
    /// available, and the code runs on no other.
    #[must_use]
    pub const fn accelerated(self) -> Self {
        Self {
            suffix: Suffix::Accelerated,
            ..self
        }
    }

    /// Returns this architecture with the suffix `f`: the features that its family shares are
    /// available, and the code runs only on that family.
    #[must_use]
    pub const fn family(self) -> Self {
        Self {
            suffix: Suffix::Family,
            ..self
        }
    }

    /// Returns the part of the compute capability before the dot.
    #[must_use]
    pub const fn major(self) -> u32 {
        self.major
    }

    /// Returns the part of the compute capability after the dot.
    #[must_use]
    pub const fn minor(self) -> u32 {
        self.minor
    }

    /// Returns whether this is a real architecture (`sm_`).
    #[must_use]
    pub const fn is_real(self) -> bool {
        matches!(self.kind, Kind::Real)
    }

    /// Returns the real architecture with the same number and suffix.
    #[must_use]
    pub const fn to_real(self) -> Self {
        Self {
            kind: Kind::Real,
            ..self
        }
    }

    /// Returns the virtual architecture with the same number and suffix.
    #[must_use]
    pub const fn to_virtual(self) -> Self {
        Self {
            kind: Kind::Virtual,
            ..self
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Virtual => "compute",
            Kind::Real => "sm",
        };
        let suffix = match self.suffix {
            Suffix::None => "",
            Suffix::Accelerated => "a",
            Suffix::Family => "f",
        };
        write!(f, "{kind}_{}{}{suffix}", self.major, self.minor)
    }
}

impl FromStr for Arch {
    type Err = ParseArchError;

    fn from_str(text: &str) -> Result<Self, ParseArchError> {
        parse(text).ok_or_else(|| ParseArchError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Arch> {
    let (kind, rest) = text.split_once('_')?;
    let (number, suffix) = match rest.strip_suffix(['a', 'f']) {
        Some(number) if rest.ends_with('a') => (number, Suffix::Accelerated),
        Some(number) => (number, Suffix::Family),
        None => (rest, Suffix::None),
    };
    if number.len() < 2 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (major, minor) = number.split_at(number.len() - 1);
    let arch = Arch {
        suffix,
        ..Arch::compute(major.parse().ok()?, minor.parse().ok()?)
    };
    match kind {
        "compute" => Some(arch),
        "sm" => Some(arch.to_real()),
        _ => None,
    }
}

/// The error for text that is not the name of an architecture.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an architecture; expected a name such as compute_90 or sm_90a")]
pub struct ParseArchError(String);

/// Prints the text of `Display`, because `main` and `unwrap` print this.
impl fmt::Debug for ParseArchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Arch;

    #[test]
    fn text_and_back() {
        for text in ["compute_75", "sm_90", "sm_90a", "compute_100f", "sm_121"] {
            let arch: Arch = text.parse().unwrap();
            assert_eq!(arch.to_string(), text);
            assert_eq!(arch.is_real(), text.starts_with("sm"));
        }
        assert_eq!("sm_103".parse(), Ok(Arch::sm(10, 3)));
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "sm_",
            "sm_9",
            "sm90",
            "lto_90",
            "sm_90b",
            "sm_9é",
            "sm_+90",
            "sm_99999999999999",
        ] {
            let error = text.parse::<Arch>().unwrap_err();
            assert!(error.to_string().contains("compute_90"), "{error}");
        }
    }
}
