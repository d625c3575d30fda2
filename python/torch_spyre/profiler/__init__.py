"""Profiling: PyTorch's own profiler sees the operations of the device as it sees those of the CPU.

    with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profile:
        ...
    profile.export_chrome_trace("trace.json")

Kernels and copies have rows of their own, one for each stream, and their times are those of the device in
``profile.key_averages()``. :class:`torch.spyre.trace` shows more of what a card did, and nothing else.
"""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Returns True: the card's own activity appears in profiles."""
    return True
