//! The version of NVRTC that introduced each option. NVRTC does not report it. The table records
//! what the versions 12.0 to 13.5 were found to accept, which is sometimes earlier than their
//! manuals say.

use std::ops::Range;

use cuda_sys::Version;

/// An option, or one value of an option, that is newer than NVRTC 12.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewerOption {
    /// The long form. If it contains `=`, the entry is for this value of the option.
    pub name: &'static str,
    /// The other form.
    pub short: &'static str,
    /// The version that introduced it.
    pub since: Version,
}

const fn since(version: u32, name: &'static str, short: &'static str) -> NewerOption {
    NewerOption {
        name,
        short,
        since: Version::new(version),
    }
}

/// The options that are newer than NVRTC 12.0, sorted by version. An option that is not listed is
/// either older, or unknown to this crate; NVRTC then decides whether it is valid.
pub static NEWER_OPTIONS: [NewerOption; 34] = [
    since(12010, "--brief-diagnostics", "-brief-diag"),
    since(12010, "--time", "-time"),
    since(12030, "--jump-table-density", "-jtd"),
    since(12040, "--fdevice-syntax-only", "-fdevice-syntax-only"),
    since(12040, "--minimal", "-minimal"),
    since(12050, "--Ofast-compile", "-Ofc"),
    since(12050, "--fdevice-time-trace", "-fdevice-time-trace"),
    since(12060, "--device-stack-protector", "-device-stack-protector"),
    since(12060, "--device-float128", "-device-float128"),
    since(12080, "--pch", "-pch"),
    since(12080, "--create-pch", "-create-pch"),
    since(12080, "--use-pch", "-use-pch"),
    since(12080, "--pch-dir", "-pch-dir"),
    since(12080, "--pch-verbose", "-pch-verbose"),
    since(12080, "--pch-messages", "-pch-messages"),
    since(
        12080,
        "--instantiate-templates-in-pch",
        "-instantiate-templates-in-pch",
    ),
    since(12090, "--Ofast-compile=min", "-Ofc=min"),
    since(12090, "--Ofast-compile=mid", "-Ofc=mid"),
    since(12090, "--no-cache", "-no-cache"),
    since(12090, "--frandom-seed", "-frandom-seed"),
    since(13010, "--Wreorder", "-Wreorder"),
    since(13010, "--warning-as-error", "-Werror"),
    since(13030, "--enable-tile", "-enable-tile"),
    since(13030, "--tile-only", "-tile-only"),
    since(13030, "--simt-only", "-simt-only"),
    since(13030, "-default-tile", "-default-tile"),
    since(
        13030,
        "--diagnose-implicit-tile-var",
        "--diagnose-implicit-tile-var",
    ),
    since(13030, "--use-bundled-headers", "--use-bundled-headers"),
    since(13030, "--std=c++23", "-std=c++23"),
    since(13040, "--fno-signed-zeros", "-fno-signed-zeros"),
    since(13040, "--ffinite-math-only", "-ffinite-math-only"),
    since(13040, "--Wconversion", "-Wconversion"),
    since(13040, "--fmax-errors", "-fmax-errors"),
    since(13040, "--utf-8", "-utf-8"),
];

/// Returns the version that `option`, as NVRTC receives it, requires; `None` if it is not newer
/// than 12.0.
pub(super) fn needs(option: &str) -> Option<Version> {
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    let named = |known: &&NewerOption| {
        [known.name, known.short]
            .iter()
            .any(|&known| known == option || known == name)
    };
    // A value may be newer than its option.
    NEWER_OPTIONS
        .iter()
        .filter(named)
        .map(|known| known.since)
        .max()
}

/// The options whose value is a file of precompiled headers, or a folder of them.
const PCH_FILES: [&[u8]; 3] = [b"pch-dir", b"create-pch", b"use-pch"];

/// Returns whether an option may make NVRTC map a file, which a caller has named, as its memory.
/// NVRTC ignores white space around an option.
pub(super) fn names_pch_file(option: &[u8]) -> bool {
    let name = option.split(|byte| *byte == b'=').next().unwrap_or(option);
    PCH_FILES
        .iter()
        .any(|known| name.windows(known.len()).any(|part| part == *known))
}

/// The versions that store precompiled headers in the current folder, unless an option names one.
const PCH_IN_CURRENT_FOLDER: Range<Version> = Version::new(12080)..Version::new(13000);

/// Returns whether NVRTC would store precompiled headers in the current folder, where other
/// processes may replace them.
pub(super) fn are_pch_files_shared<'a>(
    options: impl Iterator<Item = &'a [u8]> + Clone,
    found: Version,
) -> bool {
    PCH_IN_CURRENT_FOLDER.contains(&found)
        && options.clone().any(is_automatic_pch)
        && !options.into_iter().any(names_pch_file)
}

/// Returns whether an option makes NVRTC create and use precompiled headers in files that it names
/// itself. NVRTC ignores white space around an option.
fn is_automatic_pch(option: &[u8]) -> bool {
    let name = option.split(|byte| *byte == b'=').next().unwrap_or(option);
    let is_text = |byte: &u8| !byte.is_ascii_control() && *byte != b' ';
    let name: Vec<u8> = name.iter().copied().filter(is_text).collect();
    matches!(name.as_slice(), b"--pch" | b"-pch" | b"pch")
}

#[cfg(test)]
mod tests {
    use cuda_sys::Version;

    use super::{NEWER_OPTIONS, is_automatic_pch, names_pch_file, needs};

    #[test]
    fn options_with_files_of_precompiled_headers_are_recognized() {
        for option in [
            "--pch-dir=a",
            "-pch-dir",
            " \x0b--use-pch=a",
            "-create-pch=a",
            "--use-pch\t",
        ] {
            assert!(names_pch_file(option.as_bytes()), "{option}");
        }
        for option in [
            "--pch",
            "-pch",
            "--pch-verbose=true",
            "-DX=--use-pch",
            "--time=use-pch",
        ] {
            assert!(!names_pch_file(option.as_bytes()), "{option}");
        }
        for (option, expected) in [
            (" --pch\x0b", true),
            ("-pch=true", true),
            ("--pch-verbose=true", false),
            ("-DX=--pch", false),
        ] {
            assert_eq!(is_automatic_pch(option.as_bytes()), expected, "{option}");
        }
    }

    #[test]
    fn an_option_is_known_in_both_forms_with_and_without_its_value() {
        let fast = Some(Version::new(12050));
        assert_eq!(needs("--Ofast-compile=max"), fast);
        assert_eq!(needs("-Ofc=max"), fast);
        assert_eq!(needs("-Ofc"), fast);
        assert_eq!(needs("-Ofc=min"), Some(Version::new(12090)));
        assert_eq!(needs("--std=c++23"), Some(Version::new(13030)));
        assert_eq!(needs("--std=c++20"), None);
        assert_eq!(needs("--time"), needs("--time=-"));
        assert_eq!(needs("--timer"), None);
        assert_eq!(needs("=-"), None);
    }

    #[test]
    fn in_the_order_of_versions() {
        assert!(NEWER_OPTIONS.is_sorted_by_key(|option| option.since));
        assert!(
            NEWER_OPTIONS
                .iter()
                .all(|option| option.since > Version::new(12000))
        );
    }
}
