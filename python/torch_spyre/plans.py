"""Plans of kernels: where they came from, and what a real card would make of them."""

from __future__ import annotations

from . import _C

__all__ = ["card_reports", "plan_stats"]


def card_reports() -> list[tuple[str, list[str]]]:
    """Each kernel that was launched: its name, and what a real card would make of it.

    A note begins with what becomes of it: ``refused``, ``host``, ``decomposed`` or ``narrowed``. Under
    ``SPYRE_PROFILE=card`` there is also what launches found: tensors that were restickified, and what is more than a
    core's scratchpad holds or its address space reaches.
    """
    return _C.card_reports()


def plan_stats() -> dict[str, int]:
    """Returns the number of plans of this process, and where they came from.

    ``memory_hits``, ``bundle_hits`` and ``folder_hits`` were found: in memory, among those that ship with the
    package, and in the folder that processes share. ``compiled`` had to be made; ``broken`` files were not used.
    """
    return _C.plan_stats()
