//! The build output that cargo reports.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::workspace::describe;

/// Arguments that make cargo report its output as JSON.
const MESSAGES: [&str; 2] = ["--message-format", "json-render-diagnostics"];

/// A built target of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Artifact {
    /// The name of the package's folder.
    pub(crate) package: String,
    /// The name of the target.
    pub(crate) name: String,
    /// `lib`, `bin`, `test`, `example`, `bench` or `cdylib`.
    pub(crate) kind: String,
    /// Whether it is a test program: an integration test, or the unit tests of another target.
    pub(crate) is_test: bool,
    pub(crate) executable: Option<PathBuf>,
    pub(crate) files: Vec<PathBuf>,
}

/// Runs a cargo command that builds, and returns its output files.
///
/// # Errors
///
/// Fails if the command fails.
pub(crate) fn build(cargo: &mut Command) -> Result<Vec<Artifact>> {
    cargo.args(MESSAGES);
    println!("{}", describe(cargo));
    let output = cargo
        .stderr(Stdio::inherit())
        .output()
        .context("cargo could not be started")?;
    if !output.status.success() {
        bail!("`{}` failed", describe(cargo));
    }
    read(&String::from_utf8(output.stdout).context("cargo's messages")?)
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    executable: Option<PathBuf>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Parses cargo's JSON messages.
pub(crate) fn read(messages: &str) -> Result<Vec<Artifact>> {
    let mut found = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line).context("a message of cargo's")?;
        let Some(target) = message.target else {
            continue;
        };
        if message.reason != "compiler-artifact" {
            continue;
        }
        let folder = message.manifest_path.parent().and_then(Path::file_name);
        found.push(Artifact {
            package: folder.unwrap_or_default().to_string_lossy().into_owned(),
            name: target.name,
            kind: target.kind.into_iter().next().unwrap_or_default(),
            is_test: message.profile.is_some_and(|profile| profile.test),
            executable: message.executable,
            files: message.filenames,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn artifacts_are_read_from_cargos_messages() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["lib"],"name":"a"},"profile":{"test":false},"filenames":["/t/liba.rlib"],"executable":null}
{"reason":"build-script-executed","package_id":"a"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["test"],"name":"it"},"profile":{"test":true},"executable":"/t/it-2"}
{"reason":"build-finished","success":true}
"#;
        let found = read(messages).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|it| {
                (
                    &*it.package,
                    &*it.name,
                    &*it.kind,
                    it.is_test,
                    it.executable.is_some(),
                    it.files.len(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("a", "a", "lib", false, false, 1),
                ("a", "it", "test", true, true, 0)
            ]
        );
    }
}
