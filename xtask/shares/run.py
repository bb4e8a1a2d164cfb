"""Counts how many accesses of real kernels the analysis of cuda-ptx proves.

`cargo xtask full shares` starts this script. It compiles kernels to PTX in `target/shares`, one
folder for each set, and runs the example `shares` of cuda-ptx on them:

- `corpus`, `examples`: CUDA C++ of this repository, compiled by NVRTC;
- `candle`: the crate candle-kernels, compiled by nvcc from NVIDIA's wheels (with `--full`);
- `triton_80`, `triton_90`: kernels in Triton for two architectures, compiled by the wheel of Triton
  (with `--full`).
"""

import argparse
import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CANDLE = "0.11.1"
NVCC = [
    "nvidia-cuda-nvcc==13.5.37",
    "nvidia-cuda-crt==13.5.37",
    "nvidia-nvvm==13.5.37",
    "nvidia-cuda-runtime==13.5.37",
    "nvidia-cuda-cccl==13.3.5.0.6",
]
TRITON = ["triton==3.5.1"]
# Folders and files with CUDA C++ of this repository.
CORPUS = [
    "crates/cuda-conformance/tests/corpus/kernels",
    "crates/cuda-driver/tests/it/kernels",
    "crates/cuda-ptx/tests/it/kernels",
]


def compile_with(nvrtc, text, options):
    """Returns the PTX, or None with the first line of the log."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
    values = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    status = nvrtc.nvrtcCompileProgram(program, len(options), values)
    what = "ProgramLog" if status else "PTX"
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
    result = buffer.value.decode(errors="replace")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if status:
        return None, (result.splitlines() or ["no log"])[0]
    return result, ""


def own_kernels(folder, nvrtc, include):
    """Compiles the kernels of this repository."""
    sets = {"corpus": [], "examples": []}
    for place in CORPUS:
        for path in sorted((ROOT / place).glob("*.cu")):
            sets["corpus"].append((path.stem, path.read_text()))
    for path in sorted((ROOT / "examples").rglob("*.rs")):
        for number, text in enumerate(re.findall(r'r#*"(.*?)"#*;', path.read_text(), re.S)):
            if "__global__" in text:
                sets["examples"].append((f"{path.stem}_{number}", text))
    for name, sources in sets.items():
        to = folder / name
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir(parents=True)
        for stem, text in sources:
            options = ["--gpu-architecture=compute_90", "--std=c++17", "-default-device"]
            options += ["--device-int128", f"--include-path={include}"]
            ptx, error = compile_with(nvrtc, text, options)
            if ptx is None:
                print(f"{name}: {stem} is left out: {error}")
            else:
                (to / f"{stem}.ptx").write_text(ptx)
    return list(sets)


def candle_kernels(folder, cargo):
    """Fetches candle-kernels from its registry, and compiles it as its build script does."""
    wheels, asking, to = folder / "nvcc", folder / "fetch", folder / "candle"
    nvcc = wheels / "nvidia/cu13/bin/nvcc"
    install(NVCC, wheels, "nvidia/cu13/bin/nvcc")
    asking.mkdir(parents=True, exist_ok=True)
    (asking / "lib.rs").write_text("")
    (asking / "Cargo.toml").write_text(
        '[workspace]\n[package]\nname = "fetch"\nedition = "2021"\n[lib]\npath = "lib.rs"\n'
        f'[dependencies]\ncandle-kernels = "={CANDLE}"\n'
    )
    vendor = ["vendor", "--quiet", "--versioned-dirs", "--manifest-path", asking / "Cargo.toml"]
    subprocess.run([cargo, *vendor, folder / "vendor"], check=True, stdout=subprocess.DEVNULL)
    source = folder / f"vendor/candle-kernels-{CANDLE}/src"
    to.mkdir(exist_ok=True)
    shutil.copy(HERE / "candle.txt", to / "launches.txt")
    for path in sorted(source.glob("*.cu")):
        ptx = to / f"{path.stem}.ptx"
        if path.stem.startswith(("moe_", "mmvq_", "mmq_")) or ptx.is_file():
            continue
        options = ["--ptx", "-arch=sm_80", "-std=c++17", "-O3", "--expt-relaxed-constexpr"]
        subprocess.run([nvcc, *options, "-I", source, "-o", ptx, path], check=True)
    return ["candle"]


def install(packages, to, known):
    """Installs wheels in a folder, unless it has the file `known`."""
    if not (to / known).exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", to]
        subprocess.run([*pip, *packages], check=True)


def triton_kernels(folder):
    """Compiles the kernels of `triton_kernels.py` for two architectures."""
    wheel, sets = folder / "triton", []
    install(TRITON, wheel, "triton")
    environment = {
        **os.environ,
        "PYTHONPATH": os.fspath(wheel),
        "TRITON_CACHE_DIR": os.fspath(folder / "triton_cache"),
    }
    for architecture in ["80", "90"]:
        to = folder / f"triton_{architecture}"
        script = [sys.executable, HERE / "triton_kernels.py", to, architecture]
        subprocess.run(script, check=True, env=environment)
        sets.append(to.name)
    return sets


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cargo", required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    setup, folder = options.target / "cuda-setup", options.target / "shares"
    libraries = sorted((setup / "lib").glob("libnvrtc.so*"))
    nvrtc = ctypes.CDLL(os.fspath(libraries[0]) if libraries else "libnvrtc.so.13")
    sets = own_kernels(folder, nvrtc, setup / "include")
    if options.full:
        sets += candle_kernels(folder, options.cargo) + triton_kernels(folder)
    build = ["run", "--quiet", "-p", "cuda-ptx", "--example", "shares", "--"]
    flags = ["--list"] if options.list else []
    folders = [f"{name}={folder / name}" for name in sets]
    subprocess.run([options.cargo, *build, *flags, *folders], check=True, cwd=ROOT)


main()
