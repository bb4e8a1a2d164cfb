//! Why a compilation is not kept.

use std::fmt;

/// Why a compilation is not kept: what it depends on cannot be known, or it has effects that a hit
/// would not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// A text names `__DATE__`, `__TIME__` or `__TIMESTAMP__`.
    TimeMacro,
    /// `#include` of something that is not written out, nor a macro for what is.
    ComputedInclude,
    /// `__has_include` of something that is not written out.
    HasInclude,
    /// `#include_next` or `__has_include_next`.
    IncludeNext,
    /// `#line` gives a file name, and a quoted `#include` might be looked for beside that.
    LineDirective,
    /// `??=` or `??/`, which older C++ standards read as `#` and `\`; or a `\` before a lone
    /// carriage return.
    Trigraph,
    /// The options ask for a time report or trace, which is about one compilation.
    TimeReport,
    /// The options use precompiled headers, which are files of their own.
    PrecompiledHeaders,
    /// An option reads options or headers from elsewhere, is unknown to this crate, or cannot be
    /// parsed with certainty.
    Option,
    /// An environment variable adds options.
    Environment,
    /// The files that NVRTC consists of could not be told.
    Compiler,
    /// A header, or a place where one would be, could not be read.
    Unreadable,
    /// A header on disk, on a system where it was not verified in which order NVRTC looks for them:
    /// not on Unix.
    System,
    /// A header changed while the program was compiled.
    Changed,
    /// There are more headers than the cache looks through.
    TooManyHeaders,
    /// The result is larger than the cache may be.
    TooLarge,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimeMacro => "a text names __DATE__, __TIME__ or __TIMESTAMP__",
            Self::ComputedInclude => "#include of a macro that is not plainly a header's name",
            Self::HasInclude => "__has_include of what is not written out",
            Self::IncludeNext => "#include_next or __has_include_next",
            Self::LineDirective => "#line with a file name, and quoted includes",
            Self::Trigraph => "trigraphs, or a backslash before a lone carriage return",
            Self::TimeReport => "a time report or trace",
            Self::PrecompiledHeaders => "precompiled headers",
            Self::Option => {
                "an option that reads other files, is unknown, or cannot be parsed with certainty"
            }
            Self::Environment => "an environment variable that adds options",
            Self::Compiler => "the files of NVRTC could not be told",
            Self::Unreadable => "a header or its place could not be read",
            Self::System => "headers on disk are not followed on this system",
            Self::Changed => "a header changed during the compilation",
            Self::TooManyHeaders => "too many headers",
            Self::TooLarge => "larger than the cache may be",
        })
    }
}
