"""Memory pools: those of cuda.core, and the functions of cuda.bindings."""

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions
from staging import pinned

SUCCESS = driver.CUresult.CUDA_SUCCESS


def ok(returned):
    """Returns the values of a call of cuda.bindings. Its status must be success."""
    status, *values = returned
    assert status == SUCCESS, status
    return values[0] if len(values) == 1 else tuple(values)


def core(device):
    """A pool with a limit: what it counts, what it refuses, and bytes that come back."""
    stream = device.create_stream()
    pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=32 << 20))
    count = 1 << 18
    buffers = [pool.allocate(4 * count, stream=stream) for _ in range(3)]
    stream.sync()
    assert pool.attributes.used_mem_current == 12 * count, pool.attributes
    assert pool.attributes.reserved_mem_current >= 12 * count
    source, array = pinned(count, np.uint32, np.arange(count))
    result, back = pinned(count, np.uint32, 0)
    source.copy_to(buffers[0], stream=stream)
    buffers[0].copy_to(buffers[2], stream=stream)
    buffers[2].copy_to(result, stream=stream)
    stream.sync()
    assert np.array_equal(array, back)
    buffers[1].fill(b"\x5a", stream=stream)
    buffers[1].copy_to(result, stream=stream)
    stream.sync()
    assert np.all(back == 0x5A5A5A5A)
    try:
        pool.allocate(64 << 20, stream=stream)
        raise AssertionError("a pool of 32 MiB gave 64")
    except Exception as error:
        assert "OUT_OF_MEMORY" in str(error), error
    for buffer in buffers:
        buffer.close(stream)
    stream.sync()
    assert pool.attributes.used_mem_current == 0
    assert pool.attributes.used_mem_high == 12 * count
    pool.close()
    print("cuda.core: 3 buffers of a pool")


def bindings():
    """The same functions by their C names: a pool of one's own as that of the device."""
    device = ok(driver.cuDeviceGet(0))
    stream = ok(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    props = driver.CUmemPoolProps()
    props.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    props.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    props.location.id = 0
    pool = ok(driver.cuMemPoolCreate(props))
    before = ok(driver.cuDeviceGetMemPool(device))
    ok(driver.cuDeviceSetMemPool(device, pool))
    assert int(ok(driver.cuDeviceGetMemPool(device))) == int(pool)
    attribute = driver.CUmemPool_attribute
    threshold = attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    ok(driver.cuMemPoolSetAttribute(pool, threshold, driver.cuuint64_t(1 << 20)))
    assert int(ok(driver.cuMemPoolGetAttribute(pool, threshold))) == 1 << 20

    count = 1000
    address = ok(driver.cuMemAllocAsync(4 * count, stream))
    used = attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
    assert int(ok(driver.cuMemPoolGetAttribute(pool, used))) >= 4 * count
    ok(driver.cuMemsetD32Async(address, 0xC0FFEE, count, stream))
    values = np.zeros(count, np.uint32)
    ok(driver.cuMemcpyDtoHAsync(values.ctypes.data, address, values.nbytes, stream))
    ok(driver.cuMemFreeAsync(address, stream))
    ok(driver.cuStreamSynchronize(stream))
    assert np.all(values == 0xC0FFEE)
    assert int(ok(driver.cuMemPoolGetAttribute(pool, used))) == 0
    ok(driver.cuMemPoolDestroy(pool))
    assert int(ok(driver.cuDeviceGetMemPool(device))) == int(before)
    ok(driver.cuStreamDestroy(stream))
    print("cuda.bindings: an allocation of the device's pool")


def main():
    device = Device(0)
    device.set_current()
    core(device)
    bindings()


main()
