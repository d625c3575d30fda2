"""Plans of kernels: where they came from."""

from __future__ import annotations

from . import _C

__all__ = ["plan_stats"]


def plan_stats() -> dict[str, int]:
    """How many plans this process has, and where they came from.

    ``memory_hits``, ``bundle_hits`` and ``folder_hits`` were found: in memory, among those that ship with the
    package, and in the folder that processes share. ``compiled`` had to be made; ``broken`` files were not used.
    """
    return _C.plan_stats()
