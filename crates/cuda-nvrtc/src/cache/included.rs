//! The files on disk that a compilation reads, for build systems.

use std::path::PathBuf;

use super::Refusal;
use super::closure;
use super::request::Request;
use crate::{Options, Program};

impl Program {
    /// Returns the files on disk that a compilation with `options` may read, such as headers: a
    /// superset of those that it reads, in no particular order. Nothing is compiled.
    ///
    /// NVRTC does not report which files it read. The texts are scanned for them, as for the disk
    /// [`Cache`](crate::Cache).
    ///
    /// # Errors
    ///
    /// The reason why the files cannot be determined: a [`Refusal`] of the cache, or
    /// [`Refusal::Option`] if this NVRTC does not support an option.
    pub fn included_files(&self, options: &Options) -> Result<Vec<PathBuf>, Refusal> {
        let arguments = options
            .render(self.nvrtc.version())
            .map_err(|_| Refusal::Option)?;
        let request = Request::new(
            &self.source,
            &self.name,
            &self.headers,
            &self.name_expressions,
            &arguments,
        )?;
        let files = closure::collect(&request)?.closure.files;
        Ok(files.into_iter().map(|(path, _)| path).collect())
    }
}
