"""Adds two vectors on the device and compares the sum with that of the host."""

import ctypes
import sys
from pathlib import Path

from driver import Device

COUNT = 1000


def main():
    device = Device(Path(sys.argv[1]).read_text())
    floats = ctypes.c_float * COUNT
    a = floats(*range(COUNT))
    b = floats(*(2 * number for number in range(COUNT)))
    result = floats()
    places = [device.upload(array) for array in (a, b, result)]
    device.launch("add", 8, 128, *places, ctypes.c_uint64(COUNT))
    device.download(result, places[2])
    assert list(result) == [x + y for x, y in zip(a, b)]
    print(f"the sum of {COUNT} pairs is right")


main()
