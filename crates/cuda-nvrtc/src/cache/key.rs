//! What a compilation is, as one digest: all that decides its result but the content of headers on disk, which the
//! entry itself tells.

use std::env;
use std::ffi::OsString;

use super::Refusal;
use super::paths;
use super::request::Request;
use super::stamp::Digest;

/// Changes with what a key is made of.
const CONTEXT: &str = "cuda-nvrtc disk cache, key 1";

/// The beginnings of names of environment variables that NVRTC, its optimiser and its assembler were seen to ask
/// for, in 12.0 to 13.5.
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

/// The others: where the process believes to be, and the language of messages.
const NAMES: [&str; 5] = ["PWD", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LANG"];

/// Variables that add options which are not followed here.
const OPTIONS: [&str; 2] = ["NVRTC_APPEND_FLAGS", "NVRTC_PREPEND_FLAGS"];

/// The key of a compilation to `output` by `compiler`.
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

/// The variables that decide, sorted.
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

/// A digest over fields, each with its label and both with their lengths, so that no two sequences of fields are the
/// same bytes.
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
