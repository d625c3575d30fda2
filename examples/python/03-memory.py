"""Memory: the bytes that tensors take, the lines that took them, and the error when there are no more.

    python examples/python/03-memory.py
"""

import os
import tempfile

import torch

free, total = torch.spyre.mem_get_info()
print(f"{free >> 20} of {total >> 20} MiB are free")

# Memory comes in sticks of 128 bytes.
before = torch.spyre.memory_allocated()
x = torch.empty(512, 240, dtype=torch.float16, device="spyre")
print(f"a float16 tensor of (512, 240) takes {torch.spyre.memory_allocated() - before} bytes: 4 x 512 sticks")
assert torch.spyre.memory_allocated() - before == 4 * 512 * 128
del x
assert torch.spyre.memory_allocated() == before

# Who took it: a file for https://pytorch.org/memory_viz.
torch.spyre.memory._record_memory_history()
kept = [torch.ones(1000, device="spyre") for _ in range(3)]
path = os.path.join(tempfile.mkdtemp(), "memory.pickle")
torch.spyre.memory._dump_snapshot(path)
events = torch.spyre.memory._snapshot()["device_traces"][0]
frame = next(event for event in events if event["action"] == "alloc")["frames"][0]
print(f"the first of {len(events)} events is from line {frame['line']} of {os.path.basename(frame['filename'])}")
torch.spyre.memory._record_memory_history(None)

# Past the limit there is an error with the numbers, and the device goes on.
try:
    torch.empty(2 * total, dtype=torch.int8, device="spyre")
except torch.OutOfMemoryError as error:
    print(f"out of memory: {str(error).splitlines()[0]}")
print(torch.spyre.memory_summary(abbreviated=True))
