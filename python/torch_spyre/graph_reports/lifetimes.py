"""Buffers of a compiled graph, and the calls between which they live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch._inductor import ir
from torch._inductor.graph import GraphLowering

from .._C import SpyreTensorLayout
from .graph_report import BufferReport

__all__ = ["buffers_of"]


def buffers_of(graph: GraphLowering, places: Mapping[str, int], first: int) -> list[BufferReport]:
    """The buffers with memory of their own; ``places`` are those of the nodes' calls, and ``first`` is that of none."""
    made, used = _uses(graph, places, first)
    outputs = set(graph.get_output_names())
    reports = []
    for name, place in made.items():
        layout = _own_layout(graph, name)
        if layout is None or name in graph.removed_buffers:
            continue
        chosen = getattr(layout, "chosen", None)
        reports.append(
            BufferReport(
                name,
                _bytes_of(graph, layout),
                str(layout),
                place,
                max(used.get(name, place), place),
                name in outputs,
                "=".join(chosen) if chosen else "",
            )
        )
    return reports


def _uses(graph: GraphLowering, places: Mapping[str, int], first: int) -> tuple[dict[str, int], dict[str, int]]:
    """The place of the call that makes each buffer, and of the last call that uses it."""
    made: dict[str, int] = {}
    used: dict[str, int] = {}
    real = graph.scheduler.mutation_real_name
    place = first
    for node in (inner for outer in graph.scheduler.nodes for inner in outer.get_nodes()):
        read = node.used_buffer_names()
        sources = [made[name] for name in read if name in made]
        place = places.get(node.get_name(), max(sources, default=place))
        for name in node.get_buffer_names():
            made.setdefault(name, place)
        if node.get_name() in places:
            for name in read:
                name = real.get(name, name)
                used[name] = max(used.get(name, place), place)
    return made, used


def _own_layout(graph: GraphLowering, name: str) -> ir.Layout | None:
    """The layout of a buffer that is neither another one, nor a part of one, nor several."""
    buffer = graph.scheduler.name_to_buf[name]
    layout: Any = buffer.node.layout
    is_own = isinstance(layout, ir.Layout) and not isinstance(layout, (ir.MutationLayoutSHOULDREMOVE, ir.NonOwningLayout))
    return layout if is_own and not buffer.get_aliases() and not buffer.get_mutations() else None


def _bytes_of(graph: GraphLowering, layout: ir.Layout) -> int:
    device_layout = getattr(layout, "device_layout", None)
    if isinstance(device_layout, SpyreTensorLayout):
        return device_layout.device_bytes()
    elements = graph.sizevars.optimization_hint(layout.storage_size(), fallback=0)
    return elements * layout.dtype.itemsize
