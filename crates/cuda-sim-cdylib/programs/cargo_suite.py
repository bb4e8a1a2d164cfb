"""Tests of a crate from its registry. Each test runs in a process of its own, because a lost device
stays lost for its process."""

import json
import os
import subprocess

from process import Process


def run(options, suite, is_chosen):
    """Returns the outcome of each test of the crate, and the output of those that failed."""
    source = fetch(options, suite)
    outcomes, output, calls = {}, {}, 0
    for group, program in build(options, suite, source):
        if not is_chosen(group):
            continue

        def start(*arguments):
            env = {"CUDA_SIM_LOG": "calls"}
            # Tests may include headers of the toolkit, which NVRTC searches for in the current
            # folder, too.
            cwd = options.include if suite.cwd == "include" else source
            return Process(options, suite, [program, *arguments], cwd=cwd, env=env)

        listed = start("--list", "--include-ignored").lines
        tests = [line.removesuffix(": test") for line in listed if line.endswith(": test")]
        for test in tests:
            name = f"{group}::{test}"
            if name in suite.timed and not options.full:
                continue
            result = start("--exact", test, "--include-ignored", "--test-threads=1")
            calls += result.calls
            outcomes[name] = "passed" if result.succeeded else "failed"
            output[name] = result.end()
    if calls == 0:
        raise RuntimeError(f"{suite.name}: the tests did not use the software driver")
    print(f"{suite.name}: {calls} calls of the driver")
    return outcomes, output


def cargo(*arguments, **keywords):
    # RUSTFLAGS for this workspace may not be suitable for another one.
    env = {name: value for name, value in os.environ.items() if name != "RUSTFLAGS"}
    command = [os.environ.get("CARGO", "cargo"), *map(str, arguments)]
    return subprocess.run(command, check=True, env=env, **keywords)


def fetch(options, suite):
    """Returns the folder with the source of the crate."""
    vendor = options.dir / "vendor"
    source = vendor / f"{suite.crate}-{suite.version}"
    # cargo writes this file when a package is complete.
    checksums = source / ".cargo-checksum.json"
    if not checksums.is_file():
        asking = options.dir / "fetch"
        asking.mkdir(parents=True, exist_ok=True)
        (asking / "lib.rs").write_text("")
        (asking / "Cargo.toml").write_text(
            '[workspace]\n[package]\nname = "fetch"\nedition = "2021"\n[lib]\npath = "lib.rs"\n'
            f'[dependencies]\n{suite.crate} = {{ version = "={suite.version}",'
            " default-features = false }\n"
        )
        vendoring = ["vendor", "--quiet", "--versioned-dirs", "--no-delete"]
        manifest = ["--manifest-path", asking / "Cargo.toml"]
        cargo(*vendoring, *manifest, vendor, stdout=subprocess.DEVNULL)
    found = json.loads(checksums.read_text())["package"]
    if found != suite.sha256:
        raise RuntimeError(f"{suite.crate} {suite.version} has the hash {found}, not {suite.sha256}")
    return source


def build(options, suite, source):
    """Builds the tests. Returns the name and the path of each test program."""
    print(f"{suite.name}: building", flush=True)
    test = ["test", "--locked", "--no-run", "--message-format=json-render-diagnostics"]
    places = ["--manifest-path", source / "Cargo.toml", "--target-dir", options.dir / "build"]
    built = cargo(*test, *suite.build, *places, stdout=subprocess.PIPE)
    for message in map(json.loads, built.stdout.splitlines()):
        if program := message.get("executable"):
            target = message["target"]
            yield "lib" if "lib" in target["kind"] else target["name"], program
