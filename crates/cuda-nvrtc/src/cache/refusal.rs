//! Reasons why a compilation is not stored.

use std::fmt;

/// The reason why a compilation is not stored: its inputs cannot be determined, or it has effects
/// that a hit would not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// A text contains `__DATE__`, `__TIME__` or `__TIMESTAMP__`.
    TimeMacro,
    /// The operand of `#include` is neither a literal header name nor a macro that expands to one.
    ComputedInclude,
    /// The operand of `__has_include` is not a literal header name.
    HasInclude,
    /// `#include_next` or `__has_include_next`.
    IncludeNext,
    /// `#line` sets a file name, and a quoted `#include` might be searched for in the folder of
    /// that file.
    LineDirective,
    /// A text contains `??=` or `??/`, which older C++ standards read as `#` and `\`, or a `\`
    /// before a lone carriage return.
    Trigraph,
    /// The options request a time report or trace, which describes one compilation.
    TimeReport,
    /// The options use precompiled headers, which are separate files.
    PrecompiledHeaders,
    /// An option reads options or headers from a file, is unknown to this crate, or cannot be
    /// parsed unambiguously.
    Option,
    /// An environment variable adds options.
    Environment,
    /// The files of NVRTC could not be determined.
    Compiler,
    /// A header, or a path where a header might be, could not be read.
    Unreadable,
    /// The program includes a header on disk, and this is not a Unix system. NVRTC's search order
    /// for headers was only verified on Unix.
    System,
    /// A header changed while the program was being compiled.
    Changed,
    /// The program has more headers than the cache examines.
    TooManyHeaders,
    /// The result is larger than the size limit of the cache.
    TooLarge,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimeMacro => "a text contains __DATE__, __TIME__ or __TIMESTAMP__",
            Self::ComputedInclude => {
                "#include of a macro that does not expand to a literal header name"
            }
            Self::HasInclude => "__has_include without a literal header name",
            Self::IncludeNext => "#include_next or __has_include_next",
            Self::LineDirective => "#line with a file name, and quoted includes",
            Self::Trigraph => "trigraphs, or a backslash before a lone carriage return",
            Self::TimeReport => "a time report or trace",
            Self::PrecompiledHeaders => "precompiled headers",
            Self::Option => {
                "an option that reads other files, is unknown, or cannot be parsed unambiguously"
            }
            Self::Environment => "an environment variable that adds options",
            Self::Compiler => "the files of NVRTC could not be determined",
            Self::Unreadable => "a header, or a path where one might be, could not be read",
            Self::System => "headers on disk are only cached on Unix",
            Self::Changed => "a header changed during the compilation",
            Self::TooManyHeaders => "too many headers",
            Self::TooLarge => "the result is larger than the size limit of the cache",
        })
    }
}
