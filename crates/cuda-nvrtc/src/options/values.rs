//! The types of options whose values are words.

/// A C++ standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CppStandard {
    /// C++03.
    Cpp03,
    /// C++11.
    Cpp11,
    /// C++14.
    Cpp14,
    /// C++17.
    Cpp17,
    /// C++20.
    Cpp20,
    /// C++23. NVRTC 13.3.
    Cpp23,
}

impl CppStandard {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Cpp03 => "c++03",
            Self::Cpp11 => "c++11",
            Self::Cpp14 => "c++14",
            Self::Cpp17 => "c++17",
            Self::Cpp20 => "c++20",
            Self::Cpp23 => "c++23",
        }
    }
}

/// The trade-off between compile time and speed of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FastCompile {
    /// Optimizes fully: NVRTC's default.
    Off,
    /// Compiles somewhat faster, to slightly slower code. NVRTC 12.9.
    Min,
    /// Compiles faster than with `Min`, to slower code. NVRTC 12.9.
    Mid,
    /// Compiles fastest, to the slowest code. A large kernel may compile a hundred times as fast.
    Max,
}

impl FastCompile {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "0",
            Self::Min => "min",
            Self::Mid => "mid",
            Self::Max => "max",
        }
    }
}

/// A kind of warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// All warnings.
    All,
    /// Warnings about initializers in an order other than that of the members.
    Reorder,
}

impl WarningKind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all-warnings",
            Self::Reorder => "reorder",
        }
    }
}
