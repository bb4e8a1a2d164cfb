"""Virtual memory of cuda.core: a buffer that grows elsewhere, its bytes kept."""

import numpy as np
from cuda.core import Device, VirtualMemoryResource, VirtualMemoryResourceOptions
from staging import pinned

MIB = 1 << 20


def main():
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    options = VirtualMemoryResourceOptions(handle_type=None)
    resource = VirtualMemoryResource(device, options)
    buffer = resource.allocate(2 * MIB, stream=stream)
    # What is right behind belongs to somebody, so that growing means moving.
    neighbour = resource.allocate(2 * MIB, stream=stream)
    count = buffer.size // 4
    source, values = pinned(count, np.uint32, np.arange(count))
    source.copy_to(buffer, stream=stream)
    stream.sync()

    buffer = resource.modify_allocation(buffer, 6 * MIB)
    assert buffer.size == 6 * MIB, buffer.size
    result, back = pinned(buffer.size // 4, np.uint32, 0)
    buffer.copy_to(result, stream=stream)
    stream.sync()
    assert np.array_equal(back[:count], values)
    buffer.fill(b"\x33", stream=stream)
    buffer.copy_to(result, stream=stream)
    stream.sync()
    assert np.all(back == 0x33333333)
    for one in (buffer, neighbour):
        one.close()
    print("cuda.core: a buffer of virtual memory that grew")


main()
