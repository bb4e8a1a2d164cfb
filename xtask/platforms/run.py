#!/usr/bin/env python3
"""Runs the tests of the libraries with a sanitizer, in another program, or for another system.

`cargo xtask sanitize`, `valgrind`, `wine`, `arm` and `targets` run this script. The settings of
cargo are in <suite>.toml. cargo starts each test program through runner.py. The standard library
is rebuilt for each suite except valgrind.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import toolchain
from toolchain import require

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

LINUX = "x86_64-unknown-linux-gnu"
TARGETS = {
    "address": LINUX,
    "thread": LINUX,
    "valgrind": LINUX,
    "wine": "x86_64-pc-windows-gnu",
    "arm": "aarch64-unknown-linux-gnu",
}
# The targets of `targets`, which need a linker of their own.
LINKED_ELSEWHERE = ["aarch64-apple-darwin", "x86_64-apple-darwin", "x86_64-pc-windows-msvc"]

# The packages whose tests concern code at run time. The others run at build time.
PACKAGES = ["cuda-sys", "cuda-sim", "cuda-nvrtc", "cuda-driver", "cuda-conformance"]
# Valgrind is too slow for NVRTC.
IN_VALGRIND = ["cuda-sys", "cuda-sim", "cuda-driver", "cuda-conformance"]

VALGRIND = [
    "valgrind",
    "--error-exitcode=99",
    "--leak-check=no",
    "--fair-sched=yes",
    # The longest basic blocks of the interpreter exceed what valgrind can translate at once.
    "--vex-guest-max-insns=20",
    "--quiet",
]


def features(packages):
    """Returns the features without bindgen, which needs a C compiler's headers for each target.

    Features of a package that is not selected would be an error.

    >>> features(["cuda-sys"])
    ['--no-default-features']
    >>> features(["cuda-sys", "cuda-driver"])[1]
    '--features=cuda-driver/derive,cuda-driver/half,cuda-driver/nvrtc'
    """
    driver = ["--features=cuda-driver/derive,cuda-driver/half,cuda-driver/nvrtc"]
    return ["--no-default-features", *(driver if "cuda-driver" in packages else [])]


def run(command, env=None):
    """Runs a command. Ends the script if it fails."""
    if subprocess.run(command, cwd=ROOT, env=env).returncode != 0:
        sys.exit(f"`{' '.join(map(str, command))}` failed")


class Suite:
    """The settings of cargo for a suite and a target."""

    def __init__(self, name, target, cargo, folder):
        self.cargo, self.folder = cargo, folder / name
        self.settings = ["--target", target, "--config", f"xtask/platforms/{name}.toml"]
        self.env = {**os.environ, "CARGO_TARGET_DIR": str(self.folder)}
        if name != "valgrind":
            self.require_toolchain(name)
            self.settings.append(toolchain.BUILD_STD)
            self.env.update(toolchain.BOOTSTRAP)

    def require_toolchain(self, name):
        rustlib = toolchain.rustlib()
        found = toolchain.has_source(rustlib)
        require("the source of the standard library", found, "rustup component add rust-src")
        runtime = {"address": "asan", "thread": "tsan"}.get(name)
        found = runtime is None or any((rustlib / LINUX / "lib").glob(f"*_rt.{runtime}.a"))
        require("the library of the sanitizer", found, "rustup component add rust-std")

    def command(self, name, *args):
        run([self.cargo, name, *self.settings, *args], self.env)

    def test(self, target, runner, packages, test):
        """Builds and runs the tests of `packages`, or only the integration test `test`."""
        runner = ["python3", str(HERE / "runner.py"), *runner]
        self.env["XTASK_LOGS"] = str(self.folder / "logs")
        Path(self.env["XTASK_LOGS"]).mkdir(parents=True, exist_ok=True)
        config = [f"--config=target.{target}.runner={json.dumps(runner)}", "--no-fail-fast"]
        tests = ["--test", test] if test else ["--lib", "--tests"]
        selected = [f"-p={package}" for package in packages]
        self.command("test", *config, *tests, *selected, *features(packages))


def prepare_wine(suite):
    """Makes the libraries that tests load in Wine, and returns the runner."""
    wine = toolchain.wine()
    libraries = suite.folder / "libraries"
    libraries.mkdir(parents=True, exist_ok=True)
    toolchain.build_random(libraries)
    suite.command("build", "-p=cuda-sim-cdylib", "--no-default-features")
    driver = libraries / "nvcuda.dll"
    shutil.copy(suite.folder / TARGETS["wine"] / "debug/cuda_sim_driver.dll", driver)
    suite.env["WINEPREFIX"] = str(suite.folder / "prefix")
    suite.env["WINEPATH"] = f"Z:{libraries}"
    # The search for a driver does not include the folders of PATH.
    suite.env["CUDA_DRIVER_LIBRARY"] = f"Z:{driver}"
    return [wine]


def prepare_arm():
    """Checks that the kernel starts programs for Arm in qemu, as tests that start others need."""
    found = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64").exists()
    packages = "qemu-user qemu-user-binfmt binfmt-support"
    install = f"apt-get install --no-install-recommends {packages}"
    require("qemu-aarch64, registered for programs for Arm,", found, install)
    toolchain.require_compiler(TARGETS["arm"])


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("suite", choices=[*TARGETS, "targets"])
    options.add_argument("-p", dest="packages", action="append", help="test only this package")
    options.add_argument("--test", help="run only this integration test")
    options.add_argument("--cargo", default="cargo", help="the cargo that builds")
    options.add_argument("--target", type=Path, default=ROOT / "target", help="the target folder")
    options = options.parse_args()

    name = options.suite
    if name == "targets":
        packages = ["cuda-sim-cdylib", *PACKAGES]
        for target in LINKED_ELSEWHERE:
            print(f"\n-- {target}")
            suite = Suite(name, target, options.cargo, options.target)
            suite.command("check", *[f"-p={package}" for package in packages], *features(packages))
        print(f"\n{len(LINKED_ELSEWHERE)} targets compiled")
        return

    suite = Suite(name, TARGETS[name], options.cargo, options.target)
    suite.env["XTASK_SUITE"] = name
    runner, packages = [], options.packages or PACKAGES
    if name == "valgrind":
        require("valgrind", shutil.which("valgrind"), "apt-get install valgrind")
        runner, packages = VALGRIND, options.packages or IN_VALGRIND
    elif name == "wine":
        runner = prepare_wine(suite)
    elif name == "arm":
        prepare_arm()
    elif name == "thread":
        suppressions = HERE / "thread-suppressions.txt"
        suite.env["TSAN_OPTIONS"] = f"suppressions={suppressions}:history_size=4"
    suite.test(TARGETS[name], runner, packages, options.test)


if __name__ == "__main__":
    main()
