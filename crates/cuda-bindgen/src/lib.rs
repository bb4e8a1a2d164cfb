//! Turns CUDA's C headers into the Rust source of `cuda-sys`.
//!
//! Two callers share it: the build script of `cuda-sys`, which generates from the header it finds
//! on the machine, and `cargo xtask regen-bindings`, which generates the committed snapshot.
//!
//! The steps, one module each:
//!
//! 1. [`headers`] finds an include folder and reads the CUDA version in it.
//! 2. `clang` runs bindgen over it, with every ABI revision of every function visible.
//! 3. `model` sorts bindgen's output into constants, types, enum values, aliases and functions, and
//!    merges two of them (a header's and the snapshot's).
//! 4. `pair` finds, for each exported function, the `PFN_…_v<version>` typedef that tells since
//!    when it exists and how `cuGetProcAddress` is asked for it.
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

/// Why no bindings could be generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// bindgen or libclang refused the headers.
    #[error("bindgen: {0}")]
    Bindgen(String),
    /// Generated Rust could not be parsed again.
    #[error("{what}: {source}")]
    Syntax {
        /// Which text.
        what: String,
        /// What syn said.
        source: syn::Error,
    },
    /// The header is not shaped as this generator expects.
    #[error("{0}")]
    Header(String),
}

/// Whether the C comments of the header become rustdoc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Docs {
    /// Keep them: for output that stays on the machine that holds the header.
    FromHeader,
    /// Leave them out: for output that is published. Functions then carry a generated line.
    Generated,
}

/// Generated source: file names and their text.
pub type Files = Vec<(&'static str, String)>;

/// Generates the bindings of `headers` alone: what the snapshot is made of.
///
/// `driver.rs` and `table.rs` come from `cuda.h` and its companions, `nvrtc.rs` from `nvrtc.h`.
///
/// # Errors
///
/// If libclang or a header is missing, or a header is not shaped as expected.
pub fn snapshot(headers: &Headers) -> Result<Files, Error> {
    let driver = driver_model(headers, Docs::Generated)?;
    let nvrtc = nvrtc_model(headers, Docs::Generated)?;
    Ok(vec![
        ("driver.rs", emit::types(&driver)?),
        ("table.rs", emit::table(&driver)?),
        ("nvrtc.rs", emit::nvrtc(&nvrtc)?),
    ])
}

/// Generates the bindings of `headers` joined with the snapshot in the folder `snapshot`.
///
/// The result holds every item of both. Where both define a type, the longer definition wins, and
/// on a tie the snapshot's spelling, so that code written against the snapshot compiles with any
/// header.
///
/// # Errors
///
/// As [`snapshot()`], or if the folder `snapshot` cannot be read.
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
