#!/usr/bin/env python3
"""Builds the software device for programs that are not part of this workspace.

`cargo xtask dist` runs this script. For each target that this machine can build, it writes to
`target/dist`:

- `cuda-sim-<version>-<target>.tar.gz` (`.zip` for Windows): the driver library and the launcher;
- `cuda_sim-<version>-py3-none-<platform>.whl`: the same as a Python package.

With `--check`, it runs check.py on them. The script uses Python's standard library, cargo and
binutils.
"""

import argparse
import base64
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import binary
import check

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = "cuda-sim-cdylib"
sys.path.append(os.fspath(HERE.parent / "platforms"))
import toolchain

# For each target: the library that cargo builds, the name under which programs load it, and the
# machine in the tag of the wheel.
TARGETS = {
    "x86_64-unknown-linux-gnu": ("libcuda_sim_driver.so", "libcuda.so.1", "x86_64"),
    "aarch64-unknown-linux-gnu": ("libcuda_sim_driver.so", "libcuda.so.1", "aarch64"),
    "x86_64-pc-windows-gnu": ("cuda_sim_driver.dll", "nvcuda.dll", "amd64"),
}
# All files in the packages have this time, so that the same input gives the same packages.
TIME = (1980, 1, 1, 0, 0, 0)
# Starts the launcher on Windows, which runs no file without an extension.
COMMAND = b'@python "%~dp0cuda-sim" %*\r\n'


def missing(target, own):
    """Returns what this machine lacks to build for `target` and how to install it, or nothing.

    Without a standard library for the target, its source is sufficient: cargo builds it.
    """
    if target == own:
        return None
    rustlib = toolchain.rustlib()
    if not (rustlib / target).is_dir() and not toolchain.has_source(rustlib):
        return f"Rust's standard library for {target}", f"rustup target add {target}"
    compiler, install = toolchain.COMPILERS[target]
    if shutil.which(compiler) is None:
        return f"the C compiler {compiler}", install
    return None


def build(target, own, options):
    """Builds the library without its symbols, and returns its path."""
    env = {**os.environ, "CARGO_TARGET_DIR": os.fspath(options.target.resolve())}
    profile, place = options.profile, options.target
    command = [options.cargo, "build", "--locked", "--package", PACKAGE, "--profile", profile]
    command += ["--config", f'profile.{profile}.strip="symbols"']
    if target != own:
        command += ["--target", target]
        variable = f"CARGO_TARGET_{target.upper().replace('-', '_')}_LINKER"
        env.setdefault(variable, toolchain.COMPILERS[target][0])
        place = place / target
        if not (toolchain.rustlib() / target).is_dir():
            command.append(toolchain.BUILD_STD)
            env.update(toolchain.BOOTSTRAP)
    subprocess.run(command, check=True, env=env, cwd=ROOT)
    return place / ("debug" if profile == "dev" else profile) / TARGETS[target][0]


def version():
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    package = manifest.partition("[workspace.package]")[2]
    return re.search(r'^version = "(.+)"$', package, re.MULTILINE)[1]


def licenses():
    return {path.name: path.read_bytes() for path in sorted(ROOT.glob("LICENSE-*"))}


def write_archive(path, files):
    """Writes a tar or zip archive. `files` maps names to contents and whether to allow execution."""
    top = path.name.removesuffix(".tar.gz").removesuffix(".zip")
    if path.suffix == ".zip":
        write_zip(path, {f"{top}/{name}": file for name, file in files.items()})
        return
    with tarfile.open(path, "w:gz") as archive:
        for name, (contents, is_program) in files.items():
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size = len(contents)
            entry.mode = 0o755 if is_program else 0o644
            archive.addfile(entry, io.BytesIO(contents))


def write_zip(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (contents, is_program) in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(entry, contents)


def write_wheel(folder, number, tag, libraries):
    """Writes the Python package as the specification of binary distributions describes it."""
    info = f"cuda_sim-{number}.dist-info"
    readme = (ROOT / "crates" / PACKAGE / "README.md").read_text(encoding="utf-8")
    metadata = (
        "Metadata-Version: 2.1\nName: cuda-sim\n"
        f"Version: {number}\n"
        "Summary: A CUDA driver in software, to test programs without a GPU\n"
        "License: MIT OR Apache-2.0\nRequires-Python: >=3.8\n"
        f"Description-Content-Type: text/markdown\n\n{readme}"
    )
    wheel = f"Wheel-Version: 1.0\nGenerator: cuda-sim\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n"
    init = '"""A CUDA driver in software. Its launcher is `cuda-sim run -- <command>`."""\n'
    start = "import sys\n\nfrom cuda_sim.launcher import main\n\nsys.exit(main())\n"
    files = {
        "cuda_sim/__init__.py": (init.encode(), False),
        "cuda_sim/__main__.py": (start.encode(), False),
        "cuda_sim/launcher.py": ((HERE / "launcher.py").read_bytes(), False),
        **{f"cuda_sim/lib/{name}": file for name, file in libraries.items()},
        f"{info}/METADATA": (metadata.encode(), False),
        f"{info}/WHEEL": (wheel.encode(), False),
        f"{info}/entry_points.txt": (
            b"[console_scripts]\ncuda-sim = cuda_sim.launcher:main\n",
            False,
        ),
    }
    for name, contents in licenses().items():
        files[f"{info}/licenses/{name}"] = (contents, False)
    lines = []
    for name, (contents, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(contents)}")
    record = "\n".join([*lines, f"{info}/RECORD,,", ""])
    files[f"{info}/RECORD"] = (record.encode(), False)
    path = folder / f"cuda_sim-{number}-py3-none-{tag}.whl"
    write_zip(path, files)
    return path


def libraries_of(target, library):
    """Returns the files of the folder that has the driver library."""
    files = {TARGETS[target][1]: (library.read_bytes(), True)}
    if "windows" in target:
        name = "sitecustomize.py"
        files[f"python/{name}"] = ((HERE / name).read_bytes(), False)
    return files


def package(folder, target, library):
    """Writes the archive and the wheel of a target, and returns their paths."""
    number, machine = version(), TARGETS[target][2]
    is_windows = "windows" in target
    tag = f"win_{machine}" if is_windows else binary.tag(library, machine)
    # The tag of an older wheel may be another one.
    for old in folder.glob(f"cuda_sim-*{machine}.whl"):
        old.unlink()
    libraries = libraries_of(target, library)
    archive = folder / f"cuda-sim-{number}-{target}{'.zip' if is_windows else '.tar.gz'}"
    readme = (ROOT / "crates" / PACKAGE / "README.md").read_bytes()
    files = {
        "bin/cuda-sim": ((HERE / "launcher.py").read_bytes(), True),
        **{f"lib/{name}": file for name, file in libraries.items()},
        "README.md": (readme, False),
    }
    if is_windows:
        files["bin/cuda-sim.cmd"] = (COMMAND, False)
    files.update({name: (contents, False) for name, contents in licenses().items()})
    write_archive(archive, files)
    return [archive, write_wheel(folder, number, tag, libraries)]


def buildable(targets, own, options):
    """Returns the targets that can be built. Ends the script if one must be and cannot."""
    found = []
    for target in targets:
        lack = missing(target, own)
        if lack and not (options.check or options.only):
            print(f"{target}: skipped: {lack[0]} is missing; install it with `{lack[1]}`")
            continue
        if lack:
            toolchain.require(lack[0], False, lack[1])
        if options.check:
            check.require_tools(target, own)
        found.append(target)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    target_folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--cargo", default="cargo")
    parser.add_argument("--target", type=Path, default=target_folder, help="cargo's target folder")
    parser.add_argument("--out", type=Path, help="the default is `dist` in cargo's target folder")
    parser.add_argument("--profile", default="release")
    parser.add_argument("--library", type=Path, help="package this library, built for the host")
    parser.add_argument("--only-host", action="store_true", help="build for this machine only")
    parser.add_argument(
        "--only", action="append", choices=TARGETS, metavar="TARGET", help="build for this target"
    )
    parser.add_argument("--check", action="store_true", help="also run programs on the packages")
    options = parser.parse_args()
    own = toolchain.host()
    only_host = options.only_host or options.library
    if own not in TARGETS and only_host:
        sys.exit(f"error: {own} has no package; the targets are {', '.join(TARGETS)}")
    out = options.out or options.target / "dist"
    out.mkdir(parents=True, exist_ok=True)
    targets = [own] if only_host else options.only or TARGETS
    for target in buildable(targets, own, options):
        library = options.library or build(target, own, options)
        packages = package(out, target, library)
        for path in packages:
            print(f"{target}: {path} ({path.stat().st_size / 1e6:.1f} MB)")
        if options.check:
            check.check(target, own, packages, options.target / "dist-check" / target)


if __name__ == "__main__":
    main()
