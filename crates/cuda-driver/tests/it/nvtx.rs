//! Ranges of NVTX, with a library that the test builds in place of a tool's.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use cuda_driver::profile::{Profiler, nvtx_range};
use cuda_sim::Builder;
use cuda_sys::nvtx::NvtxTool;

use crate::support::{skip, software};

/// A library that writes the calls to the file in `NVTX_TEST_LOG`.
const TOOL: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*function)(void);
struct callbacks { size_t size; int (*table)(unsigned, function ***, unsigned *); };
struct version { size_t size; uint32_t version, reserved; void (*set)(uint32_t); };

static void report(const char *what, const char *name) {
    FILE *file = fopen(getenv("NVTX_TEST_LOG"), "a");
    fprintf(file, "%s%s\n", what, name);
    fclose(file);
}

static int push(const char *name) { report("push ", name); return 0; }
static int pop(void) { report("pop", ""); return 0; }

int InitializeInjectionNvtx2(const void *(*get)(uint32_t)) {
    const struct callbacks *callbacks = get(1);
    const struct version *version = get(3);
    const unsigned lengths[] = {0, 16, 9, 15, 7, 16, 7};
    function **table;
    unsigned length;
    if (get(2) || callbacks->size != sizeof *callbacks || version->size != sizeof *version) return 0;
    version->set(version->version);
    if (callbacks->table(0, &table, &length) || callbacks->table(7, &table, &length)) return 0;
    for (unsigned module = 1; module < 7; ++module) {
        if (!callbacks->table(module, &table, &length) || length != lengths[module]) return 0;
        if (table[0] || table[length]) return 0;
        for (unsigned i = 1; i < length; ++i) if (*table[i]) return 0;
    }
    callbacks->table(1, &table, &length);
    if (getenv("NVTX_TEST_NO_POP") == 0) *table[11] = (function)pop;
    *table[9] = (function)push;
    report("version ", version->version == 3 ? "3" : "other");
    return RESULT;
}
"#;

/// Builds the library, or returns `false` without a C compiler.
fn build(library: &Path, definition: &str) -> bool {
    let source = library.with_extension("c");
    fs::write(&source, TOOL).unwrap();
    let built = Command::new("cc")
        .args([
            "-shared",
            "-fPIC",
            "-Wall",
            "-Werror",
            "-Wno-cast-function-type",
        ])
        .args([definition, "-o"])
        .args([library, &source])
        .output();
    let Ok(output) = built else {
        skip("no C compiler");
        return false;
    };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    true
}

/// Runs the child with the library in the environment. Returns the calls that the library saw.
fn calls_of_child(library: &Path, log: &Path, variables: &[(&str, &str)]) -> Vec<String> {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "nvtx::child_with_ranges"])
        .env("NVTX_INJECTION64_PATH", library)
        .env("NVTX_TEST_LOG", log)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
    let log = fs::read_to_string(log).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "runs in its own process, with a library in the environment"]
fn child_with_ranges() {
    let fixture = software(Builder::new());
    let profiler = Profiler::start(&fixture.context).unwrap();
    let sum = profiler.range("step 1", || {
        1 + profiler.range("forward\0hidden", || nvtx_range("layer é", || 2))
    });
    assert_eq!(sum, 3);
    let caught = std::panic::catch_unwind(|| nvtx_range("panics", || panic!("on purpose")));
    assert!(caught.is_err());
    let profile = profiler.finish().unwrap();
    let names: Vec<_> = profile.ranges().iter().map(|it| it.name()).collect();
    assert_eq!(names, ["step 1", "forward\0hidden"]);
    println!("{}", NvtxTool::attached().is_some());
}

#[test]
fn a_tool_sees_the_ranges_of_the_profiler() {
    let folder = tempfile::tempdir().unwrap();
    let (library, log) = (folder.path().join("tool.so"), folder.path().join("log"));
    if !build(&library, "-DRESULT=1") {
        return;
    }
    let expected = [
        "version 3",
        "push step 1",
        "push forward",
        "push layer é",
        "pop",
        "pop",
        "pop",
        "push panics",
        "pop",
    ];
    assert_eq!(calls_of_child(&library, &log, &[]), expected);
    // A tool may implement only some functions.
    fs::remove_file(&log).unwrap();
    let calls = calls_of_child(&library, &log, &[("NVTX_TEST_NO_POP", "1")]);
    assert_eq!(calls.len(), 5, "{calls:?}");
}

#[test]
fn ranges_work_without_a_tool() {
    let folder = tempfile::tempdir().unwrap();
    let (library, log) = (folder.path().join("tool.so"), folder.path().join("log"));
    assert!(calls_of_child(Path::new(""), &log, &[]).is_empty());
    assert!(calls_of_child(&folder.path().join("missing.so"), &log, &[]).is_empty());
    // A tool that fails to initialize is not called.
    if build(&library, "-DRESULT=0") {
        assert_eq!(calls_of_child(&library, &log, &[]), ["version 3"]);
    }
}
