"""Runs unmodified third-party programs on the software device as a driver library.

`cargo xtask full programs` and `cargo xtask ci` start this script. It builds the driver library,
and installs the programs in `target/programs`:

- `vendor/`, `build/`: cudarc and its tests. Each test runs in a process of its own, because a lost
  device stays lost for its process.
- `python-<version>/`: NVIDIA's packages for Python, which the other scripts of this folder use.
  Each of these compares its results with results of the host.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

# pip chooses the versions of their dependencies.
PACKAGES = ["cuda-bindings==13.5.0", "cuda-core==1.2.2", "cuda-pathfinder==1.9.0"]
SCRIPTS = ["saxpy.py", "graph.py", "pool.py", "virtual_memory.py"]

CUDARC = "0.19.4"
# Dynamic loading makes it load the library that it finds at run time.
FEATURES = "std,driver,nvrtc,dynamic-loading,f16"
PEER = {
    "driver::result::tests::peer_transfer_contexts": "cudarc refuses to record an event in a stream"
    " of the other device's context, before it calls the driver"
}
HALF = {
    "driver::safe::launch::tests::test_launch_with_half": "it compiles for compute_53, which NVRTC"
    " 13 does not know"
}
# One build of the tests for each release of CUDA: cudarc's feature, the NVRTC, the number of tests,
# and the tests that fail on every driver, with the reason.
SUITES = [
    ("cuda-13000", "13.5", 47, PEER | HALF),
    ("cuda-12090", "12.9", 49, PEER),
]
# Tests that compare times on the host's clock. They may fail if the machine is busy.
TIMED = {
    # Two kernels on two streams must take half the time of two kernels on one stream, within a
    # fifth.
    "driver::safe::launch::tests::test_par_launch",
    # A copy from page-locked memory must be faster; here both copies are a `memcpy`.
    "driver::safe::core::tests::test_pinned_copy_is_faster",
}
# The time limit of a program in seconds, to detect hangs.
LIMIT = 300


class Run:
    """A program that has ended, with the calls that it made to the software driver."""

    def __init__(self, options, nvrtc, command, cwd=None, env=()):
        path = os.pathsep.join([options.driver, f"{options.nvrtc}/{nvrtc}/lib"])
        # Two devices; each call is logged to stderr.
        simulated = {"LD_LIBRARY_PATH": path, "CUDA_SIM": "devices=2", "CUDA_SIM_LOG": "calls"}
        try:
            done = subprocess.run(
                command,
                cwd=cwd,
                env={**os.environ, **simulated, **dict(env)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=LIMIT,
            )
            self.status, output = f"exit status {done.returncode}", done.stdout
            self.succeeded = done.returncode == 0
        except subprocess.TimeoutExpired as expired:
            self.status, output = f"it took longer than {LIMIT} s", expired.stdout or b""
            self.succeeded = False
        lines = output.decode(errors="replace").splitlines()
        self.calls = sum("cuda-sim: cu" in line for line in lines)
        self.lines = [line for line in lines if line and "cuda-sim: cu" not in line]

    def end(self):
        return "\n".join([self.status, *self.lines[-30:]])


def fail(message):
    sys.exit(f"error: {message}")


def cargo(*arguments, **keywords):
    # RUSTFLAGS for this workspace may not be suitable for another one.
    env = {name: value for name, value in os.environ.items() if name != "RUSTFLAGS"}
    command = [os.environ.get("CARGO", "cargo"), *map(str, arguments)]
    return subprocess.run(command, check=True, env=env, **keywords)


def fetch_cudarc(folder):
    """Returns the folder with the source of cudarc, from its registry."""
    source = folder / "vendor" / f"cudarc-{CUDARC}"
    # cargo writes this file when a package is complete.
    if not (source / ".cargo-checksum.json").is_file():
        asking = folder / "fetch"
        asking.mkdir(parents=True, exist_ok=True)
        (asking / "lib.rs").write_text("")
        (asking / "Cargo.toml").write_text(
            '[workspace]\n[package]\nname = "fetch"\nedition = "2021"\n[lib]\npath = "lib.rs"\n'
            f'[dependencies]\ncudarc = {{ version = "={CUDARC}", default-features = false }}\n'
        )
        manifest = asking / "Cargo.toml"
        vendor = ["vendor", "--quiet", "--versioned-dirs", "--manifest-path", manifest]
        cargo(*vendor, folder / "vendor", stdout=subprocess.DEVNULL)
    return source


def check_cudarc(options, feature, nvrtc, expected_count, failing):
    """Runs the tests of cudarc. Exactly the tests in `failing` must fail."""
    print(f"building the tests of cudarc for {feature}", flush=True)
    source = fetch_cudarc(options.dir)
    test = ["test", "--locked", "--lib", "--no-run", "--message-format=json-render-diagnostics"]
    features = ["--no-default-features", "--features", f"{FEATURES},{feature}"]
    places = ["--manifest-path", source / "Cargo.toml", "--target-dir", options.dir / "build"]
    built = cargo(*test, *features, *places, stdout=subprocess.PIPE)
    messages = map(json.loads, built.stdout.splitlines())
    program = next(found for message in messages if (found := message.get("executable")))

    # One test includes <cuda_fp16.h>, which NVRTC searches for in the current folder.
    def run(*arguments):
        return Run(options, nvrtc, [program, *arguments], cwd=options.include)

    start = time.monotonic()
    listed = run("--list", "--include-ignored").lines
    tests = [line.removesuffix(": test") for line in listed if line.endswith(": test")]
    if len(tests) != expected_count:
        fail(f"there are {len(tests)} tests, but {expected_count} were expected")
    calls, failed, left_out = 0, set(), 0
    for test in tests:
        if test in TIMED and not options.full:
            left_out += 1
            continue
        result = run("--exact", test, "--include-ignored", "--test-threads=1")
        calls += result.calls
        if not result.succeeded:
            failed.add(test)
            if test in failing:
                print(f"{test} fails as expected: {failing[test]}")
            elif test in TIMED:
                print(f"{test} fails: it compares times")
            else:
                print(f"{test} FAILED: {result.end()}")
    passed = len(tests) - left_out - len(failed)
    print(
        f"cudarc {CUDARC}, {feature}, NVRTC {nvrtc}, two devices: {passed} of {len(tests)} tests"
        f" passed, {len(failed)} failed, {left_out} left out; {calls} calls of the driver,"
        f" {time.monotonic() - start:.0f} s"
    )
    if failed - TIMED != set(failing):
        fail(f"{sorted(failing)} should have failed, but {sorted(failed - TIMED)} did")
    if calls == 0:
        fail("the tests did not use the software driver")


def check_python(options):
    """Runs the scripts that use NVIDIA's packages."""
    packages = options.dir / "python-{}.{}".format(*sys.version_info)
    stamp = packages / "versions.txt"
    if not (stamp.is_file() and stamp.read_text().split() == PACKAGES):
        packages.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--upgrade"]
        flags = ["--disable-pip-version-check", "--only-binary=:all:", "--target", str(packages)]
        env = {**os.environ, "PIP_REQUIRE_VIRTUALENV": "false", "PIP_USER": "false"}
        subprocess.run([*pip, *flags, *PACKAGES], check=True, env=env)
        stamp.write_text("\n".join(PACKAGES))
    for script in SCRIPTS:
        env = {"PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, str(Path(__file__).parent / script)]
        result = Run(options, "13.5", command, env=env)
        if not result.succeeded:
            fail(f"{script} failed: {result.end()}")
        print(f"{script}: {result.calls} calls of the driver")
        print("".join(f"    {line}\n" for line in result.lines), end="")
        if result.calls == 0:
            fail(f"{script} did not use the software driver")
    print(f"{len(SCRIPTS)} scripts passed")


def build_driver(options):
    """Builds the software driver and copies it to the folder `options.driver`."""
    command = [options.cargo, "build", "-p", "cuda-sim-cdylib"]
    command += ["--release"] if options.full else []
    subprocess.run(command, check=True, cwd=Path(__file__).parents[3])
    profile = "release" if options.full else "debug"
    built = options.target / profile / "libcuda_sim_driver.so"
    driver = Path(options.driver)
    driver.mkdir(parents=True, exist_ok=True)
    for name in ["libcuda.so", "libcuda.so.1"]:
        # The file is replaced by renaming, because a program may have the old one open.
        new = driver / "new"
        shutil.copy(built, new)
        new.replace(driver / name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cargo", default="cargo", help="the cargo that builds")
    parser.add_argument("--target", type=Path, required=True, help="the target folder")
    parser.add_argument("--setup", type=Path, required=True, help="the folder of NVRTC and headers")
    parser.add_argument("--full", action="store_true", help="both builds, and timing tests")
    options = parser.parse_args()
    options.dir = options.target / "programs"
    options.driver = str(options.dir / "driver")
    options.nvrtc = options.setup / "nvrtc"
    options.include = options.setup / "include"
    if not options.full:
        print("1 of 2 builds of cudarc's tests, without timing tests (all: cargo xtask full programs)")
    build_driver(options)
    for suite in SUITES if options.full else SUITES[:1]:
        check_cudarc(options, *suite)
    check_python(options)


if __name__ == "__main__":
    main()
