"""Replacements for libraries of the toolkit that a suite links."""

import os
import subprocess
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "stand_ins"


def folder(options, suite):
    """Returns the folder for the replacements of a suite."""
    return options.dir / suite.name / "stand-ins"


def build(options, suite):
    """Compiles the replacements that the entry of the suite names: for each source, the libraries.
    If a file beside the source has its name and ends with `.map`, it has the versions of the
    symbols.
    """
    compiler = os.environ.get("CC", "cc")
    for name, libraries in getattr(suite, "stand_ins", {}).items():
        source = SOURCES / name
        versions = source.with_suffix(".map")
        linking = [f"-Wl,--version-script={versions}"] if versions.is_file() else []
        folder(options, suite).mkdir(parents=True, exist_ok=True)
        for library in libraries:
            flags = ["-shared", "-fPIC", "-O2", "-Wall", "-Werror", f"-Wl,-soname,{library}"]
            output = ["-o", folder(options, suite) / library]
            command = [compiler, *flags, *linking, source, *output, "-ldl", "-lm"]
            subprocess.run(command, check=True)
