//! `ci --only paste`: runs the whole programs of the README and the book in crates outside of this
//! workspace, each as a reader pastes it, without a GPU.
//!
//! A whole program is a block of Rust code with a visible `fn main`. Its text is what a reader of
//! the book sees: without the lines that mdBook hides. Its crate has what the pages tell a reader
//! to write:
//!
//! - the dependencies of the chapter "Getting started" (for the README, its own), and those of the
//!   `toml` blocks that precede the program in its chapter, which may replace a dependency,
//! - the files whose path stands in front of a block of the chapter, such as "`build.rs`:",
//! - the folders that a `cp -r` in a block of the chapter copies.
//!
//! Programs with the same dependencies are the binaries of one crate, so that a dependency is built
//! once. The profile of "Getting started", which optimizes the software device, is left out,
//! because it takes minutes to compile.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{self, Workspace};
use crate::{matrix, setup};

/// The chapter with the dependencies of the other chapters.
const FIRST: &str = "getting-started.md";

/// The lines of a section of a manifest, such as `dependencies`, keyed by the section and the name.
type Dependencies = BTreeMap<(String, String), String>;

/// A program, and what its page says about its crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Program {
    /// The page and the line, such as `streams-35`.
    name: String,
    text: String,
    dependencies: Dependencies,
    /// Files of the crate: the path and the text.
    files: BTreeMap<String, String>,
    /// Folders of the repository that are copied to the crate.
    folders: Vec<String>,
}

/// Runs all programs.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    if !cfg!(target_os = "linux") {
        bail!("the programs get the NVRTC of the setup for Linux: this check requires Linux");
    }
    let programs = programs(&workspace.root)?;
    let setup = setup::ensure(workspace, &[setup::TOOLKIT_SET])?;
    let folder = workspace.target.join("paste");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    check_workspaces(workspace, &folder)?;

    let mut crates: BTreeMap<&Dependencies, Vec<&Program>> = BTreeMap::new();
    for program in &programs {
        crates
            .entry(&program.dependencies)
            .or_default()
            .push(program);
    }
    let mut failed = Vec::new();
    for (index, members) in crates.values().enumerate() {
        let dir = folder.join(format!("crate-{index}"));
        write_crate(&workspace.root, &dir, members)?;
        build(workspace, &dir)?;
        for program in members {
            let mut command = Command::new(bin_folder(workspace).join(&program.name));
            command
                .current_dir(&dir)
                .env("CUDA_NVRTC_LIBRARY", matrix::nvrtc_in(&setup.join("lib"))?)
                .env("CUDA_NVRTC_CACHE", folder.join("cache"));
            let output = command.output()?;
            if !output.status.success() {
                failed.push(&program.name);
                println!(
                    "{} failed: {}\n{}{}",
                    program.name,
                    output.status,
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        }
    }
    println!(
        "{} of {} whole programs of the README and the book run when they are pasted",
        programs.len() - failed.len(),
        programs.len()
    );
    if !failed.is_empty() {
        bail!("{failed:?} failed");
    }
    Ok(())
}

/// Reads the programs of the README and of all chapters.
fn programs(root: &Path) -> Result<Vec<Program>> {
    let book = root.join("docs/book/src");
    let read = |path: &Path| {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Ok::<_, anyhow::Error>(text.replace("\r\n", "\n"))
    };
    let mut programs = parse(
        "README",
        &read(&root.join("README.md"))?,
        &Dependencies::new(),
    );
    let first = parse("first", &read(&book.join(FIRST))?, &Dependencies::new());
    let first = first
        .first()
        .context("\"Getting started\" has no program")?;
    let mut pages = workspace::files_below(&book, &["md"])?;
    pages.sort();
    for page in pages {
        let name = page.file_stem().unwrap_or_default().to_string_lossy();
        programs.extend(parse(&name, &read(&page)?, &first.dependencies));
    }
    Ok(programs)
}

/// Returns the programs of a page, for crates that already have `dependencies`.
fn parse(page: &str, text: &str, dependencies: &Dependencies) -> Vec<Program> {
    let mut state = Program {
        dependencies: dependencies.clone(),
        ..Program::default()
    };
    let mut programs = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut label = None;
    let mut index = 0;
    while index < lines.len() {
        let line = lines[index];
        let Some(language) = line.strip_prefix("```") else {
            let is_label = line.starts_with('`') && line.ends_with("`:");
            if is_label {
                label = Some(line.trim_matches(['`', ':']));
            } else if !line.is_empty() && !line.starts_with("<!--") {
                label = None;
            }
            index += 1;
            continue;
        };
        let start = index + 1;
        let length = lines[start..].iter().position(|line| *line == "```");
        let end = start + length.unwrap_or(lines.len() - start);
        let block = &lines[start..end];
        match (language, label.take()) {
            (_, Some(path)) if path != "src/main.rs" => {
                state.files.insert(path.to_owned(), block.join("\n") + "\n");
            }
            ("toml", _) => add_dependencies(&mut state.dependencies, block),
            ("sh", _) => {
                let copies = block
                    .iter()
                    .filter_map(|line| line.strip_prefix("cp -r cuda/"));
                let folders = copies.filter_map(|rest| rest.strip_suffix(" ."));
                state.folders.extend(folders.map(ToOwned::to_owned));
            }
            ("rust" | "rust,no_run", _) => {
                let text = visible(block);
                if text.lines().any(|line| line.starts_with("fn main()")) {
                    programs.push(Program {
                        name: format!("{page}-{start}"),
                        text,
                        ..state.clone()
                    });
                }
            }
            _ => {}
        }
        index = end + 1;
    }
    programs
}

/// Returns the lines of a Rust block that mdBook shows.
fn visible(block: &[&str]) -> String {
    let mut text = String::new();
    for line in block {
        let code = line.trim_start();
        let is_hidden = code == "#" || code.starts_with("# ");
        if !is_hidden {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// Adds the dependencies of a block of a manifest. A later one replaces an earlier one of its name.
fn add_dependencies(dependencies: &mut Dependencies, block: &[&str]) {
    let mut section = "";
    for line in block {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if section.ends_with("dependencies")
            && let Some((name, _)) = line.split_once(" = ")
        {
            let key = (section.to_owned(), name.to_owned());
            dependencies.insert(key, (*line).to_owned());
        }
    }
}

/// Returns the manifest of a crate with `dependencies`, where the repository is `root` in place of
/// the folder `cuda` of the crate.
fn manifest(root: &Path, dependencies: &Dependencies) -> String {
    let mut text =
        String::from("[package]\nname = \"pasted\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    let mut section = "";
    for ((name, _), line) in dependencies {
        if section != name {
            section = name;
            text.push_str(&format!("\n[{section}]\n"));
        }
        text.push_str(line);
        text.push('\n');
    }
    text.replace("\"cuda/crates/", &format!("\"{}/crates/", root.display()))
}

/// Writes a crate with a binary for each program. Nothing is downloaded: the crate has the lock
/// file of this workspace.
fn write_crate(root: &Path, dir: &Path, programs: &[&Program]) -> Result<()> {
    fs::create_dir_all(dir.join("src/bin"))?;
    let dependencies = programs.first().map(|program| &program.dependencies);
    let dependencies = dependencies.context("a crate has a program")?;
    fs::write(dir.join("Cargo.toml"), manifest(root, dependencies))?;
    fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock"))?;
    for program in programs {
        let path = dir.join("src/bin").join(format!("{}.rs", program.name));
        fs::write(path, &program.text)?;
        for (path, text) in &program.files {
            let path = dir.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, text)?;
        }
        for folder in &program.folders {
            let from = root.join(folder);
            let name = from.file_name().context("a folder has a name")?;
            for file in workspace::files_below(&from, &[])? {
                let to = dir.join(name).join(file.strip_prefix(&from)?);
                if let Some(parent) = to.parent() {
                    fs::create_dir_all(parent)?;
                }
                fs::copy(&file, &to)?;
            }
        }
    }
    Ok(())
}

/// Returns the folder of the built programs. The step `outside` has built most dependencies there.
fn bin_folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("outside/debug")
}

fn build(workspace: &Workspace, dir: &Path) -> Result<()> {
    let mut cargo = workspace.cargo(["build", "--offline", "--bins", "--quiet"]);
    cargo
        .current_dir(dir)
        .env("CARGO_TARGET_DIR", workspace.target.join("outside"))
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    let output = cargo.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || text.contains("warning:") {
        bail!("the programs do not compile without warnings:\n{text}");
    }
    Ok(())
}

/// Checks what the README says about a crate with a `[workspace]`: cargo resolves it with the line
/// that the README names, and not without it.
#[cfg(unix)]
fn check_workspaces(workspace: &Workspace, folder: &Path) -> Result<()> {
    const EXCLUDE: &str = "[workspace]\nexclude = [\"cuda\"]\n";
    for page in ["README.md", "docs/book/src/getting-started.md"] {
        let text = fs::read_to_string(workspace.root.join(page))?.replace("\r\n", "\n");
        if !text.contains(EXCLUDE) {
            bail!("{page} does not say how a crate with a [workspace] excludes the repository");
        }
    }
    for (name, section, resolves) in [
        ("with-exclude", EXCLUDE, true),
        ("without-exclude", "[workspace]\n", false),
    ] {
        let dir = folder.join(name);
        fs::create_dir_all(dir.join("src"))?;
        std::os::unix::fs::symlink(&workspace.root, dir.join("cuda"))?;
        let package = "[package]\nname = \"pasted\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        let dependency = "[dependencies]\ncuda-driver = { path = \"cuda/crates/cuda-driver\" }\n";
        let manifest = format!("{package}\n{dependency}\n{section}");
        fs::write(dir.join("Cargo.toml"), manifest)?;
        fs::write(dir.join("src/main.rs"), "fn main() {}\n")?;
        fs::copy(workspace.root.join("Cargo.lock"), dir.join("Cargo.lock"))?;
        let mut cargo = workspace.cargo(["tree", "--offline", "--quiet"]);
        let output = cargo.current_dir(&dir).output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        // The message that both pages quote.
        let is_quoted = text.contains("error inheriting `edition` from workspace root manifest");
        if output.status.success() != resolves || is_quoted == resolves {
            bail!("cargo resolves the crate {name} otherwise than expected:\n{text}");
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_workspaces(_workspace: &Workspace, _folder: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
#[path = "../tests/unit/paste.rs"]
mod tests;
