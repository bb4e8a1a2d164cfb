"""Counts how many accesses of real kernels the analysis of cuda-ptx proves.

`cargo xtask full shares` starts this script. It compiles kernels to PTX in `target/shares`, one
folder for each set, and runs the example `shares` of cuda-ptx on them:

- `corpus`, `examples`: CUDA C++ of this repository, compiled by NVRTC. The values of their launches
  are in `corpus.txt` and `examples.txt`, which `--record` writes: it runs the tests and the
  examples on the software device, which records their launches. `analysed.txt` has those of kernels
  that tests only analyse, and `defects.txt` lists the kernels with a defect.
- `candle`: the crate candle-kernels, compiled by nvcc from NVIDIA's wheels (with `--full`);
- `triton_80`, `triton_90`: kernels in Triton for two architectures, compiled by the wheel of Triton
  (with `--full`).

With `--full`, the tests of the machine code of cuda-ptx run, too, with the assembler of the wheels.
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
    "nvidia-cuda-nvdisasm==13.5.37",
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

# The tests that launch these kernels, and those that run the examples. One thread, so that the
# first launch of a kernel is always the same.
RECORDED = [
    "test -p cuda-conformance --test corpus -- --test-threads 1",
    "test -p cuda-driver --all-features --test it -- --test-threads 1 safe::cost",
    "build -p examples --examples",
    "test -p examples --test run -- --test-threads 1",
]
HEADER = {
    "corpus": "The first launch of each kernel by the tests, written by run.py --record.",
    "examples": "The first launch of each kernel by the examples, written by run.py --record.",
}


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


def copy_tables(folder):
    """Puts the values of the launches next to the compiled kernels."""
    for name, tables in {"corpus": ["corpus", "analysed"], "examples": ["examples"]}.items():
        text = "".join((HERE / f"{table}.txt").read_text() for table in tables)
        (folder / name / "recorded.txt").write_text(text)
        shutil.copy(HERE / "defects.txt", folder / name / "defects.txt")


def recorded_launches(cargo, target):
    """Runs the tests and the examples. Returns the lines that the software device wrote."""
    file = target / "shares/launches.txt"
    file.unlink(missing_ok=True)
    environment = {**os.environ, "CUDA_SIM_LAUNCHES": os.fspath(file)}
    for command in RECORDED:
        subprocess.run([cargo, *command.split(" ")], check=True, cwd=ROOT, env=environment)
    return file.read_text().splitlines()


def record(folder, cargo, target):
    """Writes the tables with the first launch of each kernel."""
    launches = {"corpus": [], "examples": []}
    for line in recorded_launches(cargo, target):
        launch, kernels = line.split(" kernels=")
        kernels, program = kernels.split(" program=")
        name = "corpus" if re.fullmatch(r"(corpus|it)-[0-9a-f]+", program) else "examples"
        launches[name].append((launch, set(kernels.split(",")), program))
    for name, found in launches.items():
        lines = [f"# {HEADER[name]}"]
        for ptx in sorted((folder / name).glob("*.ptx")):
            program = None if name == "corpus" else ptx.stem.rpartition("_")[0]
            entries = re.findall(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)", ptx.read_text())
            for entry, params in entries:
                launch = first_launch(entry, params, {name for name, _ in entries}, program, found)
                if launch:
                    lines.append(f"{ptx.stem}.{launch}")
                else:
                    print(f"{name}: {ptx.stem}.{entry} is not launched")
        (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n")


def first_launch(entry, params, names, program, launches):
    """The first launch of a kernel in the module that has the most kernels in common with `names`.

    They need not be the same: an older architecture lacks some, and templates are not compiled.
    A checked copy has additional parameters after those of the kernel.
    """
    best, best_share = None, 0.49
    count = params.count(".param")
    for launch, kernels, by in launches:
        launch, values = launch.split(" arguments=")
        values = values.split(",") if values else []
        share = len(kernels & names) / len(kernels | names)
        is_same = launch.split(" ")[0] == entry and len(values) >= count
        if is_same and program in (None, by) and share > best_share:
            best, best_share = f"{launch} arguments={','.join(values[:count])}", share
    return best


def candle_kernels(folder, cargo):
    """Fetches candle-kernels from its registry, and compiles it as its build script does."""
    wheels, asking, to = folder / "nvcc", folder / "fetch", folder / "candle"
    nvcc = wheels / "nvidia/cu13/bin/nvcc"
    install(NVCC, wheels, "nvidia/cu13/bin/nvdisasm")
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


def check_machine_code(folder, cargo):
    """Compares rewritten kernels with the machine code that the assembler makes of them."""
    environment = {
        **os.environ,
        "CUDA_PATH": os.fspath(folder / "nvcc/nvidia/cu13"),
        "CUDA_TEST_REQUIRE_PTXAS": "1",
    }
    command = [cargo, "test", "-p", "cuda-ptx", "--test", "it", "assembler"]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)


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
    parser.add_argument("--times", action="store_true", help="also time the evaluation")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    options.target = options.target.resolve()
    setup, folder = options.target / "cuda-setup", options.target / "shares"
    libraries = sorted((setup / "lib").glob("libnvrtc.so*"))
    nvrtc = ctypes.CDLL(os.fspath(libraries[0]) if libraries else "libnvrtc.so.13")
    sets = own_kernels(folder, nvrtc, setup / "include")
    if options.record:
        record(folder, options.cargo, options.target)
    copy_tables(folder)
    if options.full:
        sets += candle_kernels(folder, options.cargo) + triton_kernels(folder)
    profile = ["--release"] if options.times else []
    build = ["run", "--quiet", *profile, "-p", "cuda-ptx", "--example", "shares", "--"]
    flags = [f"--{name}" for name in ["list", "times"] if getattr(options, name)]
    folders = [f"{name}={folder / name}" for name in sets]
    subprocess.run([options.cargo, *build, *flags, *folders], check=True, cwd=ROOT)
    if options.full:
        check_machine_code(folder, options.cargo)


main()
