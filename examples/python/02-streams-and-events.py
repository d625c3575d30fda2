"""Two streams, an event between them, and the time between two events.

    python examples/python/02-streams-and-events.py
"""

import torch

host = torch.arange(1 << 20, dtype=torch.float32).pin_memory()
loads, reads = torch.spyre.Stream(), torch.spyre.Stream(priority=-1)
start, end = (torch.spyre.Event(enable_timing=True) for _ in range(2))

# A copy from pinned memory with non_blocking=True returns at once.
with loads:
    start.record()
    on_device = host.to("spyre", non_blocking=True)
    loaded = loads.record_event()
    end.record()

# The second stream starts when the first has loaded. Nothing on the host waits for it.
reads.wait_event(loaded)
with reads:
    back = torch.empty_like(host).pin_memory()
    back.copy_(on_device, non_blocking=True)
reads.synchronize()

assert torch.equal(back, host)
print(f"{loads} loaded {host.nbytes >> 20} MiB in {start.elapsed_time(end):.2f} ms")
print(f"{reads} read them back: all {host.numel()} are the same")

# Streams are per thread: what is not inside a `with` goes to the default one.
assert torch.spyre.current_stream() == torch.spyre.default_stream()
torch.spyre.synchronize()
