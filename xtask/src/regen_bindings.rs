//! `regen-bindings`: regenerates the committed snapshot of the bindings from pinned headers.

use std::fs;

use anyhow::Result;

use crate::generated::{self, Options, texts};
use crate::setup;
use crate::workspace::{self, Workspace};

/// `cargo xtask regen-bindings`.
///
/// The headers and libclang are always the pinned ones that `setup` fetches, so that the result
/// does not depend on the machine.
pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    let pinned = setup::ensure(workspace, &[setup::TOOLKIT_SET])?;
    let committed = workspace.root.join("crates/cuda-sys/src/generated");
    let fresh = workspace.target.join("regen-bindings");
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    fs::create_dir_all(&fresh)?;
    // This runs in a separate process, so that the other tasks need not build bindgen.
    let generator = "run --quiet --package=cuda-bindgen --example=snapshot --";
    let mut generate = workspace.cargo(generator.split(' '));
    generate.arg(pinned.join("include")).arg(&fresh);
    workspace::run(generate.env("LIBCLANG_PATH", pinned.join("lib")))?;

    let (old, new) = (texts(&committed)?, texts(&fresh)?);
    generated::renew(&committed, &old, &new, "regen-bindings", options)
}
