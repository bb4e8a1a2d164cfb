//! The tests that a row of the coverage list may name, which are found by reading the sources.
//!
//! | written as | means |
//! |---|---|
//! | `cuda-sys::it::loader::no_library` | a test function of `cuda-sys`; `loader` is its file |
//! | `ui:cuda-driver/view_outlives_buffer.rs` | a file below the package's `tests/ui` |
//! | `example:saxpy` | an example, which checks its own result |
//! | `ci:rebuild` | a step of `cargo xtask ci` |

use std::path::Path;

use anyhow::Result;

use crate::ci;
use crate::workspace::{Workspace, files_below};

/// The source files that can contain evidence.
#[derive(Debug)]
pub(crate) struct Evidence {
    sources: Vec<Source>,
}

#[derive(Debug)]
struct Source {
    /// The path relative to the root, with `/`.
    path: String,
    text: String,
}

impl Evidence {
    /// Reads the sources.
    pub(crate) fn collect(workspace: &Workspace) -> Result<Self> {
        let mut sources = Vec::new();
        for file in files_below(&workspace.root, &["rs"])? {
            let path = workspace.relative(&file);
            let text = std::fs::read_to_string(&file)?;
            sources.push(Source { path, text });
        }
        Ok(Self { sources })
    }

    /// Checks that `named` exists. Returns a message if it does not.
    pub(crate) fn find(&self, named: &str) -> Result<(), String> {
        let found = match named.split_once(':') {
            Some(("ci", step)) => ci::has_step(step),
            Some(("example", name)) => self.has_file(
                "examples/",
                &[&format!("/{name}.rs"), &format!("/{name}/main.rs")],
            ),
            Some(("ui", file)) => {
                let (package, file) = file.split_once('/').unwrap_or((file, ""));
                self.has_file(
                    &format!("crates/{package}/tests/ui/"),
                    &[&format!("/{file}")],
                )
            }
            Some((package, path)) if path.starts_with(':') => self.has_test(package, &path[1..]),
            _ => {
                return Err(format!(
                    "`{named}` is neither package::test nor ui:, example: or ci:"
                ));
            }
        };
        if found {
            Ok(())
        } else {
            Err(format!("there is no `{named}`"))
        }
    }

    fn has_file(&self, folder: &str, endings: &[&str]) -> bool {
        let matches = |path: &str| endings.iter().any(|ending| path.ends_with(ending));
        self.sources
            .iter()
            .any(|source| source.path.starts_with(folder) && matches(&source.path))
    }

    fn has_test(&self, package: &str, path: &str) -> bool {
        let mut words = path.rsplit("::");
        let function = words.next().unwrap_or_default();
        let module = words.next();
        self.sources
            .iter()
            .filter(|source| source.belongs_to(package))
            .filter(|source| module.is_none_or(|module| source.has_module(module)))
            .any(|source| source.has_test(function))
    }
}

impl Source {
    fn belongs_to(&self, package: &str) -> bool {
        self.path.starts_with(&format!("crates/{package}/"))
            || self.path.starts_with(&format!("{package}/"))
    }

    /// Returns whether this file is the module or contains it.
    fn has_module(&self, module: &str) -> bool {
        let in_path = Path::new(&self.path)
            .with_extension("")
            .iter()
            .any(|part| part == module);
        in_path || self.text.contains(&format!("mod {module} {{"))
    }

    /// Returns whether the file has a function of this name with `#[test]`.
    fn has_test(&self, function: &str) -> bool {
        let start = format!("fn {function}(");
        let lines: Vec<&str> = self.text.lines().map(str::trim).collect();
        lines.iter().enumerate().any(|(at, line)| {
            line.starts_with(&start) && {
                let above = lines[..at].iter().rev();
                above
                    .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
                    .any(|line| line.starts_with("#[test]"))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence() -> Evidence {
        let source = |path: &str, text: &str| Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        Evidence {
            sources: vec![
                source(
                    "crates/cuda-sys/tests/it/loader.rs",
                    "//! L.\n#[test]\n#[cfg(unix)]\nfn no_library() {}\nfn helper() {}\n",
                ),
                source(
                    "crates/cuda-sys/src/version.rs",
                    "mod tests {\n    #[test]\n    fn orders() {}\n}\n",
                ),
                source("crates/cuda-driver/tests/ui/outlives.rs", ""),
                source("examples/examples/saxpy.rs", ""),
            ],
        }
    }

    #[test]
    fn what_exists_is_found() {
        for named in [
            "cuda-sys::it::loader::no_library",
            "cuda-sys::no_library",
            "cuda-sys::version::tests::orders",
            "ui:cuda-driver/outlives.rs",
            "example:saxpy",
            "ci:rebuild",
        ] {
            assert_eq!(evidence().find(named), Ok(()), "{named}");
        }
    }

    #[test]
    fn what_does_not_exist_is_told() {
        for named in [
            "cuda-sys::it::loader::helper",
            "cuda-sys::it::device::no_library",
            "cuda-driver::it::loader::no_library",
            "cuda-sys::it::loader::no_lib",
            "ui:cuda-sys/outlives.rs",
            "example:matmul",
            "ci:sleep",
        ] {
            let error = evidence().find(named).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
        assert!(evidence().find("nonsense").unwrap_err().contains("neither"));
    }
}
