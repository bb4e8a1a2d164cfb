"""Tests of crates from their registry. Each test runs in a process of its own, because a lost device
stays lost for its process."""

import concurrent.futures
import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import replacements
from process import Process
from python_suite import HERE, Python
from suite import SUITES


class Crates:
    """What the builds and the tests of a suite need."""

    def __init__(self, options, suite):
        self.options, self.suite = options, suite
        headers = ["cc", "-print-file-name=include"]
        headers = subprocess.run(headers, check=True, stdout=subprocess.PIPE, text=True).stdout
        self.places = {
            "compiler_headers": headers.strip(),
            "driver": options.driver,
            "here": HERE,
            "path": os.environ["PATH"],
            "setup": options.setup,
            "stand_ins": replacements.folder(options, suite),
        }
        if (SUITES / f"{suite.name}.requirements.txt").is_file():
            python = Python(options, suite)
            python.install()
            self.places = {**python.places(), **self.places}
        replacements.build(options, suite)

    def environment(self, table):
        """Returns a table of variables of the entry, with the folders that it names."""
        table = getattr(self.suite, table, {})
        return {name: value.format(**self.places) for name, value in table.items()}

    def build(self, crate, source):
        """Builds the tests of a crate. Returns the path of each test program."""
        print(f"{self.suite.name}: building {crate}", flush=True)
        test = ["test", "--locked", "--no-run", "--message-format=json-render-diagnostics"]
        folder = self.options.dir / "build"
        places = ["--manifest-path", source / "Cargo.toml", "--target-dir", folder]
        env = self.environment("build_env")
        built = cargo(*test, *self.suite.build, *places, stdout=subprocess.PIPE, env=env)
        programs = {}
        for message in map(json.loads, built.stdout.splitlines()):
            if program := message.get("executable"):
                target = message["target"]
                name = "lib" if "lib" in target["kind"] else target["name"]
                if target["kind"] != ["example"]:
                    programs[f"{crate}/{name}"] = program
        return programs

    def start(self, source, program, *arguments):
        # Tests that run cargo need the variables of the build, and the first two below, which
        # `cargo test` sets.
        env = {
            **self.environment("build_env"),
            "CARGO_MANIFEST_DIR": str(source),
            "CARGO_TARGET_DIR": str(self.options.dir / "build"),
            "CUDA_SIM_LOG": "calls",
            "RUST_BACKTRACE": "0",
            **self.environment("env"),
        }
        # Tests may include headers of the toolkit, which NVRTC searches for in the current folder,
        # too.
        is_include = getattr(self.suite, "cwd", None) == "include"
        cwd = self.options.include if is_include else source
        return Process(self.options, self.suite, [program, *arguments], cwd=cwd, env=env)


def run(options, suite, is_chosen):
    """Returns the outcome of each test of the crates, and the output of those that failed."""
    crates = Crates(options, suite)
    tests, outcomes = [], {}
    for crate, hash_ in suite.crates.items():
        source = fetch(options, crate, suite.version, hash_)
        if hasattr(suite, "program"):
            source = program_of(options, suite.program, source)
        for group, program in crates.build(crate, source).items():
            if is_chosen(group):

                def listed(flag):
                    lines = crates.start(source, program, "--list", flag).lines
                    lines = [line for line in lines if line.endswith(": test")]
                    return [line.removesuffix(": test") for line in lines]

                only = getattr(suite, "only", "")
                names = [name for name in listed("--include-ignored") if only in name]
                if getattr(suite, "skip_ignored", False):
                    ignored = listed("--ignored")
                    outcomes |= {f"{group}::{name}": "skipped" for name in names if name in ignored}
                    names = [name for name in names if name not in ignored]
                tests += [(f"{group}::{name}", source, program, name) for name in names]

    def run_test(named):
        name, source, program, test = named
        flags = ["--exact", test, "--include-ignored", "--test-threads=1"]
        return name, crates.start(source, program, *flags)

    left_out = getattr(suite, "left_out", [])
    tests = [test for test in tests if test[0] not in left_out]
    tests = [test for test in tests if options.full or test[0] not in suite.timed]
    # Tests that compare times run alone, at the end.
    together = [test for test in tests if test[0] not in suite.timed]
    alone = [test for test in tests if test[0] in suite.timed]
    output, calls = {}, 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for results in [pool.map(run_test, together), map(run_test, alone)]:
            for name, result in results:
                calls += result.calls
                outcomes[name] = "passed" if result.succeeded else "failed"
                output[name] = result.end()
    # A group may have only tests of the compiler.
    if calls == 0 and not options.group:
        raise RuntimeError(f"{suite.name}: the tests did not use the software driver")
    print(f"{suite.name}: {calls} calls of the driver")
    return outcomes, output


def cargo(*arguments, env=(), **keywords):
    # RUSTFLAGS for this workspace may not be suitable for another one.
    inherited = {name: value for name, value in os.environ.items() if name != "RUSTFLAGS"}
    command = [os.environ.get("CARGO", "cargo"), *map(str, arguments)]
    return subprocess.run(command, check=True, env={**inherited, **dict(env)}, **keywords)


def fetch(options, crate, version, expected):
    """Returns the folder with the source of a crate, whose hash cargo checks."""
    source = options.dir / "crates" / f"{crate}-{version}"
    if source.is_dir():
        return source
    asking = options.dir / "fetch"
    shutil.rmtree(asking, ignore_errors=True)
    asking.mkdir(parents=True)
    (asking / "lib.rs").write_text("")
    manifest = asking / "Cargo.toml"
    manifest.write_text(
        '[workspace]\n[package]\nname = "fetch"\nedition = "2021"\n[lib]\npath = "lib.rs"\n'
        f'[dependencies]\n{crate} = {{ version = "={version}", default-features = false }}\n'
    )
    asked = ["metadata", "--format-version=1", "--manifest-path", manifest]
    found = json.loads(cargo(*asked, stdout=subprocess.PIPE).stdout)["packages"]
    locked = tomllib.loads((asking / "Cargo.lock").read_text())["package"]

    def is_it(package):
        return (package["name"], package["version"]) == (crate, version)

    (hash_,) = [package["checksum"] for package in locked if is_it(package)]
    if hash_ != expected:
        raise RuntimeError(f"{crate} {version} has the hash {hash_}, not {expected}")
    (manifest,) = [package["manifest_path"] for package in found if is_it(package)]
    new = source.with_name(f"{source.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(Path(manifest).parent, new)
    new.rename(source)
    return source


def program_of(options, name, crate):
    """Returns the folder with a copy of a program of this repository that uses a crate. Its
    dependencies have the versions and hashes of the Cargo.lock of the crate."""
    source = options.dir / "crates" / f"program-{name}"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(HERE / "rust" / name, source)
    lock = source / "Cargo.lock"
    shutil.copy(crate / "Cargo.lock", lock)
    pinned = tomllib.loads(lock.read_text())["package"]
    # This adds the program and the crate, and removes what they do not use.
    cargo("fetch", "--manifest-path", source / "Cargo.toml")

    def key(package):
        return package["name"], package["version"], package.get("checksum")

    known = {key(package) for package in pinned}
    used = [key(package) for package in tomllib.loads(lock.read_text())["package"]]
    # The program has no hash, and `fetch` has compared that of the crate.
    new = [package for package in used if package not in known]
    if len(new) != 2:
        raise RuntimeError(f"{name}: the Cargo.lock of {crate.name} does not pin all of {new}")
    return source
