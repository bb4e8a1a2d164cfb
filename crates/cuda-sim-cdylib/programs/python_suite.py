"""Test suites in Python: tests in a package that pip installs or in a checkout that the user names,
or programs of this repository."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import replacements
from process import Process
from suite import SUITES

HERE = Path(__file__).resolve().parent
# Prints the name of device 0.
NAME = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
name = ctypes.create_string_buffer(100)
assert driver.cuInit(0) == 0 and driver.cuDeviceGetName(name, 100, 0) == 0
print(name.value.decode())
"""


class Python:
    """The virtual environment of a suite, with pinned packages."""

    def __init__(self, options, suite):
        self.options, self.suite = options, suite
        self.dir = options.dir / suite.name
        self.venv = self.dir / "venv-{}.{}".format(*sys.version_info)
        self.program = self.venv / "bin/python3"
        self.packages = self.venv / "lib/python{}.{}/site-packages".format(*sys.version_info)
        # Caches of compiled kernels are kept apart from those for GPUs.
        self.source = self.dir / "source"
        self.cache = self.dir / "cache"
        shutil.rmtree(self.cache, ignore_errors=True)
        self.cache.mkdir(parents=True)

    def install(self):
        """Installs the packages of the suite, whose hashes pip checks, and its source package."""
        requirements = SUITES / f"{self.suite.name}.requirements.txt"
        source = getattr(self.suite, "source", None)
        wanted = f"{requirements.read_text()}{source}"
        stamp = self.venv / "installed.txt"
        if stamp.is_file() and stamp.read_text() == wanted:
            return
        print(f"{self.suite.name}: installing", flush=True)
        venv.create(self.venv, clear=True, with_pip=True)
        self.pip("install", "-r", requirements)
        if source:
            self.install_source(source)
        stamp.write_text(wanted)

    def install_source(self, source):
        """Downloads, unpacks, builds and installs a source package."""
        pinned = self.dir / "source.txt"
        name = f"{source['name']}=={source['version']}"
        pinned.write_text(f"{name} --hash=sha256:{source['sha256']}\n")
        shutil.rmtree(self.source, ignore_errors=True)
        download = self.dir / "download"
        from_source = ["--no-build-isolation", "--no-binary=:all:"]
        self.pip("download", *from_source, "-d", download, "-r", pinned)
        (archive,) = download.iterdir()
        with tarfile.open(archive) as file:
            file.extractall(download, filter="data")
        archive.unlink()
        (unpacked,) = download.iterdir()
        unpacked.rename(self.source)
        if configure := source.get("configure"):
            places = [part.format(**self.places()) for part in configure]
            result = self.start(["configure.py", *places], cwd=self.source, limit=60)
            if not result.succeeded:
                raise RuntimeError(f"configure.py failed: {result.end()}")
        env = source.get("env", {})
        self.pip("install", "--no-build-isolation", self.source, hashes=[], env=env)

    def pip(self, command, *arguments, hashes=("--require-hashes",), env=()):
        pip = [self.program, "-m", "pip", command, "--quiet", "--no-input", "--no-deps"]
        command = [*pip, "--disable-pip-version-check", *hashes, *arguments]
        subprocess.run(command, check=True, env={**os.environ, **dict(env)})

    def places(self):
        """Returns the folders that an entry can name."""
        return {
            "cache": self.cache,
            "driver": self.options.driver,
            "here": HERE,
            "packages": self.packages,
            "path": f"{self.venv}/bin{os.pathsep}{os.environ['PATH']}",
            "setup": self.options.setup,
            "stand_ins": replacements.folder(self.options, self.suite),
        }

    def start(self, arguments, env=(), cwd=None, limit=None):
        places = self.places()
        fixed = {name: value.format(**places) for name, value in self.suite.env.items()}
        base = {
            "PATH": places["path"],
            "XDG_CACHE_HOME": str(self.cache),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }
        env = {**base, **fixed, **dict(env)}
        cwd = cwd or self.dir
        return Process(self.options, self.suite, [self.program, *arguments], cwd, env, limit)

    def check_device(self):
        named = self.start(["-c", NAME])
        if not named.succeeded or "software" not in named.lines[-1].lower():
            raise RuntimeError(f"{self.suite.name} does not use the software device: {named.end()}")


def tests_folder(python):
    """Returns the folder of the tests: in the source package, in a checkout that the user names, or
    else in the installed packages."""
    suite = python.suite
    if hasattr(suite, "source"):
        return python.source / suite.tests
    if commit := getattr(suite, "commit", None):
        return python.options.checkouts[commit] / suite.tests
    return python.packages / suite.tests


def run_pytest(options, suite, is_chosen):
    """Runs each file of tests in a process, and each test that failed again in one of its own,
    because a failing test may leave a lost device to the others."""
    python = Python(options, suite)
    python.install()
    replacements.build(options, suite)
    python.check_device()
    root = tests_folder(python)
    files = [file for file in all_files(suite, root) if is_chosen(file)]
    outcomes, output = {}, {}

    def run(name, arguments):
        log = python.dir / "outcomes" / f"{name}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("")
        folders = [HERE, SUITES, *(HERE / name for name in getattr(suite, "python_path", []))]
        env = {"OUTCOMES": str(log), "PYTHONPATH": os.pathsep.join(map(str, folders))}
        flags = ["-p", "outcomes", "-p", "no:cacheprovider", "--tb=short", "-q", "--rootdir", root]
        result = python.start(["-m", "pytest", *flags, *suite.pytest, *arguments], env, cwd=root)
        return read(log.read_text()), result

    def run_file(file):
        found, result = run(file.replace("/", "."), [file])
        return file, found, result

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        again = []
        for file, found, result in pool.map(run_file, sorted(files)):
            # pytest ends with status 5 if it collects no test, for example if the file skips itself.
            if not found and result.status == "exit status 5":
                found = {file: "skipped"} if "skipped" in result.end() else {}
            elif not found and not result.succeeded:
                found = {file: "failed"}
            for test, outcome in found.items():
                name = test if "::" in test else f"{test}::(import)"
                outcomes[name] = outcome
                output[name] = result.end(60)
                if outcome in ["failed", "collected"] and "::" in test:
                    again.append(test)

        def run_test(number_and_test):
            number, test = number_and_test
            return test, *run(f"again-{number}", [test])

        for test, found, result in pool.map(run_test, enumerate(again)):
            outcome = found.get(test, "failed")
            outcomes[test] = "failed" if outcome == "collected" else outcome
            output[test] = result.end(60)
    return outcomes, output


def all_files(suite, root):
    """Returns the files of tests below the folder `root`."""
    files = [path.relative_to(root).as_posix() for path in root.rglob("test_*.py")]
    return [file for file in files if file.startswith(tuple(suite.include))]


def read(text):
    """Returns the outcome of each test in a file of the plugin `outcomes`. A failure stays one, and
    a test that ended the process has only been collected.

    >>> text = "collected\\ta::x\\ncollected\\ta::y\\nfailed\\ta::x\\npassed\\ta::x\\n"
    >>> read(text)
    {'a::x': 'failed', 'a::y': 'collected'}
    """
    found = {}
    for line in text.splitlines():
        outcome, test = line.split("\t", 1)
        if found.get(test) != "failed":
            found[test] = outcome
    return found


def run_scripts(options, suite, is_chosen):
    """Runs programs of this repository. Each compares its results with results of the host."""
    python = Python(options, suite)
    python.install()
    outcomes, output = {}, {}
    for script in suite.scripts:
        program, *arguments = script.split()
        command = [HERE / "scripts" / program, *arguments]
        result = python.start(command, {"CUDA_SIM_LOG": "calls"})
        name = f"scripts::{script}"
        outcomes[name] = "passed" if result.succeeded and result.calls else "failed"
        output[name] = result.end()
        print(f"{script}: {result.calls} calls of the driver")
        print("".join(f"    {line}\n" for line in result.lines), end="")
    return outcomes, output
