//! The C compiler of this machine, found in the way that build scripts find it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The outcome of one run of the compiler.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) success: bool,
    pub(crate) messages: String,
}

/// A command for the C compiler; prints a message and returns `None` if no compiler accepts GCC's
/// options.
pub(crate) fn command() -> Option<Command> {
    let target = env!("CUDA_SYS_TARGET");
    let compiler = cc::Build::new()
        .cargo_metadata(false)
        .cargo_warnings(false)
        .opt_level(0)
        .debug(false)
        .host(target)
        .target(target)
        .try_get_compiler();
    match compiler {
        Ok(compiler) if compiler.is_like_msvc() => {
            test_needs::skipped("the C compiler takes MSVC's options");
            None
        }
        Ok(compiler) => Some(compiler.to_command()),
        Err(error) => {
            test_needs::skipped(&format!("no C compiler: {error}"));
            None
        }
    }
}

/// Runs the command to completion.
pub(crate) fn run(mut command: Command) -> Outcome {
    let output = command.output().expect("the C compiler starts");
    Outcome {
        success: output.status.success(),
        messages: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Compiles `source` to the shared library `name` in `dir`; `None` without a C compiler.
pub(crate) fn shared_library(dir: &Path, name: &str, source: &str) -> Option<PathBuf> {
    let c = dir.join(format!("{name}.c"));
    let library = dir.join(format!("{name}.so"));
    std::fs::write(&c, source).expect("the folder is writable");
    let mut command = command()?;
    command
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&c);
    let outcome = run(command);
    assert!(outcome.success, "{}", outcome.messages);
    Some(library)
}
