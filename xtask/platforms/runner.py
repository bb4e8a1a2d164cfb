#!/usr/bin/env python3
"""Runs a test program in pieces: a few tests in each process, each process with a time limit.

The tasks that test with a sanitizer, in another program or for another system set this script as
the runner of cargo's target. Its arguments are the command that runs the test program. It skips
the tests that skips.txt lists for the suite in XTASK_SUITE, and writes a log to XTASK_LOGS.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

# The number of tests in one process. It is small because qemu keeps a record of every address that
# was ever reserved, so that a test with hundreds of software drivers needs several GiB.
PIECE = 10

# The time limit of a process, in seconds.
LIMIT = 2700


def skips(text, suite, package):
    """Returns what the lines of skips.txt skip: parts of names of tests, with the reason for each.

    >>> skips("# text\\nwine,arm cuda-sim a::b takes long\\narm cuda-sys c is d", "arm", "cuda-sim")
    {'a::b': 'takes long'}
    """
    lines = [line.split(" ", 3) for line in text.splitlines() if not line.startswith("#")]
    lines = [line for line in lines if suite in line[0].split(",") and line[1] == package]
    return {part: reason for _, _, part, reason in lines}


def passed(text):
    """Returns the number of passed tests in the output of a test program.

    >>> passed("test a ... ok\\ntest result: ok. 12 passed; 0 failed; 1 ignored")
    12
    """
    return sum(map(int, re.findall(r"test result: .*?(\d+) passed", text)))


def run(command, path):
    """Runs a process and appends its output to a log. Returns its output and what went wrong."""
    with path.open("ab") as log:
        start = log.tell()
        options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "timeout": LIMIT}
        try:
            code = subprocess.run(command, **options).returncode
            problem = f"exit status {code}" if code != 0 else None
        except subprocess.TimeoutExpired:
            problem = f"not finished after {LIMIT} s"
    return path.read_bytes()[start:].decode(errors="replace"), problem


def main():
    command = sys.argv[1:]
    package = os.environ["CARGO_PKG_NAME"]
    listed = subprocess.run([*command, "--list"], stdout=subprocess.PIPE, check=True)
    lines = listed.stdout.decode(errors="replace").splitlines()
    tests = [line[: -len(": test")] for line in lines if line.endswith(": test")]
    text = Path(__file__).with_name("skips.txt").read_text()
    parts = skips(text, os.environ["XTASK_SUITE"], package)
    chosen = [test for test in tests if not any(part in test for part in parts)]

    name = Path(command[-1]).stem
    log = Path(os.environ["XTASK_LOGS"]) / f"{package}-{name}.txt"
    log.write_bytes(b"")
    count = failed = 0
    for at in range(0, len(chosen), PIECE):
        piece = chosen[at : at + PIECE]
        output, problem = run([*command, "--exact", *piece], log)
        count += passed(output)
        if problem:
            failed += 1
            print(f"{' '.join(piece)}: {problem}")
            bad = [line for line in output.splitlines() if line.endswith("... FAILED")]
            print("".join(f"  {line}\n" for line in bad), end="", flush=True)
    skipped = len(tests) - len(chosen)
    print(f"{package} {name}: {count} passed, {failed} processes failed, {skipped} skipped")
    for part, reason in parts.items():
        if any(part in test for test in tests):
            print(f"  skipped: {part} {reason}")
    if failed:
        sys.exit(f"see {log}")


if __name__ == "__main__":
    main()
