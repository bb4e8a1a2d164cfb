//! The inputs of a compilation that determine which files it reads.

use std::ffi::CString;
use std::path::PathBuf;

use super::Refusal;
use super::arguments::Arguments;
use super::paths;

/// A program and its parsed options.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) source: &'a [u8],
    pub(super) name: &'a str,
    /// The headers in memory.
    pub(super) headers: &'a [(String, Vec<u8>)],
    pub(super) name_expressions: &'a [String],
    pub(super) arguments: &'a [CString],
    pub(super) include_dirs: Vec<PathBuf>,
    /// Headers to include before the source.
    pub(super) pre_includes: Vec<Vec<u8>>,
    /// Whether quoted names are searched for in the folder of the text that contains them.
    pub(super) searches_own_folder: bool,
    /// The current folder of the process. Relative names refer to it, and debug information
    /// contains it.
    pub(super) current_dir: PathBuf,
}

impl<'a> Request<'a> {
    pub(super) fn new(
        source: &'a [u8],
        name: &'a str,
        headers: &'a [(String, Vec<u8>)],
        name_expressions: &'a [String],
        arguments: &'a [CString],
    ) -> Result<Self, Refusal> {
        let current_dir = std::env::current_dir().map_err(|_| Refusal::Unreadable)?;
        let parsed = Arguments::parse(arguments)?;
        let absolute = |dir: &&[u8]| {
            let dir = paths::from_bytes(dir).ok_or(Refusal::Option)?;
            Ok(current_dir.join(dir))
        };
        Ok(Self {
            source,
            name,
            headers,
            name_expressions,
            arguments,
            include_dirs: parsed
                .include_dirs
                .iter()
                .map(absolute)
                .collect::<Result<_, _>>()?,
            pre_includes: parsed
                .pre_includes
                .iter()
                .map(|name| name.to_vec())
                .collect(),
            searches_own_folder: parsed.searches_own_folder,
            current_dir,
        })
    }
}
