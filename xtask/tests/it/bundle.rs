//! The runner of `cargo xtask bundle`, over programs that are shell scripts.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tempfile::TempDir;

struct Bundle {
    dir: TempDir,
}

impl Bundle {
    fn new(programs: &[(&str, &str)]) -> Self {
        let bundle = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        bundle.write("run.sh", include_str!("../../src/bundle/run.sh"));
        for (name, body) in programs {
            bundle.write(name, &format!("#!/bin/sh\n{body}\n"));
        }
        bundle
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Whether the runner succeeded, and what it printed.
    fn run(&self, args: &[&str]) -> (bool, String) {
        let output = Command::new("bash")
            .arg(self.dir.path().join("run.sh"))
            .args(args)
            .env("STEP_LIMIT", "1")
            .env_remove("OUT")
            .env_remove("STATE")
            .output()
            .unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
        )
    }
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

#[test]
fn programs_run_in_their_package_and_must_not_skip() {
    let bundle = Bundle::new(&[(
        "cuda-sys/tests/it",
        "[ \"$CUDA_TEST_REQUIRE\" = 1 ] && [ \"$PWD\" = \"$CARGO_MANIFEST_DIR\" ] && [ -x tests/it ]",
    )]);
    let (success, said) = bundle.run(&[]);
    assert!(success, "{said}");
    assert_eq!(last_line(&said), "1 passed, 0 failed");
}

#[test]
fn failures_and_hanging_programs_are_counted_and_shown() {
    let bundle = Bundle::new(&[
        ("a/tests/good", "true"),
        ("a/tests/bad", "echo the sum was wrong; exit 3"),
        ("b/examples/hangs", "exec sleep 30"),
    ]);
    let (success, said) = bundle.run(&[]);
    assert!(!success);
    assert_eq!(last_line(&said), "1 passed, 2 failed");
    for needed in ["the sum was wrong", "exit status 3", "stopped after 1 s"] {
        assert!(said.contains(needed), "{needed} is not in: {said}");
    }
}

#[test]
fn a_passed_step_runs_again_only_when_its_program_changes() {
    let bundle = Bundle::new(&[
        ("a/tests/one", "[ \"$1\" = --list ] || echo ran >> ran"),
        ("a/tests/two", "[ -e fixed ]"),
    ]);
    assert_eq!(last_line(&bundle.run(&[]).1), "1 passed, 1 failed");
    fs::write(bundle.dir.path().join("a/fixed"), "").unwrap();
    let (success, said) = bundle.run(&[]);
    assert!(success, "{said}");
    let runs = || {
        fs::read_to_string(bundle.dir.path().join("a/ran"))
            .unwrap()
            .lines()
            .count()
    };
    assert_eq!(runs(), 1);
    bundle.write(
        "a/tests/one",
        "#!/bin/sh\n[ \"$1\" = --list ] || echo ran >> ran # changed\n",
    );
    assert!(bundle.run(&[]).0);
    assert_eq!(runs(), 2);
    assert!(bundle.run(&["--fresh"]).0);
    assert_eq!(runs(), 3);
}

#[test]
fn tests_that_read_the_repository_are_left_out() {
    let bundle = Bundle::new(&[
        (
            "cuda-driver/tests/it",
            "[ \"$1\" = --list ] || echo \"$@\" > args",
        ),
        (
            "cuda-sys/tests/it",
            "[ \"$1\" = --list ] || echo \"$@\" > args",
        ),
    ]);
    let (success, said) = bundle.run(&[]);
    assert!(success, "{said}");
    let args = |package: &str| {
        let text = fs::read_to_string(bundle.dir.path().join(package).join("args"));
        text.unwrap().trim().to_owned()
    };
    assert_eq!(args("cuda-sys"), "");
    let args = args("cuda-driver");
    let left_out: Vec<&str> = args.split("--skip ").skip(1).map(str::trim).collect();
    assert_eq!(left_out.len(), 3, "{args}");
    let sources = crate::root().join("crates/cuda-driver/tests/it");
    for test in left_out {
        let (module, name) = test.split_once("::").unwrap();
        let source = fs::read_to_string(sources.join(format!("{module}.rs"))).unwrap();
        assert!(
            source.contains(&format!("fn {name}()")),
            "{test} does not exist"
        );
    }
}

#[test]
fn only_and_the_sanitizer_choose_the_steps() {
    let bundle = Bundle::new(&[("a/tests/one", "true"), ("b/examples/saxpy", "true")]);
    assert_eq!(
        last_line(&bundle.run(&["--only", "saxpy", "--fresh"]).1),
        "1 passed, 0 failed"
    );
    // Without compute-sanitizer its step fails: nothing is passed over in silence.
    let (success, said) = bundle.run(&["--sanitizer", "--fresh", "--only", "memcheck b/"]);
    let installed = Command::new("compute-sanitizer")
        .arg("--version")
        .output()
        .is_ok();
    assert!(success == installed, "{said}");
    assert!(said.contains("memcheck b/examples/saxpy"), "{said}");
}

#[test]
fn memcheck_ignores_the_errors_that_an_example_provokes() {
    let bundle = Bundle::new(&[
        ("b/examples/errors", "true"),
        ("b/examples/saxpy", "true"),
        ("cuda/bin/compute-sanitizer", "echo \"$@\""),
    ]);
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}/cuda/bin:{path}", bundle.dir.path().display());
    let output = Command::new("bash")
        .arg(bundle.dir.path().join("run.sh"))
        .args(["--sanitizer", "--only", "memcheck b/"])
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(output.status.success());
    let log = fs::read_to_string(bundle.dir.path().join("out/log.txt")).unwrap();
    let of = |example: &str| {
        let mut lines = log.lines().filter(|line| !line.starts_with("=="));
        lines.find(|line| line.ends_with(example)).unwrap_or("")
    };
    assert!(of("errors").contains("--report-api-errors no"), "{log}");
    assert!(
        of("saxpy").contains("--report-api-errors explicit"),
        "{log}"
    );
}
