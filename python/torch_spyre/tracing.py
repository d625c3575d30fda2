"""Traces: what the cards did, block by block, for a trace viewer.

    with torch.spyre.trace("step.pftrace") as trace:
        model(x)
    print(trace)

Each stream is a row. A span is a kernel or a copy; it says what it was launched on, how long it was queued, and
once more, in rows of their own, how long it would have taken on a real card. https://ui.perfetto.dev opens both
formats.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, NamedTuple

from . import _C

__all__ = ["trace"]


class TracedOperation(NamedTuple):
    """An Operation that a card was given: steps, and a compute. The last blocks of those before it ended earlier."""

    device: int
    stream: int
    name: str
    """The compute's; of copies alone, "copies"."""
    steps: list[str]
    """Steps before the compute: ``CopyToDevice`` and ``DeviceLaunch`` for a program correction, or copies. A
    program that is launched again as it is needs no correction."""
    has_compute: bool
    tensors: str
    """Shapes of its tensors."""


class trace:
    """Records all cards while it is entered, and writes a file at its end.

    A name that ends in ``.pftrace`` gives Perfetto's own format, any other Chrome's JSON. Without a path nothing
    is written, and only the numbers are kept.
    """

    path: str | None
    """File of the trace."""
    blocks: int = 0
    """Number of blocks that the cards were given: kernels, copies, events, and program corrections."""
    kernels: int = 0
    """Kernels that were launched."""
    copies: int = 0
    """Copies between host and card, and on cards."""
    operations: list[TracedOperation]
    """Operations that the cards were given: all work that PyTorch asks of a device is one."""
    lost: int = 0
    """Blocks that there was no room for: 2,097,152 of each card are kept."""
    modelled_seconds: float = 0.0
    """Time of all of it on a real card: kernels, copies, collectives and launches, one after the other."""
    modelled_kernel_seconds: float = 0.0
    """Time of kernels there, by a model that was fitted to measured ones."""
    modelled_copy_seconds: float = 0.0
    """Time of copies and fills there. Rates and latencies are assumed: none are published."""
    modelled_collective_seconds: float = 0.0
    """Time of collectives there, one card for each rank: rates and latencies are assumed, as those of copies."""
    modelled_launch_seconds: float = 0.0
    """Time of launches there, without their kernels: 20 us each, which is assumed."""
    _modelled: str = ""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else os.fspath(path)
        self._number: int | None = None
        self.operations = []

    def __enter__(self) -> trace:
        if self._number is not None:
            raise RuntimeError(f"the trace {self.path!r} is being recorded already")
        _C.free_runtime()  # waits for all cards
        self._number = _C.start_recording()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        number, self._number = self._number, None
        if number is None:
            return
        try:
            _C.free_runtime()
        finally:  # a stream that failed has a trace, too
            self._take(_C.stop_recording(number, self.path))

    def _take(self, numbers: dict[str, Any]) -> None:
        self.operations = [TracedOperation(*operation) for operation in numbers["operations"]]
        self.blocks, self.kernels = numbers["blocks"], numbers["kernels"]
        self.copies, self.lost = numbers["copies"], numbers["lost"]
        self.modelled_seconds = numbers["modelled_nanoseconds"] / 1e9
        self.modelled_kernel_seconds = numbers["modelled_kernels_nanoseconds"] / 1e9
        self.modelled_copy_seconds = numbers["modelled_copies_nanoseconds"] / 1e9
        self.modelled_collective_seconds = numbers["modelled_collectives_nanoseconds"] / 1e9
        self.modelled_launch_seconds = numbers["modelled_launches_nanoseconds"] / 1e9
        self._modelled = numbers["modelled_text"]

    def __repr__(self) -> str:
        if self._number is not None:
            return f"<trace {self.path!r}, being recorded>"
        done = f"{self.kernels} kernels, {self.copies} copies"
        return f"<trace {self.path!r}: {done}; on a real card {self._modelled or 'nothing'}>"
