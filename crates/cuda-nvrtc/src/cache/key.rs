//! The key of a compilation: one digest of everything that determines its result, except for the
//! content of headers on disk, which the entry itself records.

use std::env;
use std::ffi::{CString, OsString};
use std::thread;

use super::Refusal;
use super::paths;
use super::request::Request;
use super::stamp::Digest;

/// The context of the digest. It must change whenever the fields of a key or the interpretation of
/// options in entries change.
const CONTEXT: &str = "cuda-nvrtc disk cache, key 2";

/// Prefixes of environment variables that NVRTC, its optimizer and its assembler were observed to
/// read, in 12.0 to 13.5.
const PREFIXES: [&str; 9] = [
    "NVRTC",
    "NVVM",
    "LIBNVVM",
    "NV_NVVM",
    "EDG_",
    "LLVM_",
    "FINALIZER_",
    "CAN_FINALIZE",
    "AS_SECURE",
];

/// Other environment variables: the current folder as the process knows it, and the language of
/// messages.
const NAMES: [&str; 5] = ["PWD", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LANG"];

/// Environment variables that add options, which this crate does not parse.
const OPTIONS: [&str; 2] = ["NVRTC_APPEND_FLAGS", "NVRTC_PREPEND_FLAGS"];

/// Returns the key of a compilation to `output` by `compiler`.
pub(super) fn of(
    request: &Request<'_>,
    output: &str,
    compiler: &Digest,
) -> Result<Digest, Refusal> {
    let mut key = Key::new();
    key.field("output", output.as_bytes());
    key.field("compiler", compiler);
    key.field("source", request.source);
    key.field("name", request.name.as_bytes());
    key.list("options", request.arguments, |key, option| {
        key.field("option", option.to_bytes());
    });
    if splits(request.arguments) {
        key.list("processors", &processors(), |key, count| {
            key.field("count", &count.to_le_bytes());
        });
    }
    key.list("name expressions", request.name_expressions, |key, text| {
        key.field("expression", text.as_bytes());
    });
    key.list("headers", request.headers, |key, (name, text)| {
        key.field("name", name.as_bytes());
        key.field("text", text);
    });
    key.field("folder", paths::to_bytes(&request.current_dir));
    key.list("environment", &environment()?, |key, (name, value)| {
        key.field("name", name.as_encoded_bytes());
        key.field("value", value.as_encoded_bytes());
    });
    Ok(key.finish())
}

/// Returns whether an option may split the compilation into as many parts as there are processors.
/// The option may be for the compiler or, inside another option, for the assembler.
fn splits(arguments: &[CString]) -> bool {
    const NAME: &[u8] = b"split-compile";
    arguments.iter().any(|argument| {
        let mut windows = argument.to_bytes().windows(NAME.len());
        windows.any(|window| window == NAME)
    })
}

/// Returns the number of processors that this thread may use and the number of all processors,
/// because it is not documented which of them NVRTC counts.
fn processors() -> [u64; 2] {
    let usable = thread::available_parallelism().map_or(0, |count| count.get() as u64);
    #[cfg(unix)]
    // SAFETY: nothing is required ← the call only returns a number.
    let all = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    #[cfg(not(unix))]
    let all = 0_i64;
    [usable, u64::try_from(all).unwrap_or(0)]
}

/// Returns the environment variables that affect the result, sorted.
fn environment() -> Result<Vec<(OsString, OsString)>, Refusal> {
    let mut variables: Vec<(OsString, OsString)> = env::vars_os()
        .filter(|(name, _)| {
            let name = name.as_encoded_bytes();
            PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix.as_bytes()))
                || NAMES.iter().any(|known| known.as_bytes() == name)
        })
        .collect();
    variables.sort();
    let adds_options = |(name, value): &(OsString, OsString)| {
        !value.is_empty() && OPTIONS.iter().any(|known| name == known)
    };
    if variables.iter().any(adds_options) {
        return Err(Refusal::Environment);
    }
    Ok(variables)
}

/// A digest of labelled fields. Labels and fields are prefixed with their lengths, so that
/// different sequences of fields never give the same bytes.
pub(super) struct Key(blake3::Hasher);

impl Key {
    pub(super) fn new() -> Self {
        Self(blake3::Hasher::new_derive_key(CONTEXT))
    }

    pub(super) fn field(&mut self, label: &str, bytes: &[u8]) {
        for part in [label.as_bytes(), bytes] {
            self.0.update(&(part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    fn list<T>(&mut self, label: &str, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.field(label, &(items.len() as u64).to_le_bytes());
        items.iter().for_each(|item| each(self, item));
    }

    pub(super) fn finish(&self) -> Digest {
        *self.0.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    /// Returns the key of an empty program with these options.
    #[cfg(target_os = "linux")]
    fn key_with(options: &[&str]) -> super::Digest {
        let arguments: Vec<std::ffi::CString> = options
            .iter()
            .map(|option| std::ffi::CString::new(*option).unwrap())
            .collect();
        let request = super::Request::new(b"", "a.cu", &[], &[], &arguments).unwrap();
        super::of(&request, "PTX", &[0; 32]).unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_split_compilation_depends_on_the_processors() {
        let split: [&[&str]; 4] = [
            &["--split-compile=0"],
            &["-split-compile=0"],
            &["--split-compile", "0"],
            &["--ptxas-options=--split-compile=0"],
        ];
        let plain: [&[&str]; 2] = [&[], &["--define-macro=A=0"]];
        let keys = || (split.map(key_with), plain.map(key_with));
        if std::thread::available_parallelism().unwrap().get() == 1 {
            test_needs::skipped("numbers of processors: there is one");
            return;
        }
        let many = keys();
        // A separate thread, so that the affinity of this thread does not change.
        let one = std::thread::scope(|scope| {
            let on_one_processor = || {
                // SAFETY: all zeros must be a valid value of the type ← it is an array of bits.
                let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
                let size = size_of_val(&set);
                // SAFETY: the set must be writable and of that size ← it is a local.
                assert_eq!(unsafe { libc::sched_getaffinity(0, size, &raw mut set) }, 0);
                // SAFETY: the number must be within the set ← it is below its size.
                let may = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
                let first = (0..8 * size).find(may).unwrap();
                // SAFETY: all zeros must be a valid value of the type ← it is an array of bits.
                let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
                // SAFETY: the number must be within the set ← it is below its size.
                unsafe { libc::CPU_SET(first, &mut set) };
                // SAFETY: the set must be readable and of that size ← it is a local.
                let status = unsafe { libc::sched_setaffinity(0, size, &raw const set) };
                assert_eq!(status, 0);
                keys()
            };
            scope.spawn(on_one_processor).join().unwrap()
        });
        for (many, one) in many.0.iter().zip(one.0) {
            assert_ne!(*many, one);
        }
        assert_eq!(many.1, one.1);
    }

    #[test]
    fn no_two_sequences_of_fields_are_the_same() {
        let of = |fields: &[(&str, &[u8])]| {
            let mut key = Key::new();
            for (label, bytes) in fields {
                key.field(label, bytes);
            }
            key.finish()
        };
        let keys = [
            of(&[]),
            of(&[("a", b"bc")]),
            of(&[("ab", b"c")]),
            of(&[("a", b"b"), ("", b"c")]),
            of(&[("a", b""), ("b", b"c")]),
            of(&[("", b"abc")]),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{index}");
        }
    }
}
