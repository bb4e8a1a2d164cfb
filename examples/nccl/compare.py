"""Times all-reduces of this example and of PyTorch on the GPUs of this machine, in turns, with the
same NCCL library, and checks what happens when a process is killed.

    python compare.py PROGRAM [--rounds N]           all-reduce of 1 GiB, PROGRAM and PyTorch in turns
    python compare.py PROGRAM --kill N               kills one of two processes N times

PROGRAM is the example: target/release/examples/nccl.
"""

import argparse
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time

MIB = 1024
TIMED = 20

WORKER = """
import os, statistics, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
x = torch.zeros({mib} << 18, device="cuda")
for _ in range(5):
    dist.all_reduce(x)
torch.cuda.synchronize()
events = [torch.cuda.Event(enable_timing=True) for _ in range({timed} + 1)]
events[0].record()
for event in events[1:]:
    dist.all_reduce(x)
    event.record()
torch.cuda.synchronize()
times = sorted(a.elapsed_time(b) for a, b in zip(events, events[1:]))
if rank == 0:
    print("milliseconds", times[len(times) // 2], flush=True)
dist.destroy_process_group()
"""


def library():
    """Returns the path of the NCCL library that PyTorch uses, and its version."""
    code = (
        "import torch; torch.cuda.nccl.version(); "
        "print([l.split()[-1] for l in open('/proc/self/maps') if 'libnccl' in l][0]); "
        "print('.'.join(map(str, torch.cuda.nccl.version())))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if found.returncode != 0:
        sys.exit(f"PyTorch with a shared NCCL library is needed:\n{found.stderr}")
    return found.stdout.split()


def port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return str(server.getsockname()[1])


def environment(rank, address):
    return {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": address,
    }


def start(command, **options):
    address = port()
    return [
        subprocess.Popen(
            command, env=environment(rank, address), stdout=subprocess.PIPE, text=True, **options
        )
        for rank in range(2)
    ]


def ours(program):
    command = [program, "all-reduce", "--mib", str(MIB), "--rounds", str(TIMED)]
    return finish(start(command, stderr=subprocess.STDOUT), " ranks: ")


def torch():
    code = WORKER.format(mib=MIB, timed=TIMED)
    return finish(start([sys.executable, "-c", code]), "milliseconds ")


def finish(processes, before):
    """Waits for the processes; returns the number after `before` in their output."""
    text = "".join(process.communicate(timeout=100)[0] for process in processes)
    if any(process.returncode for process in processes) or before not in text:
        sys.exit(f"a process failed:\n{text}")
    return float(text.split(before)[1].split()[0])


def compare(program, rounds):
    times = {"this example": [], "PyTorch": []}
    for _ in range(rounds):
        times["this example"].append(ours(program))
        times["PyTorch"].append(torch())
    for name, values in times.items():
        shown = ", ".join(f"{value:.4f}" for value in values)
        print(f"{name}: {statistics.median(values):.4f} ms (each: {shown})")
    mine, other = (statistics.median(values) for values in times.values())
    print(f"all-reduce of {MIB} MiB: {100 * (mine / other - 1):+.2f} % of PyTorch's time")
    return abs(mine / other - 1) <= 0.02 or mine < other


def used_memory():
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return [int(line) for line in subprocess.check_output(query, text=True).split()]


def kill(program, count, seed):
    """Kills one of two processes at a random time; the other one must end with an error."""
    choose = random.Random(seed)
    before, slowest, ok = used_memory(), 0.0, True
    for turn in range(count):
        pair = start([program, "train", "--steps", "100000000"], stderr=subprocess.PIPE)
        # After the processes have joined: from before the communicator exists until training.
        time.sleep(choose.uniform(0.3, 3.0))
        victim = choose.randrange(2)
        killed, other = pair[victim], pair[1 - victim]
        began = time.monotonic()
        killed.send_signal(signal.SIGKILL)
        try:
            _, errors = other.communicate(timeout=70)
        except subprocess.TimeoutExpired:
            other.kill()
            errors = other.communicate()[1] + " (killed after 70 s)"
        took = time.monotonic() - began
        killed.communicate()
        last = errors.strip().splitlines()[-1] if errors.strip() else "no output"
        good = other.returncode == 1 and took < 10
        if not good or turn < 3:
            print(f"kill {turn}: rank {victim}, {took:.1f} s, status {other.returncode}: {last}")
        ok, slowest = ok and good, max(slowest, took)
    time.sleep(1)
    children = subprocess.run(
        ["ps", "-o", "pid=,stat=", "--ppid", str(os.getpid())], capture_output=True, text=True
    ).stdout
    zombies = [line for line in children.splitlines() if " Z" in line]
    after = used_memory()
    print(f"{count} kills: slowest end {slowest:.1f} s, zombies: {len(zombies)}, "
          f"MiB in use before: {before}, after: {after}")
    return ok and not zombies and all(b <= a + 16 for a, b in zip(before, after))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kill", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    path, version = library()
    print(f"NCCL {version}: {path}")
    os.environ["NCCL_LIBRARY"] = path
    # Multicast over NVLink changes the state of the switches, which other users share.
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    program = os.path.abspath(options.program)
    if options.kill:
        ok = kill(program, options.kill, options.seed)
    else:
        ok = compare(program, options.rounds)
    sys.exit(not ok)


main()
