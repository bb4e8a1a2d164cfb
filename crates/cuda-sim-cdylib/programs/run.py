"""Runs unmodified third-party test suites on the software device as a driver library.

`cargo xtask full programs` and `cargo xtask ci` start this script. It builds the driver library,
installs each suite of the folder `suites` in `target/programs`, runs it, and compares the outcome
of each test with what is expected. suite.py describes the files of a suite.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path

import sanitizer

ROOT = Path(__file__).resolve().parents[3]
TABLE = ROOT / "docs/other-suites.md"
BEGIN, END = "<!-- begin: run.py --table write -->\n", "<!-- end -->\n"


def build_driver(options):
    """Builds the software driver and copies it to the folder `options.driver`."""
    command = [options.cargo, "build", "-p", "cuda-sim-cdylib"]
    if options.sanitizer:
        built = sanitizer.build(options, command, cwd=ROOT)
    else:
        command += ["--release"] if options.full else []
        subprocess.run([*command, "--target-dir", options.target], check=True, cwd=ROOT)
        profile = "release" if options.full else "debug"
        built = options.target / profile / "libcuda_sim_driver.so"
    options.driver.mkdir(parents=True, exist_ok=True)
    for name in ["libcuda.so", "libcuda.so.1"]:
        # The file is replaced by renaming, because a program may have the old one open.
        new = options.driver / "new"
        shutil.copy(built, new)
        new.replace(options.driver / name)


def build_companion(options):
    """Builds the libnvrtc that gives PTX in place of machine code, for NVRTC 12 and 13."""
    options.companion.mkdir(parents=True, exist_ok=True)
    source = Path(__file__).parent / "companion/nvrtc.c"
    compiler = os.environ.get("CC", "cc")
    for name in ["libnvrtc.so.12", "libnvrtc.so.13"]:
        flags = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{name}"]
        command = [compiler, *flags, source, "-o", options.companion / name, "-ldl"]
        subprocess.run(command, check=True)


def run_suite(options, suite):
    """Runs one suite. Returns whether all outcomes are as expected."""
    import cargo_suite
    import python_suite
    from suite import UNKNOWN, expected_file, in_words

    runners = {
        "cargo": cargo_suite.run,
        "pytest": python_suite.run_pytest,
        "scripts": python_suite.run_scripts,
    }
    start = time.monotonic()
    sanitizer.clear(options, suite)
    if getattr(suite, "companion", False):
        build_companion(options)

    def is_chosen(group):
        return suite.chosen(group, options.full, options.group)

    outcomes, output = runners[suite.runner](options, suite, is_chosen)
    for test, outcome in sorted(outcomes.items()):
        cause = suite.causes.get(test, UNKNOWN)
        if outcome == "failed" and test not in suite.timed and cause.startswith(UNKNOWN):
            print(f"== {test}: {output[test]}")
    changes = suite.changes(outcomes, is_chosen)
    if options.sanitizer:
        changes += sanitizer.reports(options, suite)
    for change in changes:
        print(f"{suite.name}: {change}")
    if options.record:
        expected_file(suite.name).write_text(suite.record(outcomes, is_chosen))
    numbers = [list(outcomes.values()).count(outcome) for outcome in ["passed", "failed", "skipped"]]
    chosen = sum(is_chosen(group) for group in suite.counts)
    print(
        f"{suite.name} {suite.version}, {chosen} of {len(suite.counts)} groups: {in_words(numbers)};"
        f" {len(changes)} changes; {time.monotonic() - start:.0f} s",
        flush=True,
    )
    return options.record or not changes


def table(suites):
    """Returns the tables of the suites and of the causes in Markdown."""
    lines = ["| program | what runs | pass | fail | skip | in CI |", "|---|---|---|---|---|---|"]
    causes = ["", "| program | failing tests | cause |", "|---|---|---|"]
    for suite in suites:
        title = f"{suite.title} {suite.version}"
        if suite.setting:
            title += f" ({suite.setting})"
        passed, failed, skipped = suite.total()
        in_ci = sum(sum(suite.counts[group]) for group in suite.ci) or "–"
        lines.append(f"| {title} | {suite.what} | {passed} | {failed} | {skipped} | {in_ci} |")
        causes += [f"| {title} | {n} | {cause} |" for cause, n in suite.by_cause()]
    return "".join(f"{line}\n" for line in lines + causes)


def is_as_expected(options, suite):
    """Runs one suite as `run_suite` does. A suite that cannot run does not stop the next ones."""
    try:
        return run_suite(options, suite)
    except Exception:
        traceback.print_exc(file=sys.stdout)
        print(f"error: {suite.name} did not run to its end")
        return False


def check_table(suites, is_written):
    """Compares the tables in the documentation, or writes them."""
    text = TABLE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    current = f"{before}{BEGIN}\n{table(suites)}\n{END}{after}"
    if is_written:
        TABLE.write_text(current)
    elif current != text:
        name, script = (path.relative_to(ROOT) for path in [TABLE, Path(__file__).resolve()])
        sys.exit(f"error: {name} is not up to date: run `python3 {script} --table write`")


def main():
    if sys.version_info < (3, 11):
        sys.exit("error: the suites are described in TOML, which requires Python 3.11 or newer")
    from checkouts import by_commit, is_without_checkout
    from suite import all_suites

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cargo", default="cargo", help="the cargo that builds")
    parser.add_argument("--target", type=Path, default=ROOT / "target", help="the target folder")
    parser.add_argument("--setup", type=Path, help="the folder of NVRTC and headers")
    parser.add_argument("--full", action="store_true", help="all groups of all suites")
    parser.add_argument("--only", default="", help="the suites whose names contain this text")
    parser.add_argument("--group", default="", help="the groups whose names begin with this text")
    text = "a checkout of a program whose packages have no tests, at the commit that its suites name"
    parser.add_argument("--checkout", type=Path, action="append", default=[], help=text)
    text = "build the driver library with AddressSanitizer, and fail if it reports anything"
    parser.add_argument("--sanitizer", choices=["address"], help=text)
    parser.add_argument("--record", action="store_true", help="write what is expected of the suites")
    parser.add_argument("--table", choices=["check", "write"], help="only the tables in the docs")
    options = parser.parse_args()
    suites = all_suites()
    if options.table or not options.record:
        check_table(suites, options.table == "write")
    if options.table:
        return
    if options.record and options.sanitizer:
        sys.exit("error: --record describes runs without a sanitizer")
    options.checkouts = by_commit(options.checkout, suites)
    # Some programs start in a folder of their own.
    options.target = options.target.resolve()
    options.setup = (options.setup or options.target / "cuda-setup").resolve()
    options.dir = options.target / "programs"
    options.driver = options.dir / ("driver-address" if options.sanitizer else "driver")
    options.companion = options.dir / "companion"
    options.nvrtc = options.setup / "nvrtc"
    options.include = options.setup / "include"
    build_driver(options)
    suites = [suite for suite in suites if options.only in suite.name]
    chosen = [suite for suite in suites if options.full or suite.ci]
    not_run = [suite for suite in chosen if is_without_checkout(suite, options.checkouts)]
    chosen = [suite for suite in chosen if suite not in not_run]
    if not options.full:
        print(f"{len(chosen)} of {len(suites)} suites, reduced (all: cargo xtask full programs)")
    changed = [suite.name for suite in chosen if not is_as_expected(options, suite)]
    numbers = [len(chosen) - len(changed), len(changed), len(not_run)]
    print("suites: {} as expected, {} not as expected, {} not run".format(*numbers))
    for suite in not_run:
        print(f"{suite.name}: not run; it needs --checkout FOLDER with {suite.tag}")
    if changed:
        sys.exit(f"error: not as expected: {', '.join(changed)}")


if __name__ == "__main__":
    main()
