//! The programs and libraries that cargo reports as built.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::progress;
use crate::workspace::describe;

/// A built program, or a library that programs load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Built {
    /// The name of the target.
    pub(crate) name: String,
    /// `lib`, `bin`, `test`, `example`, `bench` or `cdylib`.
    pub(crate) kind: String,
    /// Whether it is a test program: an integration test, or the unit tests of another target.
    pub(crate) is_test: bool,
    pub(crate) path: PathBuf,
}

/// Runs a cargo command that builds, and returns its output.
pub(crate) fn build(cargo: &mut Command) -> Result<Vec<Built>> {
    cargo.args(["--message-format", "json-render-diagnostics"]);
    println!("{}", describe(cargo));
    let (status, messages) = progress::output(cargo).context("cargo could not be started")?;
    if !status.success() {
        bail!("`{}` failed", describe(cargo));
    }
    Ok(read(&String::from_utf8_lossy(&messages)))
}

/// Reads cargo's messages.
pub(crate) fn read(messages: &str) -> Vec<Built> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let built = messages.filter_map(|message| {
        let kind = message["target"]["kind"][0].as_str()?;
        let path = match kind {
            "cdylib" => message["filenames"][0].as_str(),
            _ => message["executable"].as_str(),
        };
        Some(Built {
            name: message["target"]["name"].as_str()?.to_owned(),
            kind: kind.to_owned(),
            is_test: message["profile"]["test"] == true,
            path: path?.into(),
        })
    });
    built.collect()
}
