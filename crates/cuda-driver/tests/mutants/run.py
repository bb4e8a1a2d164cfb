#!/usr/bin/env python3
"""Runs the random programs of cuda-driver with the fault that each patch in this folder makes.

A fault is detected if a program fails or if the run hangs. `cargo xtask full mutants` runs this
script; README.md describes the patches.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]

# The integration tests, reduced to the random programs so that each mutant builds quickly.
MAIN = "//! The random programs.\n#![allow(warnings)]\nmod random_programs;\nmod support;\n"

# A run hangs if it takes this many times as long as the same run without a fault, and at least
# this many seconds.
HANG = 10
SHORTEST = 60
# The number of programs of a full run for each program of a reduced one.
FULL = 120


def failing_seed(text):
    """Returns the seed that the random programs report, or None.

    >>> failing_seed("thread panicked:\\nCUDA_SEED=17 fails, and\\nCUDA_SEED=9 fails")
    '17'
    >>> failing_seed("1000 programs")
    """
    found = re.search(r"^CUDA_SEED=(\d+) ", text, re.MULTILINE)
    return found and found.group(1)


def failure(command, limit, **options):
    """Runs random programs for at most `limit` seconds. Returns how they failed, or None.

    >>> failure(["sleep", "60"], 0.1)
    'a hang: not finished after 0.1 s'
    >>> failure(["sh", "-c", "echo CUDA_SEED=5 fails >&2; exit 1"], 60)
    'CUDA_SEED=5'
    >>> failure(["true"], 60)
    """
    options.update(stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=limit)
    try:
        done = subprocess.run(command, **options)
    except subprocess.TimeoutExpired:
        return f"a hang: not finished after {limit:.3g} s"
    seed = failing_seed(done.stderr)
    if seed is None and done.returncode != 0:
        sys.exit(f"the random programs failed without a seed:\n{done.stderr}")
    return seed and f"CUDA_SEED={seed}"


def chosen(names, count, day):
    """Returns `count` of `names`, others on each day.

    >>> chosen(["a", "b", "c"], 2, 0), chosen(["a", "b", "c"], 2, 1)
    (['a', 'b'], ['c', 'a'])
    """
    count = min(count, len(names))
    return [names[(day * count + at) % len(names)] for at in range(count)]


def output(command, **options):
    """Runs a command and returns its output. Ends the script if the command fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"`{' '.join(map(str, command))}` failed")
    return done.stdout.strip()


class Copy:
    """A copy of the workspace, so that the patches do not touch the workspace.

    It has all files that Git does not ignore. Files that did not change since the last copy keep
    their times, so that they are not compiled again.
    """

    def __init__(self, folder):
        self.folder = folder
        self.tree = folder / "tree"
        self.tree.mkdir(parents=True, exist_ok=True)
        env = {**os.environ, "GIT_INDEX_FILE": str(folder / "workspace.index")}
        git_dir = output(["git", "rev-parse", "--absolute-git-dir"], cwd=ROOT)
        output(["git", "add", "--all"], cwd=ROOT, env=env)
        self.contents = output(["git", "write-tree"], cwd=ROOT, env=env)
        self.git_env = {
            **os.environ,
            "GIT_DIR": git_dir,
            "GIT_WORK_TREE": str(self.tree),
            "GIT_INDEX_FILE": str(folder / "tree.index"),
        }
        self.restore()

    def git(self, *args):
        output(["git", *args], cwd=self.tree, env=self.git_env)

    def restore(self):
        """Undoes the patch that was applied last."""
        self.git("read-tree", "--reset", "-u", self.contents)
        (self.tree / "crates/cuda-driver/tests/it/main.rs").write_text(MAIN)

    def build(self, cargo):
        """Builds the random programs and returns the path of the test program."""
        command = f"{cargo} test -p cuda-driver --no-default-features --test it --no-run --quiet"
        command = [*command.split(" "), "--message-format=json-render-diagnostics"]
        env = {**os.environ, "CARGO_TARGET_DIR": str(self.folder / "build")}
        messages = map(json.loads, output(command, cwd=self.tree, env=env).splitlines())
        return [it["executable"] for it in messages if it.get("executable")][-1]

    def run(self, program, is_full, limit):
        """Runs the random programs. Returns what detected a fault, or None."""
        folder = self.tree / "crates/cuda-driver"
        env = {**os.environ, "CARGO_MANIFEST_DIR": str(folder), "RUST_BACKTRACE": "0"}
        env["CUDA_FULL"] = "1" if is_full else "0"
        command = [program, "--nocapture", "random_programs"]
        return failure(command, limit, cwd=folder, env=env)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--cargo", default="cargo", help="the cargo that builds")
    options.add_argument("--target", type=Path, default=ROOT / "target", help="the target folder")
    options.add_argument("--only", default="", help="run the mutants whose names contain this")
    options.add_argument("--few", type=int, help="run this number of mutants, others on each day")
    options = options.parse_args()

    copy = Copy(options.target.resolve() / "mutants")
    patches = {path.stem: path for path in sorted(HERE.glob("*.patch"))}
    names = [name for name in patches if options.only in name]
    if options.few is not None:
        for patch in patches.values():
            copy.git("apply", "--check", str(patch))
        print(f"{len(patches)} patches apply")
        names = chosen(names, options.few, int(time.time()) // (24 * 60 * 60))

    program = copy.build(options.cargo)
    start = time.monotonic()
    found = copy.run(program, False, None)
    limit = max(SHORTEST, HANG * (time.monotonic() - start))
    if found:
        sys.exit(f"the random programs fail without a fault: {found}")
    survivors = []
    for name in names:
        copy.restore()
        copy.git("apply", str(patches[name]))
        program = copy.build(options.cargo)
        # Most mutants fail in one of the first programs.
        found = copy.run(program, False, limit) or copy.run(program, True, FULL * limit)
        print(f"{name:<26} {f'detected by {found}' if found else 'SURVIVES'}", flush=True)
        survivors += [] if found else [name]
    copy.restore()
    if survivors:
        sys.exit(f"no random program detects {', '.join(survivors)}")
    print(f"{len(names)} of {len(patches)} mutants run, all detected")


if __name__ == "__main__":
    main()
