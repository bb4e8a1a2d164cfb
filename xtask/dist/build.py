#!/usr/bin/env python3
"""Builds the software device for programs that are not part of this workspace.

`cargo xtask dist` runs this script. For each target that this machine can build, it writes to
`target/dist`:

- `cuda-sim-<version>-<target>.tar.gz` (`.zip` for Windows): the driver library and the launcher;
- `cuda_sim-<version>-py3-none-<platform>.whl`: the same as a Python package.

It uses nothing but Python's standard library and cargo.
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

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = "cuda-sim-cdylib"

# For each target: the library that cargo builds, the name under which programs load it, the
# platform tag of the wheel, and the linker that another host needs.
TARGETS = {
    "x86_64-unknown-linux-gnu": (
        "libcuda_sim_driver.so",
        "libcuda.so.1",
        "linux_x86_64",
        "x86_64-linux-gnu-gcc",
    ),
    "aarch64-unknown-linux-gnu": (
        "libcuda_sim_driver.so",
        "libcuda.so.1",
        "linux_aarch64",
        "aarch64-linux-gnu-gcc",
    ),
    "x86_64-pc-windows-gnu": (
        "cuda_sim_driver.dll",
        "nvcuda.dll",
        "win_amd64",
        "x86_64-w64-mingw32-gcc",
    ),
}
# All files in the packages have this time, so that the same input gives the same packages.
TIME = (1980, 1, 1, 0, 0, 0)


def output(*command):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def host():
    lines = output("rustc", "-vV").splitlines()
    return next(line.removeprefix("host: ") for line in lines if line.startswith("host: "))


def missing(target, own):
    """Returns what this machine lacks to build for `target`, or nothing."""
    if target == own:
        return None
    library = Path(output("rustc", "--print", "sysroot")) / "lib/rustlib" / target
    if not library.is_dir():
        return f"Rust has no standard library for it; run: rustup target add {target}"
    linker = TARGETS[target][3]
    if shutil.which(linker) is None:
        return f"the linker {linker} is not installed"
    return None


def build(target, own, options):
    """Builds the library and returns its path."""
    env = {**os.environ, "CARGO_TARGET_DIR": os.fspath(options.target.resolve())}
    profile, place = options.profile, options.target
    command = [options.cargo, "build", "--locked", "--package", PACKAGE, "--profile", profile]
    if target != own:
        command += ["--target", target]
        variable = f"CARGO_TARGET_{target.upper().replace('-', '_')}_LINKER"
        env.setdefault(variable, TARGETS[target][3])
        place = place / target
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


def write_wheel(folder, number, tag, library_name, library):
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
        f"cuda_sim/lib/{library_name}": (library, True),
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


def package(folder, target, library_path):
    """Writes the archive and the wheel of a target, and returns their paths."""
    number = version()
    _, name, tag, _ = TARGETS[target]
    library = library_path.read_bytes()
    suffix = ".zip" if "windows" in target else ".tar.gz"
    archive = folder / f"cuda-sim-{number}-{target}{suffix}"
    readme = (ROOT / "crates" / PACKAGE / "README.md").read_bytes()
    files = {
        "bin/cuda-sim": ((HERE / "launcher.py").read_bytes(), True),
        f"lib/{name}": (library, True),
        "README.md": (readme, False),
    }
    files.update({name: (contents, False) for name, contents in licenses().items()})
    write_archive(archive, files)
    return [archive, write_wheel(folder, number, tag, name, library)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    target_folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--cargo", default="cargo")
    parser.add_argument("--target", type=Path, default=target_folder, help="cargo's target folder")
    parser.add_argument("--out", type=Path, help="the default is `dist` in cargo's target folder")
    parser.add_argument("--profile", default="release")
    parser.add_argument("--library", type=Path, help="package this library, built for the host")
    parser.add_argument("--only-host", action="store_true", help="build for this machine only")
    options = parser.parse_args()
    own = host()
    only_host = options.only_host or options.library
    if own not in TARGETS and only_host:
        sys.exit(f"error: {own} has no package; the targets are {', '.join(TARGETS)}")
    out = options.out or options.target / "dist"
    out.mkdir(parents=True, exist_ok=True)
    for target in [own] if only_host else TARGETS:
        reason = missing(target, own)
        if reason:
            print(f"{target}: skipped: {reason}")
            continue
        library = options.library or build(target, own, options)
        for path in package(out, target, library):
            print(f"{target}: {path} ({path.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
