//! What a compilation is asked for, as far as it decides which files are read.

use std::ffi::CString;
use std::path::PathBuf;

use super::Refusal;
use super::paths;

/// A program and its options, taken apart.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) source: &'a [u8],
    pub(super) name: &'a str,
    /// The headers in memory.
    pub(super) headers: &'a [(String, Vec<u8>)],
    pub(super) name_expressions: &'a [String],
    pub(super) arguments: &'a [CString],
    pub(super) include_dirs: Vec<PathBuf>,
    /// Headers that are included before the source.
    pub(super) pre_includes: Vec<Vec<u8>>,
    /// Whether quoted names are looked for beside the text that names them.
    pub(super) beside: bool,
    /// Where the process is: what relative names start from, and a part of debug information.
    pub(super) current_dir: PathBuf,
}

/// The options that are not followed by name, with why: without dashes and without what follows a `=`.
const REFUSED: [(&str, Refusal); 9] = [
    ("time", Refusal::TimeReport),
    ("fdevice-time-trace", Refusal::TimeReport),
    ("pch", Refusal::PrecompiledHeaders),
    ("create-pch", Refusal::PrecompiledHeaders),
    ("use-pch", Refusal::PrecompiledHeaders),
    ("pch-dir", Refusal::PrecompiledHeaders),
    ("use-bundled-headers", Refusal::Option),
    ("options-file", Refusal::Option),
    ("optf", Refusal::Option),
];

impl<'a> Request<'a> {
    pub(super) fn new(
        source: &'a [u8],
        name: &'a str,
        headers: &'a [(String, Vec<u8>)],
        name_expressions: &'a [String],
        arguments: &'a [CString],
    ) -> Result<Self, Refusal> {
        let mut request = Self {
            source,
            name,
            headers,
            name_expressions,
            arguments,
            include_dirs: Vec::new(),
            pre_includes: Vec::new(),
            beside: true,
            current_dir: std::env::current_dir().map_err(|_| Refusal::Unreadable)?,
        };
        let mut arguments = arguments.iter().map(|text| text.to_bytes().trim_ascii());
        while let Some(argument) = arguments.next() {
            let mut value = |names: &[&str]| {
                let (name, value) = match argument.iter().position(|&byte| byte == b'=') {
                    Some(at) => (&argument[..at], Some(&argument[at + 1..])),
                    None => (argument, None),
                };
                let known = names.iter().any(|known| known.as_bytes() == name);
                known.then(|| value.or_else(|| arguments.next()))
            };
            if let Some(dir) = value(&["-I", "--include-path"]) {
                request.include_dir(dir.ok_or(Refusal::Option)?)?;
            } else if let Some(header) = value(&["-include", "--pre-include"]) {
                let header = header.ok_or(Refusal::Option)?;
                request.pre_includes.push(header.to_vec());
            } else if let Some(dir) = argument.strip_prefix(b"-I") {
                request.include_dir(dir)?;
            } else {
                request.other(argument)?;
            }
        }
        Ok(request)
    }

    fn include_dir(&mut self, dir: &[u8]) -> Result<(), Refusal> {
        let dir = paths::from_bytes(dir).ok_or(Refusal::Option)?;
        self.include_dirs.push(self.current_dir.join(dir));
        Ok(())
    }

    fn other(&mut self, argument: &[u8]) -> Result<(), Refusal> {
        let bare = argument
            .iter()
            .position(|&byte| byte != b'-')
            .map_or(&[][..], |at| &argument[at..]);
        let name = bare.split(|&byte| byte == b'=').next().unwrap_or(bare);
        let refused = REFUSED.iter().find(|(known, _)| known.as_bytes() == name);
        if let Some(&(_, refusal)) = refused {
            return Err(refusal);
        }
        if name == b"no-source-include" {
            self.beside = false;
        }
        // What goes on to the assembler may name a file of options, in its own ways and among others.
        let mut names = bare.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-');
        if !is_define(name)
            && names.any(|word| word.ends_with(b"options-file") || word.ends_with(b"optf"))
        {
            return Err(Refusal::Option);
        }
        Ok(())
    }
}

fn is_define(name: &[u8]) -> bool {
    name.starts_with(b"D")
        || name == b"define-macro"
        || name.starts_with(b"U")
        || name == b"undefine-macro"
}
