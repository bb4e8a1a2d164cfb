//! Runs the tests of the workspace in another way than `cargo test`: instrumented, in another
//! program, or for another system. Each test program runs separately, and the results are counted
//! by package.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::built::{self, Artifact};
use crate::workspace::{Workspace, describe, within};

/// The packages whose tests concern code at run time. The others run at build time.
pub(crate) const PACKAGES: [&str; 4] = ["cuda-sys", "cuda-sim", "cuda-nvrtc", "cuda-driver"];

/// The features without bindgen, which would need a C compiler's headers for each target.
pub(crate) const FEATURES: [&str; 2] = [
    "--no-default-features",
    "--features=cuda-driver/derive,cuda-driver/half,cuda-driver/nvrtc",
];

/// The number of tests in one process. It is small because qemu keeps a record of every address
/// that was ever reserved, so that a test with hundreds of software drivers needs several GiB.
const PIECE: usize = 10;

/// A test that is skipped, with the reason.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skip {
    pub(crate) package: &'static str,
    /// A substring of the names of the tests.
    pub(crate) test: &'static str,
    pub(crate) why: &'static str,
}

/// The way in which the tests are built and run.
#[derive(Debug, Default)]
pub(crate) struct Suite {
    /// The name of the folder below `target/` for all output.
    pub(crate) name: String,
    /// The packages to test; if empty, [`PACKAGES`].
    pub(crate) packages: Vec<String>,
    /// The integration test to build and run; if `None`, all tests.
    pub(crate) target: Option<&'static str>,
    /// Additional arguments for `cargo test`.
    pub(crate) cargo: Vec<String>,
    /// The environment of `cargo test`.
    pub(crate) build_env: Vec<(&'static str, OsString)>,
    /// The program that runs a test, with its arguments; empty to run tests directly.
    pub(crate) runner: Vec<OsString>,
    /// The environment of the tests.
    pub(crate) env: Vec<(&'static str, OsString)>,
    pub(crate) skips: Vec<Skip>,
    /// A line that contains this text is a finding.
    pub(crate) finding: Option<&'static str>,
    /// The time limit for [`PIECE`] tests.
    pub(crate) limit: Duration,
    /// The number of tests that run in parallel.
    pub(crate) threads: usize,
}

/// The numbers of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    failed: usize,
    skipped: usize,
    findings: usize,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.findings += other.findings;
    }
}

/// A built test program.
#[derive(Debug)]
struct Test {
    package: String,
    name: String,
    path: PathBuf,
}

impl Suite {
    /// Builds and runs the tests, and prints the results by package.
    ///
    /// # Errors
    ///
    /// Fails if a test failed or there was a finding.
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let dir = workspace.target.join(&self.name);
        let tests = self.build(workspace, &dir)?;
        let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
        for test in &tests {
            let start = Instant::now();
            let found = self.test(workspace, &dir, test)?;
            println!(
                "{:<14} {:<12} {:>5} passed {:>3} failed {:>3} skipped {:>3} findings  {:>5.0} s",
                test.package,
                test.name,
                found.passed,
                found.failed,
                found.skipped,
                found.findings,
                start.elapsed().as_secs_f64()
            );
            counts.entry(&test.package).or_default().add(found);
        }
        println!("\n{:<14} passed failed skipped findings", "package");
        let mut all = Counts::default();
        for (package, found) in &counts {
            println!(
                "{package:<14} {:>6} {:>6} {:>7} {:>8}",
                found.passed, found.failed, found.skipped, found.findings
            );
            all.add(*found);
        }
        for skip in &self.skips {
            println!("skipped: {} {}*: {}", skip.package, skip.test, skip.why);
        }
        println!(
            "\n{} passed, {} failed, {} skipped",
            all.passed, all.failed, all.skipped
        );
        if all.passed == 0 {
            bail!("no test ran");
        }
        if all.failed + all.findings > 0 {
            bail!(
                "{} failed, {} findings: see {}",
                all.failed,
                all.findings,
                dir.join("logs").display()
            );
        }
        Ok(())
    }

    fn build(&self, workspace: &Workspace, dir: &Path) -> Result<Vec<Test>> {
        let mut cargo = workspace.cargo(["test", "--no-run"]);
        match self.target {
            Some(target) => cargo.args(["--test", target]),
            None => cargo.args(["--lib", "--tests"]),
        };
        let mut packages: Vec<&str> = self.packages.iter().map(String::as_str).collect();
        if packages.is_empty() {
            packages.extend(PACKAGES);
        }
        cargo.args(packages.iter().flat_map(|package| ["-p", package]));
        // Features of a package that is not selected would be an error.
        if packages.contains(&"cuda-driver") {
            cargo.args(FEATURES);
        } else {
            cargo.arg(FEATURES[0]);
        }
        cargo.args(&self.cargo);
        cargo.env("CARGO_TARGET_DIR", dir);
        for (name, value) in &self.build_env {
            cargo.env(name, value);
        }
        Ok(tests(built::build(&mut cargo)?))
    }

    fn test(&self, workspace: &Workspace, dir: &Path, test: &Test) -> Result<Counts> {
        let skips: Vec<&str> = self
            .skips
            .iter()
            .filter(|skip| skip.package == test.package)
            .flat_map(|skip| ["--skip", skip.test])
            .collect();
        let list = |options: &[&str]| -> Result<Vec<String>> {
            let mut command = self.command(workspace, test)?;
            let listed = command.arg("--list").args(options).output()?;
            if !listed.status.success() {
                bail!("`{}` failed", describe(&command));
            }
            let text = String::from_utf8_lossy(&listed.stdout);
            let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
            Ok(names.map(str::to_owned).collect())
        };
        let chosen = list(&skips)?;
        let mut counts = Counts {
            skipped: list(&[])?.len() - chosen.len(),
            ..Counts::default()
        };
        let logs = dir.join("logs");
        fs::create_dir_all(&logs)?;
        let path = logs.join(format!("{}-{}.txt", test.package, test.name));
        let log = File::create(&path)?;
        let mut seen = 0;
        for piece in chosen.chunks(PIECE) {
            let mut command = self.command(workspace, test)?;
            command.args(["--test-threads", &self.threads.max(1).to_string()]);
            command.arg("--exact").args(piece);
            command.stdout(log.try_clone()?).stderr(log.try_clone()?);
            let status = within(&mut command, self.limit)?;
            let written = fs::read(&path)?;
            let text = String::from_utf8_lossy(&written[seen..]);
            seen = written.len();
            let found = count(&text, self.finding);
            counts.add(found);
            let well = status.is_some_and(|status| status.success());
            if !well && found.failed == 0 && found.findings == 0 {
                let what = status.map_or("time limit exceeded".to_owned(), |status| {
                    status.to_string()
                });
                println!("{} {}: {what}: {}", test.package, test.name, path.display());
                counts.failed += 1;
            }
            for line in text.lines().filter(|line| line.ends_with("... FAILED")) {
                println!("  {line}");
            }
        }
        Ok(counts)
    }

    /// Returns the command that runs a test program, without arguments for it.
    fn command(&self, workspace: &Workspace, test: &Test) -> Result<Command> {
        let mut words = self.runner.clone();
        words.push(test.path.clone().into());
        let (program, args) = words.split_first().context("a test has a path")?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        let folder = workspace
            .package_dir(&test.package)
            .context("a package has a folder")?;
        command.current_dir(&folder);
        command.env("CARGO_MANIFEST_DIR", &folder);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}

/// Counts the results in the output of a test program.
pub(crate) fn count(text: &str, finding: Option<&str>) -> Counts {
    let mut counts = Counts::default();
    for line in text.lines() {
        if finding.is_some_and(|finding| line.contains(finding)) {
            counts.findings += 1;
        }
        let Some((_, rest)) = line.split_once("test result: ") else {
            continue;
        };
        let number = |word: &str| {
            let before = rest.split(word).next().unwrap_or_default().trim_end();
            let digits = before.rsplit(' ').next().unwrap_or_default();
            digits.parse::<usize>().unwrap_or(0)
        };
        counts.passed += number(" passed");
        counts.failed += number(" failed");
        counts.skipped += number(" ignored");
    }
    counts
}

/// Returns the test programs among the build output.
fn tests(artifacts: Vec<Artifact>) -> Vec<Test> {
    let tests = artifacts.into_iter().filter(|artifact| artifact.is_test);
    tests
        .filter_map(|artifact| {
            Some(Test {
                package: artifact.package,
                name: if artifact.kind == "test" {
                    artifact.name
                } else {
                    "unit".to_owned()
                },
                path: artifact.executable?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Counts, count, tests};
    use crate::built;

    #[test]
    fn what_tests_write_is_counted() {
        let text = "test a ... ok\nWARNING: Sanitizer: x\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 1.02s\n\
            test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s\n";
        let expected = Counts {
            passed: 14,
            failed: 4,
            skipped: 1,
            findings: 1,
        };
        assert_eq!(count(text, Some("WARNING: Sanitizer")), expected);
    }

    #[test]
    fn tests_are_read_from_cargos_messages() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["lib"],"name":"a"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["lib"],"name":"a"},"profile":{"test":true},"executable":"/t/a-1"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["test"],"name":"it"},"profile":{"test":true},"executable":"/t/it-2"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["bin"],"name":"b"},"profile":{"test":false},"executable":"/t/b"}
{"reason":"build-finished","success":true}
"#;
        let found = tests(built::read(messages).unwrap());
        let found: Vec<_> = found
            .iter()
            .map(|test| (test.package.as_str(), test.name.as_str()))
            .collect();
        assert_eq!(found, [("a", "unit"), ("a", "it")]);
    }
}
