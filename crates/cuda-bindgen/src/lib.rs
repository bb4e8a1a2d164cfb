//! Generates the Rust source of `cuda-sys` from CUDA's C headers.
//!
//! There are two callers: the build script of `cuda-sys`, which generates from the header that it
//! finds on the machine, and `cargo xtask regen-bindings`, which generates the committed snapshot.
//!
//! The steps, one module each:
//!
//! 1. [`headers`] finds an include folder and reads the CUDA version in it.
//! 2. `clang` runs bindgen over it, with every ABI revision of every function visible.
//! 3. `model` sorts bindgen's output into constants, types, enum values, aliases and functions, and
//!    merges two of them (a header's and the snapshot's).
//! 4. `pair` finds, for each exported function, the typedef `PFN_…_v<version>`, which gives the
//!    version that introduced it and the one to request from `cuGetProcAddress`.
//! 5. `macros` corrects constants whose type bindgen loses, `comments` decides what becomes
//!    rustdoc.
//! 6. `emit` writes the types and the function table, `layout` the facts that a C compiler checks.

mod clang;
mod comments;
mod emit;
pub mod headers;
mod layout;
mod macros;
mod model;
mod nvrtc;
mod pair;

use std::path::{Path, PathBuf};

pub use clang::libclang_is_available;
pub use headers::Headers;
use model::Model;

/// The reason why no bindings could be generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// bindgen or libclang rejected the headers.
    #[error("bindgen: {0}")]
    Bindgen(String),
    /// Generated Rust could not be parsed.
    #[error("{what}: {source}")]
    Syntax {
        /// The text that was parsed.
        what: String,
        /// The error of syn.
        source: syn::Error,
    },
    /// The header does not have the form that this generator expects.
    #[error("{0}")]
    Header(String),
}

/// Whether the C comments of the header become rustdoc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Docs {
    /// The C comments are kept. This is for output that stays on the machine that has the header.
    FromHeader,
    /// The C comments are omitted, for output that is published. Functions have a generated line
    /// instead.
    Generated,
}

/// Generated source: file names with their text.
pub type Files = Vec<(&'static str, String)>;

/// Generates the bindings of `headers` alone, which is the content of the snapshot.
///
/// `driver.rs` and `table.rs` come from `cuda.h` and its companions, `nvrtc.rs` from `nvrtc.h`.
///
/// # Errors
///
/// Fails if libclang or a header is missing, or if a header does not have the expected form.
pub fn snapshot(headers: &Headers) -> Result<Files, Error> {
    let driver = driver_model(headers, Docs::Generated)?;
    let nvrtc = nvrtc_model(headers, Docs::Generated)?;
    Ok(vec![
        ("driver.rs", emit::types(&driver)?),
        ("table.rs", emit::table(&driver)?),
        ("nvrtc.rs", emit::nvrtc(&nvrtc)?),
    ])
}

/// Generates the bindings of `headers` merged with the snapshot in the folder `snapshot`.
///
/// The result has every item of both. If both define a type, the longer definition is used, and if
/// they are equally long, the snapshot's spelling, so that code written against the snapshot
/// compiles with any header.
///
/// # Errors
///
/// Fails as [`snapshot()`] does, and if the folder `snapshot` cannot be read.
pub fn joined(headers: &Headers, snapshot: &Path) -> Result<Files, Error> {
    let old = Model::read(&[snapshot.join("driver.rs"), snapshot.join("table.rs")])?;
    let new = driver_model(headers, Docs::FromHeader)?;
    let model = new.join(old);
    let text = format!(
        "{}{}",
        headers.text("cuda.h")?,
        headers.text("cudaProfiler.h")?
    );
    let mut files = vec![
        ("driver.rs", emit::types(&model)?),
        ("table.rs", emit::table(&model)?),
        ("layout.rs", layout::emit(&model, &text)?),
    ];
    if headers.has_nvrtc() {
        let old = Model::read(&[snapshot.join("nvrtc.rs")])?;
        let new = nvrtc_model(headers, Docs::FromHeader)?;
        let model = new.join(old);
        files.push(("nvrtc.rs", emit::nvrtc(&model)?));
        let text = headers.text("nvrtc.h")?;
        files.push(("layout_nvrtc.rs", layout::emit(&model, &text)?));
    }
    Ok(files)
}

fn driver_model(headers: &Headers, docs: Docs) -> Result<Model, Error> {
    let text = clang::driver(headers, docs)?;
    let mut model = Model::parse("bindgen's output", &text)?;
    pair::pair(&mut model)?;
    let header = headers.text("cuda.h")?;
    macros::drop_undefined(&mut model, &header);
    macros::restore_unsigned(&mut model, &header);
    comments::finish(&mut model, &header, docs);
    Ok(model)
}

fn nvrtc_model(headers: &Headers, docs: Docs) -> Result<Model, Error> {
    let mut model = Model::parse("bindgen's output", &clang::nvrtc(headers, docs)?)?;
    nvrtc::add_versions(&mut model)?;
    comments::finish(&mut model, &headers.text("nvrtc.h")?, docs);
    Ok(model)
}
