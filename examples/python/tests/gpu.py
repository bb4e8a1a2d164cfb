"""Checks the extension on a GPU, with PyTorch and CuPy.

A PyTorch tensor goes into a kernel of the extension, and the result comes out as a CuPy array, for
1,000 rounds in which nothing waits for the device. Then PyTorch captures graphs while a thread of the
extension uses the device.
"""

import sys
import time
import traceback

import cuda_exchange

try:
    import cupy
    import numpy
    import torch
except ImportError as error:
    sys.exit(f"skipped: {error}")

ROUNDS = 1000
LENGTHS = [1, 1000, 1 << 16, 1 << 20]


def exchange(session, torch_stream, cupy_stream):
    """Runs the rounds, and waits for the device only afterwards."""
    with torch.cuda.stream(torch_stream), cupy_stream:
        wrong = cupy.zeros((), dtype=cupy.int64)
        counts = torch.arange(ROUNDS, device="cuda", dtype=torch.float32)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for number in range(ROUNDS):
        length = LENGTHS[number % len(LENGTHS)]
        with torch.cuda.stream(torch_stream):
            # A kernel that takes long, so that the order of the streams matters.
            tensor = counts[number].expand(length).clone()
            for _ in range(3):
                tensor = tensor * 2
        with torch.cuda.stream(torch_stream):
            array = session.affine(tensor, 0.5, 1.0)
        # PyTorch may use the memory again when the extension has released it.
        del tensor
        with cupy_stream:
            result = cupy.from_dlpack(array)
            wrong += cupy.count_nonzero(result != 4 * number + 1)
        # The extension frees the memory behind the work of CuPy.
        del array, result
    seconds = time.perf_counter() - start
    cupy_stream.synchronize()
    assert int(wrong) == 0, f"{int(wrong)} wrong elements"
    return f"{ROUNDS} rounds are right; they were queued in {seconds:.3f} s"


def capture_beside(session, mode, allocates):
    """Captures and replays graphs of PyTorch while a thread of the extension uses the device."""
    side = torch.cuda.Stream()
    x = torch.ones(1 << 16, device="cuda")
    y = torch.zeros_like(x)
    with torch.cuda.stream(side):
        for _ in range(3):
            y.copy_(x * 2 + 1)
    torch.cuda.synchronize()
    worker = session.start_worker(allocates)
    graphs = 20
    for number in range(graphs):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side, capture_error_mode=mode):
            y.copy_(x)
            for _ in range(50):
                y.mul_(1.5).add_(1.0)
                time.sleep(0.0005)
        x.fill_(number)
        y.zero_()
        graph.replay()
        torch.cuda.synchronize()
        expected = float(number)
        reference = torch.full((1,), expected, device="cuda")
        for _ in range(50):
            reference = reference * 1.5 + 1.0
        assert torch.allclose(y, reference.expand_as(y), rtol=1e-3), (number, y[0], reference)
    rounds = worker.stop()
    assert rounds > 0
    return f"{graphs} graphs replayed; {rounds} rounds of the extension meanwhile"


def small(session):
    """Exchanges in the other direction, and of other kinds of memory."""
    tensor = torch.arange(6.0, device="cuda").view(2, 3)
    back = torch.from_dlpack(session.affine(tensor, 1.0, 1.0))
    assert back.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], back
    # A dimension of one element may have any stride.
    row = session.affine(tensor[:1], 2.0)
    assert row.shape == (1, 3)
    assert cupy.from_dlpack(row).tolist() == [[0.0, 2.0, 4.0]]
    array = session.device([1.0, 2.0])
    assert cupy.asarray(array).tolist() == [1.0, 2.0]
    managed = cupy.from_dlpack(session.managed([3.0, 4.0]))
    assert managed.tolist() == [3.0, 4.0]
    # PyTorch imports no page-locked memory, so NumPy does.
    pinned = torch.from_numpy(numpy.from_dlpack(session.pinned([5.0, 6.0])))
    assert pinned.tolist() == [5.0, 6.0]
    return "right"


def main():
    session = cuda_exchange.Session()
    print("driver", session.driver, "torch", torch.__version__, "cupy", cupy.__version__)
    failed = 0

    def step(name, body):
        nonlocal failed
        try:
            print(f"{name}: {body()}", flush=True)
        except Exception:
            failed += 1
            print(f"{name}: FAILED")
            traceback.print_exc()

    own = (torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True))
    default = (torch.cuda.default_stream(), cupy.cuda.Stream.null)
    step("own streams", lambda: exchange(session, *own))
    step("default streams", lambda: exchange(session, *default))
    step("other exchanges", lambda: small(session))
    # Released page-locked memory is freed after a wait for the context, which is not allowed during
    # a capture.
    session.synchronize()
    torch.cuda.synchronize()
    time.sleep(0.5)
    step("capture in thread-local mode", lambda: capture_beside(session, "thread_local", True))
    step("capture in global mode", lambda: capture_beside(session, "global", False))
    print("passed" if failed == 0 else f"{failed} steps failed")
    sys.exit(failed)


if __name__ == "__main__":
    main()
