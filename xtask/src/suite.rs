//! Runs the tests of the libraries with a sanitizer, in another program, or for another system.
//!
//! `cargo test` starts each test program through `cargo xtask runner`, which is set as the runner
//! of the target. It runs a few tests in each process, each process with a time limit, and skips
//! the tests in `xtask/platforms/skips.txt`.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::workspace::{self, Workspace, within};

/// The packages whose tests concern code at run time. The others run at build time.
pub(crate) const PACKAGES: [&str; 5] = [
    "cuda-sys",
    "cuda-sim",
    "cuda-nvrtc",
    "cuda-driver",
    "cuda-conformance",
];

/// The features without bindgen, which would need a C compiler's headers for each target.
pub(crate) const FEATURES: [&str; 2] = [
    "--no-default-features",
    "--features=cuda-driver/derive,cuda-driver/half,cuda-driver/nvrtc",
];

/// The number of tests in one process. It is small because qemu keeps a record of every address
/// that was ever reserved, so that a test with hundreds of software drivers needs several GiB.
const PIECE: usize = 10;

/// The time limit of a process.
const LIMIT: Duration = Duration::from_secs(2700);

/// The tests that are skipped.
const SKIPS: &str = include_str!("../platforms/skips.txt");

/// The variables that tell the runner the name of the suite and the folder for logs.
const SUITE: &str = "XTASK_SUITE";
const LOGS: &str = "XTASK_LOGS";

/// How the tests are built and run.
#[derive(Debug, Default)]
pub(crate) struct Suite {
    /// The name of the settings in `xtask/platforms` and of the folder below `target/` for all
    /// output.
    name: &'static str,
    target: &'static str,
    with_std: bool,
    /// The packages to test; if empty, [`PACKAGES`].
    pub(crate) packages: Vec<String>,
    /// The integration test to run; if `None`, all tests.
    pub(crate) test: Option<&'static str>,
    /// Additional environment of cargo and of the tests.
    pub(crate) env: Vec<(&'static str, OsString)>,
    /// The program that runs a test, with its arguments; empty to run tests directly.
    pub(crate) runner: Vec<String>,
}

impl Suite {
    pub(crate) fn new(name: &'static str, target: &'static str) -> Self {
        Self {
            name,
            target,
            ..Self::default()
        }
    }

    /// Like [`new`](Self::new), for a target or settings that need a rebuilt standard library.
    pub(crate) fn with_std(name: &'static str, target: &'static str) -> Self {
        Self {
            with_std: true,
            ..Self::new(name, target)
        }
    }

    /// Builds and runs the tests.
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let xtask = env::current_exe()?.to_string_lossy().into_owned();
        let mut runner = vec![xtask, "runner".to_owned(), "--".to_owned()];
        runner.extend(self.runner.iter().cloned());
        let mut cargo = self.command(workspace, "test");
        cargo.arg(format!("--config=target.{}.runner={runner:?}", self.target));
        cargo.arg("--no-fail-fast");
        match self.test {
            Some(test) => cargo.args(["--test", test]),
            None => cargo.args(["--lib", "--tests"]),
        };
        let mut packages: Vec<&str> = self.packages.iter().map(String::as_str).collect();
        if packages.is_empty() {
            packages.extend(PACKAGES);
        }
        cargo.args(packages.iter().flat_map(|package| ["-p", package]));
        // Features of a package that is not selected would be an error.
        let with_driver = usize::from(packages.contains(&"cuda-driver"));
        cargo.args(&FEATURES[..=with_driver]);
        let logs = workspace.target.join(self.name).join("logs");
        fs::create_dir_all(&logs)?;
        cargo.env(SUITE, self.name).env(LOGS, &logs);
        let result = workspace::run(&mut cargo);
        for line in SKIPS.lines().filter(|line| skips(line, self.name)) {
            println!("skipped: {}", line.split_once(' ').unwrap_or_default().1);
        }
        result.with_context(|| format!("see {}", logs.display()))
    }

    /// Returns a cargo command that builds for the target of this suite.
    pub(crate) fn command(&self, workspace: &Workspace, command: &str) -> Command {
        let settings = format!("xtask/platforms/{}.toml", self.name);
        let mut cargo = workspace.cargo([command, "--target", self.target, "--config", &settings]);
        if self.with_std {
            // A stable compiler builds the standard library only with this variable.
            cargo.arg("-Zbuild-std").env("RUSTC_BOOTSTRAP", "1");
        }
        cargo.envs(self.env.iter().cloned());
        cargo.env("CARGO_TARGET_DIR", workspace.target.join(self.name));
        cargo
    }
}

/// Returns whether a line of `skips.txt` is for the suite `name`.
fn skips(line: &str, name: &str) -> bool {
    let suites = line.split(' ').next().unwrap_or_default();
    suites.split(',').any(|suite| suite == name)
}

/// `cargo xtask runner`: runs the test program at the end of `words`, in pieces.
pub(crate) fn runner(words: &[String]) -> Result<()> {
    let variable = |name: &str| env::var(name).with_context(|| format!("{name} is not set"));
    let (suite, package) = (variable(SUITE)?, variable("CARGO_PKG_NAME")?);
    let (program, args) = words.split_first().context("a test has a path")?;
    let command = || {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        command
    };
    let path = Path::new(words.last().unwrap_or(program));
    let listed = command().arg("--list").output()?;
    if !listed.status.success() {
        bail!("`{} --list` failed", words.join(" "));
    }
    let listed = String::from_utf8_lossy(&listed.stdout);
    let all: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .collect();
    let lines = SKIPS.lines().filter(|line| skips(line, &suite));
    let skipped: Vec<&str> = lines.filter_map(|line| skip_in(line, &package)).collect();
    let is_chosen = |test: &&str| !skipped.iter().any(|skip| test.contains(skip));
    let chosen: Vec<&str> = all.iter().copied().filter(is_chosen).collect();

    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let log_path = Path::new(&variable(LOGS)?).join(format!("{package}-{name}.txt"));
    let log = File::create(&log_path)?;
    let (mut seen, mut passed, mut failed) = (0, 0, 0);
    for piece in chosen.chunks(PIECE) {
        let mut command = command();
        command.arg("--exact").args(piece);
        command.stdout(log.try_clone()?).stderr(log.try_clone()?);
        let status = within(&mut command, LIMIT)?;
        let written = fs::read(&log_path)?;
        let text = String::from_utf8_lossy(&written[seen..]).into_owned();
        seen = written.len();
        passed += count_passed(&text);
        if !status.is_some_and(|status| status.success()) {
            failed += 1;
            let what = status.map_or("time limit exceeded".to_owned(), |it| it.to_string());
            println!("{}: {what}", piece.join(" "));
            text.lines()
                .filter(|it| it.ends_with("... FAILED"))
                .for_each(|it| println!("  {it}"));
        }
    }
    let skipped = all.len() - chosen.len();
    println!("{package} {name}: {passed} passed, {failed} processes failed, {skipped} skipped");
    if failed > 0 {
        bail!("see {}", log_path.display());
    }
    Ok(())
}

/// Returns the part of the names of tests that a line of `skips.txt` skips in a package.
fn skip_in<'a>(line: &'a str, package: &str) -> Option<&'a str> {
    let mut columns = line.split(' ').skip(1);
    (columns.next()? == package).then(|| columns.next())?
}

/// Returns the number of passed tests in the output of test programs.
pub(crate) fn count_passed(text: &str) -> usize {
    let results = text
        .lines()
        .filter_map(|line| line.split_once("test result: "));
    let counts = results.filter_map(|(_, result)| {
        let before = result.split(" passed").next()?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::{SKIPS, count_passed, skip_in, skips};
    use crate::source;
    use crate::workspace::Workspace;

    #[test]
    fn passed_tests_are_counted() {
        let text = "test a ... ok\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out\n\
            test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(count_passed(text), 14);
    }

    #[test]
    fn each_skip_names_tests_that_exist() {
        let workspace = Workspace::locate().unwrap();
        for line in SKIPS.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&str> = line.splitn(4, ' ').collect();
            let &[suites, package, test, _] = columns.as_slice() else {
                panic!("a column is missing: {line}")
            };
            assert!(suites.split(',').all(|suite| skips(line, suite)));
            assert_eq!(skip_in(line, package), Some(test));
            let sources = source::read(&workspace, &format!("crates/{package}")).unwrap();
            let words: Vec<&str> = test.split("::").filter(|word| !word.is_empty()).collect();
            let exists = words.iter().all(|word| {
                sources.iter().any(|source| {
                    ["fn", "mod"]
                        .iter()
                        .any(|item| source.text.contains(&format!("{item} {word}")))
                })
            });
            assert!(exists, "there is no test {test} in {package}");
        }
    }
}
