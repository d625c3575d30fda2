"""Names that the modules of compiled graphs use: kernels, launches of them, and functions of sizes."""

from __future__ import annotations

from .._C import GraphLaunch, GraphSegment
from .._C import _compile_kernel as spyre_kernel
from ..fake_layouts import explicit_layout
from ..layouts import spyre_empty_strided

__all__ = ["GraphLaunch", "GraphSegment", "Where", "explicit_layout", "spyre_empty_strided", "spyre_kernel"]


def Where(condition: bool, yes: int, no: int) -> int:  # noqa: N802  as Inductor spells it in expressions of sizes
    """One of two numbers."""
    return yes if condition else no
