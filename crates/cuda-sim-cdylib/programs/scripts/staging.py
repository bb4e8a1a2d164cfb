"""Page-locked memory that numpy sees."""

import ctypes

import numpy as np
from cuda.core import LegacyPinnedMemoryResource


def pinned(count, dtype, fill):
    """A page-locked buffer of `count` elements, each `fill`, and the array that is its memory."""
    dtype = np.dtype(dtype)
    buffer = LegacyPinnedMemoryResource().allocate(count * dtype.itemsize)
    memory = (ctypes.c_ubyte * buffer.size).from_address(int(buffer.handle))
    array = np.frombuffer(memory, dtype)
    array[:] = fill
    return buffer, array
