"""Stores one element past the end of a buffer. The PTX has the source lines of a compiler."""

import ctypes
import sys
from pathlib import Path

from driver import Device


def main():
    device = Device(Path(sys.argv[1]).read_text())
    # The buffer has 32 elements, and 33 threads write.
    device.launch("fill", 1, 33, device.upload((ctypes.c_uint * 32)()))


main()
