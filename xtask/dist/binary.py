"""What a driver library needs from the system that loads it, as the tools of binutils report it."""

import os
import re
import subprocess
import sys

# The libraries that each glibc system has, from the policy of the `manylinux` tags (PEP 600).
SYSTEM = {
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
}


def output(*command):
    """Returns the output of a tool of binutils. Ends the script if it is missing."""
    env = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=env)
    except FileNotFoundError:
        sys.exit(f"{command[0]} is missing; install it with `apt-get install binutils`")
    return done.stdout.decode(errors="replace")


def needed(text):
    """Returns the libraries that `readelf --dynamic` or `objdump -p` lists.

    >>> needed("0x1 (NEEDED)  Shared library: [libm.so.6]\\n0xe (SONAME)  Library soname: [a.so]")
    ['libm.so.6']
    >>> needed("DLL Name: KERNEL32.dll\\n vma: Hint\\n  DLL Name: msvcrt.dll\\n")
    ['KERNEL32.dll', 'msvcrt.dll']
    """
    return re.findall(r"(?:Shared library: \[|DLL Name: )([^\]\s]+)", text)


def glibc(text):
    """Returns the oldest glibc that has every symbol version in a list of `readelf`.

    >>> glibc("Name: GLIBC_2.4  Flags: none\\nName: GLIBC_2.34  Flags: none\\nName: GCC_3.0")
    (2, 34)
    """
    found = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", text)
    return max((int(major), int(minor)) for major, minor in found)


def manylinux(text, machine):
    """Returns the platform tag of a wheel that has this library.

    >>> lines = "Shared library: [libc.so.6]\\nName: GLIBC_2.17  Flags: none\\n"
    >>> manylinux(lines, "aarch64")
    'manylinux_2_17_aarch64'
    >>> manylinux(lines + "Shared library: [libz.so.1]", "aarch64")
    Traceback (most recent call last):
    SystemExit: error: the library needs libz.so.1, which not every Linux system has
    """
    others = [name for name in needed(text) if name not in SYSTEM]
    if others:
        names = ", ".join(others)
        sys.exit(f"error: the library needs {names}, which not every Linux system has")
    major, minor = glibc(text)
    return f"manylinux_{major}_{minor}_{machine}"


def tag(library, machine):
    """Returns the platform tag of a wheel that has this library for Linux."""
    return manylinux(output("readelf", "--wide", "--dynamic", "--version-info", library), machine)
