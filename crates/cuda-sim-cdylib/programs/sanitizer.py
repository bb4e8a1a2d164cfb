"""The driver library with AddressSanitizer, in programs that were built without it.

The library lacks the runtime library of the sanitizer, so `LD_PRELOAD` names that of the C
compiler. It replaces the allocator of the program. So it detects wrong accesses by the driver
library to its own memory and to that of the program, and wrong frees by both.
"""

import os
import shutil
import subprocess

TARGET = "x86_64-unknown-linux-gnu"
# The optimization of `cargo xtask sanitize`: a higher one takes minutes to compile.
PROFILE = ["profile.dev.opt-level=1", "profile.dev.package.cuda-sim.opt-level=1"]
# Leak detection is off because programs and the driver keep memory until their end.
OPTIONS = "detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=1"


def preloaded():
    """Returns the libraries to preload: the runtime library of the C compiler, and the C++ library.
    Without the second, the first does not find the function that throws C++ exceptions.
    """
    compiler = os.environ.get("CC", "cc")

    def library(name):
        command = [compiler, f"-print-file-name={name}"]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    runtime = library("libasan.so")
    if not os.path.isabs(runtime):
        raise RuntimeError(f"{compiler} has no libasan.so; install GCC and its sanitizers")
    return f"{os.path.realpath(runtime)} {library('libstdc++.so.6')}"


def build(options, command, cwd):
    """Builds the driver library. Returns its path."""
    folder = options.target / "programs-address"
    configuration = [part for line in PROFILE for part in ["--config", line]]
    # A stable compiler accepts -Z only with RUSTC_BOOTSTRAP.
    env = {
        **os.environ,
        "CARGO_TARGET_DIR": str(folder),
        "RUSTC_BOOTSTRAP": "1",
        "RUSTFLAGS": "-Zsanitizer=address",
    }
    subprocess.run([*command, "--target", TARGET, *configuration], check=True, cwd=cwd, env=env)
    return folder / TARGET / "debug/libcuda_sim_driver.so"


def logs(options, suite):
    """Returns the folder of the reports of a suite."""
    return options.dir / suite.name / "sanitizer"


def environment(options, suite):
    """Returns the variables for a process. Each process writes its reports to a file of its own,
    because tests may discard the output of a process."""
    folder = logs(options, suite)
    folder.mkdir(parents=True, exist_ok=True)
    return {"LD_PRELOAD": preloaded(), "ASAN_OPTIONS": f"{OPTIONS}:log_path={folder}/report"}


def clear(options, suite):
    """Removes the reports of an earlier run."""
    shutil.rmtree(logs(options, suite), ignore_errors=True)


def reports(options, suite):
    """Returns a line for each report, with the first lines of it."""
    found = sorted(logs(options, suite).glob("report.*"))
    lines = []
    for path in found:
        text = path.read_text(errors="replace").splitlines()
        wanted = [line for line in text if line.strip() and not line.startswith("=====")]
        lines.append("\n    ".join([f"AddressSanitizer, {path}:", *wanted[:12]]))
    return lines
