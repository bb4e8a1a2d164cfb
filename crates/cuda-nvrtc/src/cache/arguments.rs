//! The compiler options that determine which files a compilation reads.
//!
//! The rules are those of NVRTC 12.0 to 13.5, determined by compiling with each spelling. White
//! space (as defined by C's `isspace`) at both ends of an option is removed. `-I` and
//! `--include-path`, `-include` and `--pre-include` take their value after `=` or as the next
//! option. Only `-I` also takes it in the same option, after spaces, or after `=` without spaces.
//! Quotes have no special meaning. An option that cannot be parsed unambiguously is a [`Refusal`],
//! so that the compilation is not cached.

use std::ffi::CString;

use super::Refusal;

/// The options that determine which files are read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arguments<'a> {
    /// The values of `--include-path`, in order.
    pub(super) include_dirs: Vec<&'a [u8]>,
    /// The values of `--pre-include`, in order.
    pub(super) pre_includes: Vec<&'a [u8]>,
    /// Whether quoted names are searched for in the folder of the text that contains them.
    pub(super) searches_own_folder: bool,
}

/// The options that prevent caching, with the reason.
const REFUSED: [(&str, Refusal); 11] = [
    ("time", Refusal::TimeReport),
    ("fdevice-time-trace", Refusal::TimeReport),
    ("pch", Refusal::PrecompiledHeaders),
    ("create-pch", Refusal::PrecompiledHeaders),
    ("use-pch", Refusal::PrecompiledHeaders),
    ("pch-dir", Refusal::PrecompiledHeaders),
    ("pch-verbose", Refusal::PrecompiledHeaders),
    ("pch-messages", Refusal::PrecompiledHeaders),
    ("instantiate-templates-in-pch", Refusal::PrecompiledHeaders),
    ("options-file", Refusal::Option),
    ("optf", Refusal::Option),
];

/// The options that read no file and never take the next option as their value.
const FLAGS: [&str; 41] = [
    "device-c",
    "dc",
    "device-w",
    "dw",
    "extensible-whole-program",
    "ewp",
    "device-debug",
    "G",
    "generate-line-info",
    "lineinfo",
    "use_fast_math",
    "extra-device-vectorization",
    "dlink-time-opt",
    "dlto",
    "gen-opt-lto",
    "optix-ir",
    "no-cache",
    "no-source-include",
    "disable-warnings",
    "w",
    "Wreorder",
    "Wconversion",
    "restrict",
    "device-as-default-execution-space",
    "default-device",
    "device-int128",
    "device-float128",
    "display-error-number",
    "err-no",
    "no-display-error-number",
    "no-err-no",
    "fdevice-syntax-only",
    "minimal",
    "ffinite-math-only",
    "fno-signed-zeros",
    "enable-tile",
    "tile-only",
    "simt-only",
    "default-tile",
    "diagnose-implicit-tile-var",
    "utf-8",
];

/// The options that read no file and take a value, after `=` or as the next option.
const VALUED: [&str; 38] = [
    "gpu-architecture",
    "arch",
    "relocatable-device-code",
    "rdc",
    "dopt",
    "Ofast-compile",
    "Ofc",
    "ptxas-options",
    "Xptxas",
    "maxrregcount",
    "ftz",
    "prec-sqrt",
    "prec-div",
    "fmad",
    "modify-stack-limit",
    "jump-table-density",
    "jtd",
    "frandom-seed",
    "define-macro",
    "D",
    "undefine-macro",
    "U",
    "std",
    "builtin-move-forward",
    "builtin-initializer-list",
    "warning-as-error",
    "Werror",
    "optimization-info",
    "opt-info",
    "diag-error",
    "diag-suppress",
    "diag-warn",
    "brief-diagnostics",
    "brief-diag",
    "version-ident",
    "split-compile",
    "fmax-errors",
    "device-stack-protector",
];

/// Removes white space at both ends, as defined by C's `isspace`.
pub(super) fn trim(text: &[u8]) -> &[u8] {
    // Unlike `u8::is_ascii_whitespace`, this includes the vertical tab.
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte));
    let end = text.iter().rposition(|byte| !is_space(byte));
    match (start, end) {
        (Some(start), Some(end)) => &text[start..=end],
        _ => &[],
    }
}

impl<'a> Arguments<'a> {
    pub(super) fn parse(options: &'a [CString]) -> Result<Self, Refusal> {
        let mut parsed = Self {
            include_dirs: Vec::new(),
            pre_includes: Vec::new(),
            searches_own_folder: true,
        };
        let mut options = options.iter().map(|text| trim(text.to_bytes()));
        while let Some(option) = options.next() {
            let (name, value) = split(option);
            match name {
                b"-I" | b"--include-path" => {
                    parsed
                        .include_dirs
                        .push(file(value.or_else(|| options.next()))?);
                }
                b"-include" | b"--pre-include" => {
                    parsed
                        .pre_includes
                        .push(file(value.or_else(|| options.next()))?);
                }
                _ if option.starts_with(b"-I") => {
                    let start = option[2..].iter().position(|&byte| byte != b' ');
                    parsed
                        .include_dirs
                        .push(file(start.map(|at| &option[2 + at..]))?);
                }
                _ => parsed.other(option, value, &mut options)?,
            }
        }
        Ok(parsed)
    }

    fn other(
        &mut self,
        option: &[u8],
        value: Option<&[u8]>,
        rest: &mut impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), Refusal> {
        // `-DNAME` and `-UNAME`. No option with two dashes has this form.
        if matches!(option, [b'-', b'D' | b'U', _, ..]) {
            return Ok(());
        }
        let dashes = option.iter().take_while(|&&byte| byte == b'-').count();
        let bare = &option[dashes..];
        let name = bare.split(|&byte| byte == b'=').next().unwrap_or(bare);
        let is = |known: &&str| known.as_bytes() == name;
        if let Some(&(_, refusal)) = REFUSED.iter().find(|(known, _)| is(known)) {
            return Err(refusal);
        }
        if !(1..=2).contains(&dashes) {
            return Err(Refusal::Option);
        }
        let is_flag = FLAGS.iter().any(is);
        let is_valued = VALUED.iter().any(is);
        if !is_flag && !is_valued {
            return Err(Refusal::Option);
        }
        if name == b"no-source-include" {
            self.searches_own_folder = false;
        }
        let defines = matches!(name, b"D" | b"U" | b"define-macro" | b"undefine-macro");
        if names_options_file(bare) && !defines {
            return Err(Refusal::Option);
        }
        if is_valued && value.is_none() {
            // The next option is the value, whatever its form.
            let next = rest.next().ok_or(Refusal::Option)?;
            if next.is_empty()
                || next.starts_with(b"-") && name != b"ptxas-options" && name != b"Xptxas"
            {
                return Err(Refusal::Option);
            }
            if names_options_file(next) && !defines {
                return Err(Refusal::Option);
            }
        }
        Ok(())
    }
}

/// Splits an option at the first `=` into the name with its dashes and the value.
fn split(option: &[u8]) -> (&[u8], Option<&[u8]>) {
    match option.iter().position(|&byte| byte == b'=') {
        Some(at) => (&option[..at], Some(&option[at + 1..])),
        None => (option, None),
    }
}

/// Returns the folder or file that an option names, if NVRTC is certain to use the same.
fn file(name: Option<&[u8]>) -> Result<&[u8], Refusal> {
    let name = name.ok_or(Refusal::Option)?;
    let is_odd = |byte: &u8| byte.is_ascii_control() || matches!(byte, b'"' | b'\'' | b'`');
    let is_sure = !name.is_empty()
        && trim(name) == name
        && !name.starts_with(b"-")
        && !name.starts_with(b"=")
        && !name.iter().any(is_odd);
    is_sure.then_some(name).ok_or(Refusal::Option)
}

/// Returns whether an option for the assembler, perhaps one of several in `option`, names a file of
/// options.
fn names_options_file(option: &[u8]) -> bool {
    let mut words = option.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-');
    words.any(|word| word.ends_with(b"options-file") || word.ends_with(b"optf"))
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::{Arguments, trim};
    use crate::cache::Refusal;

    fn dirs(options: &[&str]) -> Result<Vec<String>, Refusal> {
        let options: Vec<CString> = options
            .iter()
            .map(|option| CString::new(*option).unwrap())
            .collect();
        let text = |dir: &&[u8]| String::from_utf8(dir.to_vec()).unwrap();
        Arguments::parse(&options).map(|parsed| parsed.include_dirs.iter().map(text).collect())
    }

    #[test]
    fn include_folders_are_those_that_nvrtc_takes() {
        let a = Ok(vec!["a".to_owned()]);
        for options in [
            &["-Ia"][..],
            &["-I a"],
            &["-I  a"],
            &["-I=a"],
            &["-I", "a"],
            &["-I", "\x0b a\t"],
            &["\x0b-Ia"],
            &["\t\n\x0b\x0c\r -I a \r\x0c\x0b\n\t"],
            &["--include-path=a"],
            &["--include-path", " a"],
            &["-D", "X", "-Ia", "-Xptxas", "-v", "-w"],
            &["--ptxas-options", "-Ib", "-Ia"],
            &["-arch", "sm_90", "-Ia"],
        ] {
            assert_eq!(dirs(options), a, "{options:?}");
        }
        assert_eq!(dirs(&["-Ia b"]), Ok(vec!["a b".to_owned()]));
    }

    #[test]
    fn uncertain_options_are_refused() {
        for options in [
            &["-I"][..],
            &["-I", ""],
            &["-I= a"],
            &["-I =a"],
            &["-I\ta"],
            &["-I\x0ba"],
            &["-I\"a\""],
            &["-I", "-Ia"],
            &["-D", "-Ia"],
            &["--ftz", "-Ia"],
            &["--include-path a"],
            &["-isystem", "a"],
            &["--new-option"],
            &["a"],
            &[""],
            &["---Ia"],
            &["@file"],
            &["-Xptxas", "--options-file=a"],
            &["--ptxas-options=-optf=a"],
        ] {
            assert_eq!(dirs(options), Err(Refusal::Option), "{options:?}");
        }
    }

    #[test]
    fn white_space_is_that_of_c() {
        assert_eq!(trim(b" \t\n\x0b\x0c\ra b\xa0\r\x0c\x0b\n\t "), b"a b\xa0");
        assert_eq!(trim(b" \x0b"), b"");
    }
}
