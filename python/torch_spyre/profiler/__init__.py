"""Profiling: PyTorch's own profiler sees the operations of the device as it sees those of the CPU.

    with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profile:
        ...
    profile.export_chrome_trace("trace.json")

What the card itself did, block by block, is not part of it yet: :func:`is_available` says so.
"""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether the card's own activity appears in profiles."""
    return False
