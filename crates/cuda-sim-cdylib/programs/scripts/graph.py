"""Graphs: one that cuda.core captures, one that is captured and updated through cuda.bindings, and
the memory of graphs.
"""

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, GraphMemoryResource, LaunchConfig, Program, ProgramOptions, launch
from staging import pinned

SOURCE = """
extern "C" __global__ void add(int* values, int number, size_t n) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) values[i] += number;
}
extern "C" __global__ void multiply(int* values, int number, size_t n) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) values[i] *= number;
}
"""
COUNT = 1000
SUCCESS = driver.CUresult.CUDA_SUCCESS


def ok(returned):
    """Returns the values of a call of cuda.bindings. Its status must be success."""
    status, *values = returned
    assert status == SUCCESS, status
    return values[0] if len(values) == 1 else tuple(values)


def core(device, add, multiply):
    """Two branches, joined: (v + 3) and (w * 5), then v + 7; launched three times."""
    stream = device.create_stream()
    config = LaunchConfig(grid=4, block=256)
    host = [pinned(COUNT, np.int32, np.arange(COUNT) + start) for start in (0, 17)]
    v, w = (device.allocate(buffer.size, stream=stream) for buffer, _ in host)
    for (buffer, _), copy in zip(host, (v, w)):
        buffer.copy_to(copy, stream=stream)
    stream.sync()

    builder = device.create_graph_builder().begin_building()
    left, right = builder.split(2)
    n = np.uint64(COUNT)
    launch(left, config, add, v, np.int32(3), n)
    launch(right, config, multiply, w, np.int32(5), n)
    builder = builder.join(left, right)
    launch(builder, config, add, v, np.int32(7), n)
    graph = builder.end_building().complete()
    graph.upload(stream)
    for _ in range(3):
        graph.launch(stream)
    results = [pinned(COUNT, np.int32, 0) for _ in range(2)]
    for copy, (buffer, _) in zip((v, w), results):
        copy.copy_to(buffer, stream=stream)
    stream.sync()
    assert np.array_equal(results[0][1], host[0][1] + 3 * 10)
    assert np.array_equal(results[1][1], host[1][1] * 125)
    print("cuda.core: 3 launches of a graph with two branches")


def memory(device):
    """Memory that a graph allocates is in use from its launch until it is freed and trimmed."""
    stream = device.create_stream()
    resource = GraphMemoryResource(device)
    resource.trim()
    assert resource.attributes.used_mem_current == 0, resource.attributes
    assert resource.attributes.reserved_mem_current == 0, resource.attributes
    builder = device.create_graph_builder().begin_building("relaxed")
    buffer = resource.allocate(1024, stream=builder)
    graph = builder.end_building().complete()
    graph.upload(stream)
    graph.launch(stream)
    stream.sync()

    def in_use():
        attributes = resource.attributes
        assert attributes.used_mem_current >= 1024, attributes
        assert attributes.used_mem_high >= attributes.used_mem_current, attributes
        assert attributes.reserved_mem_current >= attributes.used_mem_current, attributes
        assert attributes.reserved_mem_high >= attributes.reserved_mem_current, attributes

    in_use()
    buffer.close(stream=stream)
    stream.sync()
    in_use()
    resource.trim()
    assert resource.attributes.used_mem_current == 0, resource.attributes
    assert resource.attributes.reserved_mem_current == 0, resource.attributes
    assert resource.attributes.used_mem_high >= 1024, resource.attributes
    print("cuda.core: an allocation of a graph, until it was trimmed")


def bindings(ptx):
    """A captured graph: its nodes, its launches, and an update of a kernel's argument."""
    library = ok(driver.cuModuleLoadData(ptx))
    add = ok(driver.cuModuleGetFunction(library, b"add"))
    stream = ok(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    address = ok(driver.cuMemAlloc(4 * COUNT))
    values = np.zeros(COUNT, np.int32)

    def capture(number):
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        ok(driver.cuStreamBeginCapture(stream, mode))
        arguments = [np.array([x], t) for x, t in ((int(address), np.uint64), (number, np.int32), (COUNT, np.uint64))]
        pointers = np.array([argument.ctypes.data for argument in arguments], np.uint64)
        ok(driver.cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, stream, pointers.ctypes.data, 0))
        ok(driver.cuMemcpyDtoHAsync(values.ctypes.data, address, values.nbytes, stream))
        return ok(driver.cuStreamEndCapture(stream))

    graph = capture(11)
    nodes, count = ok(driver.cuGraphGetNodes(graph))
    nodes, count = ok(driver.cuGraphGetNodes(graph, count))
    kinds = [ok(driver.cuGraphNodeGetType(node)) for node in nodes]
    kind = driver.CUgraphNodeType
    assert sorted(kinds) == sorted([kind.CU_GRAPH_NODE_TYPE_KERNEL, kind.CU_GRAPH_NODE_TYPE_MEMCPY]), kinds
    executable = ok(driver.cuGraphInstantiate(graph, 0))
    ok(driver.cuMemsetD32(address, 100, COUNT))
    for _ in range(2):
        ok(driver.cuGraphLaunch(executable, stream))
    ok(driver.cuStreamSynchronize(stream))
    assert np.all(values == 122), values

    changed = capture(-22)
    result = ok(driver.cuGraphExecUpdate(executable, changed))
    assert result.result == driver.CUgraphExecUpdateResult.CU_GRAPH_EXEC_UPDATE_SUCCESS
    ok(driver.cuGraphLaunch(executable, stream))
    ok(driver.cuStreamSynchronize(stream))
    assert np.all(values == 100), values

    ok(driver.cuGraphExecDestroy(executable))
    for one in (graph, changed):
        ok(driver.cuGraphDestroy(one))
    ok(driver.cuMemFree(address))
    ok(driver.cuStreamDestroy(stream))
    ok(driver.cuModuleUnload(library))
    print("cuda.bindings: 3 launches of a captured graph, the last one updated")


def main():
    device = Device(0)
    device.set_current()
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    module = Program(SOURCE, code_type="c++", options=options).compile("ptx")
    core(device, module.get_kernel("add"), module.get_kernel("multiply"))
    memory(device)
    bindings(bytes(module.code) + b"\0")


main()
