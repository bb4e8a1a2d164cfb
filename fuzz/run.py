#!/usr/bin/env python3
"""Runs libFuzzer on the targets of this folder, all in parallel, with AddressSanitizer.

`cargo xtask full fuzz` runs this script. Each target starts with its seeds in `seeds`, those of
`seeds/written` and the kernels that NVRTC compiled if its input is PTX, and the corpus of earlier
runs in `target/fuzz/corpus`. Inputs that crashed it are stored in `target/fuzz/found`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parent / "crates/cuda-conformance/tests/corpus/kernels"

# Each target with the maximum length of its input.
TARGETS = {"ptx_text": 24_576, "nvrtc_output": 24_576, "api_calls": 4_096}

FLAGS = "-fork=1 -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 -timeout=20 -rss_limit_mb=2048"


def executions(log):
    """Returns the number of executions, or None if there are none.

    >>> executions("INFO: x\\n#12: cov: 1 ft: 2\\n==1==ERROR\\n#3456: cov: 9\\n#9999 NEW\\n")
    3456
    >>> executions("error: no such target")
    """
    return max(map(int, re.findall(r"^#(\d+): cov", log, re.MULTILINE)), default=None)


def fuzz(target, cargo, env, folder, minutes):
    """Runs one target. Returns the number of crashes, or None if it did not start."""
    found, corpus = folder / "found" / target, folder / "corpus" / target
    found.mkdir(parents=True, exist_ok=True)
    corpus.mkdir(parents=True, exist_ok=True)
    before = len(list(found.iterdir()))
    folders = [corpus, HERE / "seeds" / target]
    compiled = folder / "seeds/nvrtc"
    folders += [HERE / "seeds/written"] if target != "api_calls" else []
    folders += [compiled] if target != "api_calls" and compiled.is_dir() else []
    command = [cargo, "fuzz", "run", "--sanitizer", "address", target, *folders, "--"]
    command += [*FLAGS.split(" "), f"-max_total_time={minutes * 60}"]
    command += [f"-max_len={TARGETS[target]}", f"-artifact_prefix={found}/"]
    options = "detect_leaks=0:allocator_may_return_null=1"
    env = {**env, "ASAN_OPTIONS": options, "RAYON_NUM_THREADS": "1"}
    path = folder / f"{target}.txt"
    with path.open("w") as log:
        subprocess.run(command, cwd=HERE, env=env, stdout=subprocess.DEVNULL, stderr=log)
    count = executions(path.read_text(errors="replace"))
    if count is None:
        print(f"{target} did not start: see {path}")
        return None
    crashes = len(list(found.iterdir())) - before
    print(f"{target:<14} {count:>9} executions, {crashes} crashes, time-outs and out of memory")
    return crashes


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--cargo", default="cargo", help="the cargo that builds")
    options.add_argument("--target", type=Path, default=HERE.parent / "target")
    options.add_argument("--minutes", type=int, default=30)
    options = options.parse_args()

    if not shutil.which("cargo-fuzz"):
        sys.exit("cargo-fuzz is missing; install it with `cargo install --locked cargo-fuzz`")
    cargo, folder = options.cargo, options.target.resolve() / "fuzz"
    # Instrumentation is unstable.
    env = {**os.environ, "RUSTC_BOOTSTRAP": "1", "CARGO_TARGET_DIR": str(folder / "build")}
    seeds = [cargo, *"run --quiet --example seeds --".split(" "), folder / "seeds/nvrtc"]
    if subprocess.run(seeds + sorted(KERNELS.glob("**/*.cu")), cwd=HERE, env=env).returncode != 0:
        print("continuing without seeds from NVRTC")
    # Otherwise the target `api_calls` finds little.
    test = [cargo, "test", "--quiet", "--lib"]
    if subprocess.run(test, cwd=HERE, env=env).returncode != 0:
        sys.exit("the tests of the targets fail")
    build = [cargo, "fuzz", "build", "--sanitizer", "address"]
    if subprocess.run(build, cwd=HERE, env=env).returncode != 0:
        sys.exit("the targets do not compile")
    print(f"{options.minutes} minutes, all targets in parallel (--minutes)", flush=True)
    with ThreadPoolExecutor() as threads:
        run = lambda target: fuzz(target, cargo, env, folder, options.minutes)
        crashes = list(threads.map(run, TARGETS))
    if None in crashes or any(crashes):
        sys.exit(f"a target crashed or did not start: see {folder}")


if __name__ == "__main__":
    main()
