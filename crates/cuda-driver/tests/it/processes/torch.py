import gc
import sys

try:
    import torch

    torch.cuda.init()
except Exception as error:
    print("none", type(error).__name__, flush=True)
    sys.exit(0)

n = int(sys.argv[1])
print("ready", torch.__version__, flush=True)


def expect(name, got, want):
    if torch.equal(got, want):
        print("ok", flush=True)
    else:
        bad = (got != want).nonzero()
        print(name, len(bad), "elements differ, the first at", bad[0].item(), flush=True)


# A tensor of PyTorch, which the other process doubles.
tensor = torch.arange(n, dtype=torch.int32, device="cuda") * 3 + 1
storage = tensor.untyped_storage()
_, handle, size, offset, counter, counter_offset, event, _ = storage._share_cuda_()
prefix = handle[:-64]
print(handle[-64:].hex(), size, offset, event.hex(), flush=True)
assert sys.stdin.readline().split() == ["done"]
expect("tensor", tensor, (torch.arange(n, dtype=torch.int32, device="cuda") * 3 + 1) * 2)

# A buffer of the other process, which PyTorch multiplies by 5. The counter is for processes of
# PyTorch only: it counts down when the storage is freed.
memory, size, event = sys.stdin.readline().split()
opened = torch.UntypedStorage._new_shared_cuda(
    0, prefix + bytes.fromhex(memory), int(size), 0, b"/none", 0, bytes.fromhex(event), True
)
view = torch.empty(0, dtype=torch.int32, device="cuda").set_(opened)
expect("buffer", view, torch.arange(n, dtype=torch.int32, device="cuda") ^ 0x55)
view.mul_(5)
torch.cuda.synchronize()
del view, opened
gc.collect()
torch.cuda.synchronize()
print("closed", flush=True)
sys.stdin.readline()
