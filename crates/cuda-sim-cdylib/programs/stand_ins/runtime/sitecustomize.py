"""Stand-ins for the functions of the CUDA runtime API that NVIDIA's cuda-core and its tests call.

The module `cuda.bindings.runtime` contains the CUDA runtime library, which uses tables of the
driver that are not public. Python imports this file at its start if its folder is in `PYTHONPATH`.
When a program imports the module, this file replaces five functions by calls of the driver.
"""

import importlib.util
import sys

MODULE = "cuda.bindings.runtime"


def replace(runtime):
    """Replaces the functions in the module `runtime`."""
    from cuda.bindings import driver

    def result(status, *values):
        # The status codes of both libraries that tests see are equal.
        return (runtime.cudaError_t(int(status)), *values)

    def device_synchronize():
        status, device = driver.cuCtxGetDevice()
        if status == driver.CUresult.CUDA_ERROR_INVALID_CONTEXT:
            # The runtime uses device 0 if no context is current.
            device = 0
            status, context = driver.cuDevicePrimaryCtxRetain(device)
            if status == driver.CUresult.CUDA_SUCCESS:
                (status,) = driver.cuCtxSetCurrent(context)
        if status == driver.CUresult.CUDA_SUCCESS:
            (status,) = driver.cuCtxSynchronize()
        return result(status)

    def get_device():
        status, device = driver.cuCtxGetDevice()
        if status == driver.CUresult.CUDA_ERROR_INVALID_CONTEXT:
            return result(driver.CUresult.CUDA_SUCCESS, 0)
        return result(status, int(device))

    def get_device_count():
        driver.cuInit(0)
        return result(*driver.cuDeviceGetCount())

    def device_get_attribute(attribute, device):
        # An attribute has the same number in both libraries.
        attribute = driver.CUdevice_attribute(int(attribute))
        return result(*driver.cuDeviceGetAttribute(attribute, device))

    def device_get_pci_bus_id(length, device):
        return result(*driver.cuDeviceGetPCIBusId(length, device))

    runtime.cudaDeviceGetAttribute = device_get_attribute
    runtime.cudaDeviceGetPCIBusId = device_get_pci_bus_id
    runtime.cudaDeviceSynchronize = device_synchronize
    runtime.cudaGetDevice = get_device
    runtime.cudaGetDeviceCount = get_device_count


class Finder:
    """Finds the module with the other finders, and replaces the functions after its import."""

    def find_spec(self, name, path=None, target=None):
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            execute = spec.loader.exec_module

            def execute_and_replace(module):
                execute(module)
                replace(module)

            spec.loader.exec_module = execute_and_replace
        return spec


sys.meta_path.insert(0, Finder())
