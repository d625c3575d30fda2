"""Names of the dims of kernels, handed on from what they read to what they write; and hints that speak of them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from torch._inductor.graph import GraphLowering

from .._inductor import config
from .._inductor.errors import Unsupported
from ..hints import get_op_hints, indivisible
from ..named_dims import names_of

if TYPE_CHECKING:
    from .._inductor.groups import Group
    from .._inductor.kernel_text import KernelText

__all__ = ["check_hints"]

Names = dict[Any, str]
"""Names of a buffer's dims, by their strides."""

_graphs: weakref.WeakKeyDictionary[GraphLowering, dict[str, Names]] = weakref.WeakKeyDictionary()
"""Names of buffers, of the graphs that are being compiled."""


def check_hints(graph: GraphLowering, group: Group, kernel: KernelText) -> None:
    """Refuses hints that a card could not follow in this kernel, and notes the names of what it makes."""
    buffers = _graphs.get(graph)
    if buffers is None:
        buffers = _graphs[graph] = _named_inputs(graph)
    hints = [get_op_hints(node) for node in group.nodes]
    if not buffers and not any(hints):
        return
    dims = _named_dims(kernel, buffers)
    for node, member, of_node in zip(group.nodes, group.members, hints):
        made = node.node.get_layout()
        names = of_node.get("named_dims")
        if names is not None and len(names) == len(made.stride):
            buffers[node.node.get_name()] = dict(zip(made.stride, names))
            dims |= _named_dims(kernel, buffers)
        if not config.ignore_work_division_hints:
            _check(of_node.get("work_div", {}), dims, kernel, {dims.get(dim) for dim in member.reduced})
    for operand in kernel.operands:
        if operand.role != "in" and operand.buffer not in buffers:
            strides = zip(operand.dims, operand.strides)
            buffers[operand.buffer] = {stride: dims[dim] for dim, stride in strides if dim in dims}


def _named_inputs(graph: GraphLowering) -> dict[str, Names]:
    """Arguments of a graph whose dims the program named."""
    found = {}
    for node in graph.module.graph.find_nodes(op="placeholder"):
        names = names_of(node.meta["val"]) if hasattr(node.meta.get("val"), "untyped_storage") else None
        argument = graph.graph_inputs.get(node.target)
        if names is not None and hasattr(argument, "get_stride"):
            found[argument.get_name()] = dict(zip(argument.get_stride(), names))
    return found


def _named_dims(kernel: KernelText, buffers: dict[str, Names]) -> dict[str, str]:
    """The names of a kernel's dims: those of the buffers that it goes through in the same strides."""
    dims: dict[str, str] = {}
    for operand in kernel.operands:
        names = buffers.get(operand.buffer, {})
        for dim, stride in zip(operand.dims, operand.strides):
            if stride in names:
                dims.setdefault(dim, names[stride])
    return dims


def _check(work: dict[str, int], dims: dict[str, str], kernel: KernelText, reduced: set[str | None]) -> None:
    for dim, name in dims.items():
        count = work.get(name, 1)
        if count > 1 and name in reduced:
            raise Unsupported(f"work_div of {count} along {name!r}: it is one of the reduction dimensions")
        extent = kernel.extents[dim]
        refusal = indivisible("work_div", name, count, int(extent)) if getattr(extent, "is_number", True) else ""
        if refusal:
            raise Unsupported(refusal)
