"""Kernels of compiled graphs, as the modules that Inductor writes call them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .. import _C
from ..kernels import scalar_words

__all__ = ["GraphKernel", "Where", "spyre_kernel"]

_launch = torch.ops.spyre._launch.default


class GraphKernel:
    """A kernel of a graph: it is launched on views of the graph's buffers."""

    def __init__(self, text: str, max_tile: int | None) -> None:
        self._compiled = _C._compile_kernel(text, max_tile)
        self.name = self._compiled.name

    def __call__(self, device: int, operands: Sequence[torch.Tensor], scalars: Sequence[int | float]) -> None:
        """Launches it on the current stream of a device."""
        _launch("", self._compiled._number(device), operands, scalar_words(scalars) if scalars else (), self.name, 0)

    def __repr__(self) -> str:
        return f"<GraphKernel {self.name}>"


def Where(condition: bool, yes: int, no: int) -> int:  # noqa: N802  as Inductor spells it in expressions of sizes
    """One of two numbers."""
    return yes if condition else no


def spyre_kernel(text: str, max_tile: int | None = None) -> GraphKernel:
    """Compiles a kernel, or finds its plan in the cache."""
    return GraphKernel(text, max_tile)
