#!/usr/bin/env python3
"""Runs the tests of cuda-ptx with the break that each patch in this folder makes.

A break in this folder is found if a thread of a random kernel leaves the bounds that the broken
analysis proved. A break in `liberties` is found if a test fails. `cargo xtask full breaks` runs this
script; README.md describes the patches.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]


def module_of(path):
    """Loads a script that is not in the search path."""
    spec = importlib.util.spec_from_file_location("mutants", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MUTANTS = module_of(ROOT / "crates/cuda-driver/tests/mutants/run.py")

# The integration tests, reduced to the random kernels.
MAIN = "//! The random kernels.\n#![allow(warnings)]\nmod fuzz;\n"


def programs(text, first):
    """Returns the number of programs from the seed `first` to the first failing one, or None.

    >>> programs("thread panicked:\\nCUDA_SEED=17: access 3\\nCUDA_SEED=9: access 4", 5)
    5
    >>> programs("1000 programs", 0)
    """
    seeds = re.findall(r"^CUDA_SEED=(\d+): ", text, re.MULTILINE)
    return min(map(int, seeds)) + 1 - first if seeds else None


# The tests that know a liberty of the assembler, or a rule that follows from one.
TESTS = ["liberties::attacks", "liberties::judge::analysis", "floats::", "known::", "canonical::"]


def failed(text):
    """Returns the names of the tests that failed.

    >>> failed("test a::b ... FAILED\\ntest a::c ... ok\\ntest a::d ... FAILED")
    ['a::b', 'a::d']
    """
    return re.findall(r"^test (\S+) \.\.\. FAILED", text, re.MULTILINE)


class Copy(MUTANTS.Copy):
    """A copy of the workspace, with the random kernels as its only test of cuda-ptx."""

    def restore(self):
        self.git("read-tree", "--reset", "-u", self.contents)
        (self.tree / "crates/cuda-ptx/tests/it/main.rs").write_text(MAIN)

    def test(self, cargo):
        """Runs the tests of the rules, and returns the names of those that failed."""
        self.git("checkout-index", "--force", "crates/cuda-ptx/tests/it/main.rs")
        command = f"{cargo} test -p cuda-ptx --lib --test it --no-fail-fast --"
        env = {**os.environ, "CARGO_TARGET_DIR": str(self.folder / "build")}
        env.update(CARGO_PROFILE_DEV_DEBUG="none", RUSTFLAGS="-A warnings", RUST_BACKTRACE="0")
        command = [*command.split(" "), *TESTS]
        done = subprocess.run(command, cwd=self.tree, env=env, capture_output=True, text=True)
        names = failed(done.stdout)
        if not names and done.returncode != 0:
            sys.exit(f"the tests did not run:\n{done.stderr[-2000:]}")
        return names

    def build(self, cargo):
        """Builds the random kernels and returns the path of the test program."""
        command = f"{cargo} test --release -p cuda-ptx --test it --no-run --quiet"
        command = [*command.split(" "), "--message-format=json-render-diagnostics"]
        env = {**os.environ, "CARGO_TARGET_DIR": str(self.folder / "build")}
        env.update(CARGO_PROFILE_RELEASE_DEBUG="none", RUSTFLAGS="-A warnings")
        messages = map(json.loads, MUTANTS.output(command, cwd=self.tree, env=env).splitlines())
        return [it["executable"] for it in messages if it.get("executable")][-1]

    def run(self, program, first, count):
        """Runs `count` random kernels. Returns how many it took until one failed, or None."""
        env = {**os.environ, "RUST_BACKTRACE": "0"}
        env.update(CUDA_SEED=str(first), CUDA_PTX_PROGRAMS=str(count))
        command = [program, "--nocapture", "fuzz::proven"]
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        folder = self.tree / "crates/cuda-ptx"
        done = subprocess.run(command, cwd=folder, env=env, **options)
        number = programs(done.stderr, first)
        if number is None and done.returncode != 0:
            sys.exit(f"the random kernels failed without a seed:\n{done.stderr[-2000:]}")
        return number


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--cargo", default="cargo", help="the cargo that builds")
    options.add_argument("--target", type=Path, default=ROOT / "target", help="the target folder")
    options.add_argument("--only", default="", help="run the patches whose names contain this")
    options.add_argument("--seed", type=int, default=0, help="the seed of the first kernel")
    options.add_argument("--programs", type=int, default=100_000, help="the number of kernels")
    options = options.parse_args()

    copy = Copy(options.target / "breaks")
    patches = [path for path in sorted(HERE.glob("*.patch")) if options.only in path.stem]
    survivors = []
    for path in patches:
        copy.restore()
        copy.git("apply", str(path))
        found = copy.run(copy.build(options.cargo), options.seed, options.programs)
        print(f"{path.stem:<28} {f'{found:,} kernels' if found else 'NOT FOUND'}", flush=True)
        survivors += [] if found else [path.stem]
    rules = [path for path in sorted(HERE.glob("liberties/*.patch")) if options.only in path.stem]
    for path in rules:
        copy.restore()
        copy.git("apply", str(path))
        names = copy.test(options.cargo)
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        print(f"{path.stem:<28} {names[0] + more if names else 'NOT FOUND'}", flush=True)
        survivors += [] if names else [path.stem]
    copy.restore()
    if survivors:
        sys.exit(f"nothing finds {', '.join(survivors)}")
    print(f"found all of {len(patches) + len(rules)}")


if __name__ == "__main__":
    main()
