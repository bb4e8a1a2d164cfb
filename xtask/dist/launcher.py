#!/usr/bin/env python3
"""Runs a program on the software device: `cuda-sim run -- <command>`.

The program loads the software device in place of NVIDIA's driver library. This script prints the
reports of the device after the program has ended.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# The exit status of `run` if the device reported an error.
FINDINGS = 99
IS_WINDOWS = os.name == "nt"
LIBRARY = "nvcuda.dll" if IS_WINDOWS else "libcuda.so.1"
# The largest number of reports that are printed.
PRINTED = 100

EPILOG = f"""\
exit status: that of the command; {FINDINGS} if the device reported an error, whatever the command
returned; 128 plus the number of the signal if a signal ended the command
"""


def library_folder():
    """Returns the folder of the library: beside this file, or in `lib` of the archive."""
    here = Path(__file__).resolve().parent
    for folder in (here / "lib", here.parent / "lib"):
        if (folder / LIBRARY).is_file():
            return folder
    sys.exit(f"cuda-sim: {LIBRARY} is missing in {here / 'lib'}; install cuda-sim again")


def prepend(env, variable, folder):
    """Puts a folder before the others of a variable."""
    paths = [str(folder), env.get(variable, "")]
    env[variable] = os.pathsep.join(path for path in paths if path)


def environment(settings, reports):
    """Returns the environment of the program."""
    env = dict(os.environ)
    folder = library_folder()
    prepend(env, "PATH" if IS_WINDOWS else "LD_LIBRARY_PATH", folder)
    if IS_WINDOWS:
        # Python does not search PATH for libraries. sitecustomize.py in this folder loads it.
        prepend(env, "PYTHONPATH", folder / "python")
    chosen = [env.get("CUDA_SIM", ""), *settings]
    env["CUDA_SIM"] = ",".join(part for part in chosen if part not in ("", "1")) or "1"
    env["CUDA_SIM_REPORTS"] = str(reports)
    return env


def warn_of_driver():
    """Prints a warning if Windows finds NVIDIA's driver before the library in PATH."""
    driver = Path(os.environ.get("SystemRoot", "C:\\Windows"), "System32", LIBRARY)
    if IS_WINDOWS and driver.is_file():
        print(
            f"cuda-sim: programs other than Python load {driver} unless {LIBRARY} of "
            f"{library_folder()} is copied to the folder of the program",
            file=sys.stderr,
        )


def resolved(command, env):
    """Returns a command with the path of its program.

    Windows would search the folder of this Python first, and only for files with the extension exe.
    """
    found = shutil.which(command[0], path=env.get("PATH")) if IS_WINDOWS else None
    return [found or command[0], *command[1:]]


def run(options):
    warn_of_driver()
    with tempfile.TemporaryDirectory(prefix="cuda-sim-") as folder:
        reports = Path(folder) / "reports.txt"
        try:
            env = environment(options.set, reports)
            status = subprocess.call(resolved(options.command, env), env=env)
        except OSError as error:
            sys.exit(f"cuda-sim: cannot run {options.command[0]}: {error.strerror}")
        lines = []
        if reports.is_file():
            lines = reports.read_text(encoding="utf-8", errors="replace").splitlines()
    if lines:
        count = "1 report" if len(lines) == 1 else f"{len(lines)} reports"
        print(f"\ncuda-sim: {count}:", file=sys.stderr)
        for line in lines[:PRINTED]:
            print(f"  {line}", file=sys.stderr)
        if len(lines) > PRINTED:
            print(f"  and {len(lines) - PRINTED} more", file=sys.stderr)
        return FINDINGS
    return status if status >= 0 else 128 - status


def main():
    parser = argparse.ArgumentParser(prog="cuda-sim", description=__doc__.split("\n\n")[1])
    commands = parser.add_subparsers(dest="task", required=True)
    runner = commands.add_parser(
        "run",
        help="run a program on the software device",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    runner.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the device, such as check=all, devices=2 or cc=8.0; may be repeated",
    )
    runner.add_argument("command", nargs=argparse.REMAINDER, help="the command, after --")
    commands.add_parser("path", help="print the folder that has the driver library")
    options = parser.parse_args()
    if options.task == "path":
        print(library_folder())
        return 0
    if options.command[:1] == ["--"]:
        del options.command[0]
    if not options.command:
        runner.error("there is no command; write: cuda-sim run -- <command>")
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
