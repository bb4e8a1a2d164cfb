"""The calls of the driver library that the programs of this folder need, through ctypes."""

import ctypes
import sys

NAME = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
DRIVER = ctypes.CDLL(NAME)


def call(name, *arguments):
    """Calls a function of the driver and exits with its status if it fails."""
    status = getattr(DRIVER, name)(*arguments)
    if status != 0:
        sys.exit(f"{name}: status {status}")


class Device:
    """Device 0 with a context, and a module."""

    def __init__(self, ptx):
        call("cuInit", 0)
        context = ctypes.c_void_p()
        call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
        self.module = ctypes.c_void_p()
        call("cuModuleLoadData", ctypes.byref(self.module), ctypes.c_char_p(ptx.encode()))

    def upload(self, array):
        address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(ctypes.sizeof(array)))
        call("cuMemcpyHtoD_v2", address, array, ctypes.c_size_t(ctypes.sizeof(array)))
        return address

    def download(self, array, address):
        call("cuMemcpyDtoH_v2", array, address, ctypes.c_size_t(ctypes.sizeof(array)))

    def launch(self, name, blocks, threads, *arguments):
        function = ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(function), self.module, name.encode())
        places = [ctypes.cast(ctypes.byref(it), ctypes.c_void_p) for it in arguments]
        list_type = ctypes.c_void_p * len(places)
        shape = [blocks, 1, 1, threads, 1, 1, 0]
        call("cuLaunchKernel", function, *shape, None, list_type(*places), None)
        call("cuCtxSynchronize")
