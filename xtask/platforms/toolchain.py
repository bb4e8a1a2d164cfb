"""The parts of a toolchain for another target: Rust's standard library, a C compiler, and Wine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

# For each target, the C compiler, which also links, and the command that installs it.
COMPILERS = {
    "x86_64-unknown-linux-gnu": ("x86_64-linux-gnu-gcc", "apt-get install gcc-x86-64-linux-gnu"),
    "aarch64-unknown-linux-gnu": ("aarch64-linux-gnu-gcc", "apt-get install gcc-aarch64-linux-gnu"),
    "x86_64-pc-windows-gnu": ("x86_64-w64-mingw32-gcc", "apt-get install gcc-mingw-w64-x86-64"),
}

# The option of cargo and the variable with which a stable compiler builds the standard library.
BUILD_STD = "-Zbuild-std"
BOOTSTRAP = {"RUSTC_BOOTSTRAP": "1"}


def require(what, found, install):
    """Ends the script if a tool is missing."""
    if not found:
        sys.exit(f"{what} is missing; install it with `{install}`")


def rustc(*arguments):
    """Returns the output of the compiler that cargo uses."""
    command = [os.environ.get("RUSTC") or "rustc", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def host():
    """Returns the target of this machine."""
    lines = rustc("-vV").splitlines()
    return next(line.split(": ")[1] for line in lines if line.startswith("host: "))


def rustlib():
    """Returns the folder of the compiler that has the standard libraries and their source."""
    return Path(rustc("--print", "sysroot")) / "lib/rustlib"


def has_source(folder):
    """Returns whether `rustlib` has the source of the standard library."""
    return (folder / "src/rust/library/std/Cargo.toml").is_file()


def wine():
    """Returns the path of Wine. Ends the script if it is missing."""
    # Debian installs the 64-bit Wine outside of PATH.
    debian = shutil.which("/usr/lib/wine/wine64")
    found = shutil.which("wine64") or debian or shutil.which("wine")
    require("Wine", found, "apt-get install --no-install-recommends wine64")
    return found


def require_compiler(target):
    """Returns the C compiler for a target. Ends the script if it is missing."""
    compiler, install = COMPILERS[target]
    require(f"the C compiler {compiler}", shutil.which(compiler), install)
    return compiler


def build_random(folder):
    """Builds the library for random numbers that Rust's standard library uses and Wine 8 lacks."""
    compiler = require_compiler("x86_64-pc-windows-gnu")
    library = folder / "bcryptprimitives.dll"
    source = HERE / "wine-random.c"
    subprocess.run([compiler, "-shared", "-o", library, source, "-ladvapi32"], check=True)
