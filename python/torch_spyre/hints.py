"""Hints of programs to the compiler, kept on the nodes of graphs.

    with spyre_hint(work_div={"rows": 8}):
        y = x @ w

Each node of a graph that is traced in such a scope has the hints in ``node.meta["custom"]``, its gradient too, and so has
what Inductor makes of it; :func:`get_op_hints` reads them. The compiler of the software card divides work by itself: a
hint changes no kernel, but one that a card could not follow is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
import torch.fx.traceback

from ._inductor.errors import Unsupported
from .constants import CORES
from .named_dims import declared_size

__all__ = ["check_core_count", "get_op_hints", "spyre_hint"]

_PREFIX = "spyre."
"""Beginning of the keys of hints: nested scopes add to each other, hint by hint."""
_COUNTED = ("num_tiles_per_dim", "work_div")


def spyre_hint(
    *,
    num_tiles_per_dim: Mapping[str, int] | None = None,
    work_div: Mapping[str, int] | None = None,
    tiles: Any = None,
    slices: Any = None,
    named_dims: Iterable[str] | None = None,
) -> AbstractContextManager[None]:
    """A scope whose operations have these hints, inside of compiled functions and around calls of them.

    ``num_tiles_per_dim`` and ``work_div`` are numbers by the names of dims: tiles along it, and cores that share it.
    ``named_dims`` names the dims of what the scope makes. ``tiles`` and ``slices`` are kept as they are. Names come from
    :func:`declare_tensor_dim` and :func:`name_tensor_dims`. A graph keeps the hints under which it was compiled.
    """
    annotation, refusal = _annotation_of(
        {
            "num_tiles_per_dim": num_tiles_per_dim,
            "work_div": work_div,
            "tiles": tiles,
            "slices": slices,
            "named_dims": named_dims,
        }
    )
    if refusal:
        raise Unsupported(refusal)
    if torch.compiler.is_dynamo_compiling():
        return torch.fx.traceback.annotate(annotation)
    return _annotated(annotation)


# Dynamo sees it as a part of other functions only: a scope that is left by a graph break is made anew, in Python.
_skipped = torch._C._dynamo.eval_frame._FrameAction.SKIP
torch._C._dynamo.eval_frame.set_code_exec_strategy(
    spyre_hint.__code__, torch._C._dynamo.eval_frame._FrameExecStrategy(_skipped, _skipped)
)


@contextmanager
def _annotated(annotation: dict[str, Any]) -> Iterator[None]:
    """A scope outside of graphs: those that are traced in it keep what nodes are annotated with."""
    with torch.fx.traceback.annotate(annotation), torch.fx.traceback.preserve_node_meta():
        yield


def _annotation_of(hints: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The hints that are given, as nodes keep them; and the first reason to refuse them, if there is one."""
    given = {name: hint for name, hint in hints.items() if hint is not None}
    for name in _COUNTED:
        refusal = _refusal(name, given.get(name, {}))
        if refusal:
            return {}, refusal
    return {_PREFIX + name: hint for name, hint in given.items()}, ""


_annotation_of._dynamo_marked_constant = True  # type: ignore[attr-defined]  # Dynamo calls it as it is


def _refusal(name: str, counts: Mapping[str, int]) -> str:
    """The reason for which a card cannot divide dims in this way; an empty text if it can."""
    from ._inductor import config

    for dim, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            return f"{name} of {count!r} along {dim!r}: it must be positive"
        refusal = indivisible(name, dim, count, declared_size(dim))
        if refusal:
            return refusal
    cores = math.prod(counts.values())
    if name == "work_div" and not config.ignore_work_division_hints and cores > config.sencores:
        return f"work_div among {cores} cores, which exceeds SENCORES, {config.sencores}"
    return ""


def indivisible(name: str, dim: str, count: int, size: int | None) -> str:
    """The refusal of a dim that does not go into so many parts; an empty text if it does."""
    if size is None or size % count == 0:
        return ""
    return f"{name} of {count} along {dim!r}, which has {size} elements: they are not evenly divisible"


def check_core_count() -> None:
    """Refuses a number of cores that no card has."""
    from ._inductor import config

    if not 1 <= config.sencores <= CORES:
        raise Unsupported(f"invalid SENCORES value {config.sencores}")


def get_op_hints(node: Any) -> dict[str, Any]:
    """The hints of a node: of a graph's, or of what Inductor made of several, whose hints it has."""
    if hasattr(node, "meta"):
        custom = node.meta.get("custom") or {}
        return {name.removeprefix(_PREFIX): hint for name, hint in custom.items() if name.startswith(_PREFIX)}
    operation = getattr(node, "node", node)
    hints: dict[str, Any] = {}
    for origin in getattr(operation, "origins", ()):
        hints.update(get_op_hints(origin))
    return hints
