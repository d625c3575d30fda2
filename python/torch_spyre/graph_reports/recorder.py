"""Notes of what Inductor writes for a graph, and its report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch._inductor import config, ir
from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import BaseSchedulerNode, NopKernelSchedulerNode
from torch._inductor.virtualized import V

from ..hints import check_core_count, get_op_hints
from ..inductor_logging import codegen_log
from . import debug_files
from .extern_reasons import extern_report
from .graph_report import CallReport, GraphReport, KernelReport, OperandReport
from .lifetimes import buffers_of
from .named_kernels import check_hints
from .source_lines import lines_of, operators_of

if TYPE_CHECKING:
    from .._inductor.groups import Group
    from .._inductor.kernel_text import KernelText

__all__ = ["GraphRecorder", "has_listeners", "listen", "note_graph", "note_kernel", "recorded"]

Listener = Callable[[GraphReport, Any], None]

_listeners: list[Listener] = []
"""Functions that are given the report of each graph that is compiled, and its code."""
_recorders: list[GraphRecorder] = []
"""Graphs that are being compiled, the innermost last."""


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Has a function be given each graph that is compiled in this scope."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def has_listeners() -> bool:
    """Returns true if each call of a graph is looked at by itself: its launches are not joined in segments."""
    return bool(_listeners)


def recorded(compile_graph: Callable[[], Any], *, is_backward: bool) -> Any:
    """Compiles a graph. Reports it, if there are listeners or Inductor writes files for debugging."""
    check_core_count()
    if not _listeners and not config.trace.enabled:
        return compile_graph()
    recorder = GraphRecorder(is_backward)
    _recorders.append(recorder)
    try:
        code = compile_graph()
    finally:
        _recorders.remove(recorder)
    report = recorder.report()
    if config.trace.enabled:
        debug_files.write(report)
    for listener in _listeners:
        listener(report, code)
    return code


def note_graph(graph: GraphLowering) -> None:
    """Notes a graph that is being compiled, or a part of one."""
    if _recorders:
        _recorders[-1].add_graph(graph)


def note_kernel(group: Group, kernel: KernelText, name: str, launch: str) -> None:
    """Notes a kernel of the graph that is being compiled."""
    check_hints(V.graph, group, kernel)
    if _recorders or codegen_log.isEnabledFor(logging.DEBUG):
        text = _text_of(name)
        codegen_log.debug("%s", text)
        if _recorders:
            _recorders[-1].add_kernel(group, kernel, name, launch, text)


def _text_of(name: str) -> str:
    texts = V.graph.wrapper_code.root.spyre_kernels
    text = next(text for (text, _), known in texts.items() if known == name)
    return text.replace("kernel graph(", f"kernel {name}(", 1)


@dataclass
class _Part:
    """A graph, or a branch or loop in it, which has nodes of its own."""

    graph: GraphLowering
    kernels: list[tuple[KernelReport, set[str]]] = field(default_factory=list)
    """Its kernels, as they are written, and the names of the nodes in each."""


class GraphRecorder:
    """Notes of a graph that is being compiled."""

    def __init__(self, is_backward: bool) -> None:
        self._is_backward = is_backward
        self._parts: dict[int, _Part] = {}

    def add_kernel(self, group: Group, kernel: KernelText, name: str, launch: str, text: str) -> None:
        """Notes a kernel, while its graph is the current one."""
        origins = [origin for node in group.nodes for origin in node.node.get_origins()]
        stored = [buffer for node in group.nodes for buffer in node.get_buffer_names()]
        report = KernelReport(
            name,
            lines_of(origins),
            _hints_of(group.nodes),
            operators=operators_of(origins),
            loops=len(group.nodes),
            dims={dim: _number(extent) for dim, extent in kernel.extents.items()},
            operands=[
                OperandReport(each.name, each.role, str(each.dtype).removeprefix("torch."), each.dims, each.buffer)
                for each in kernel.operands
            ],
            not_stored=[buffer for buffer in stored if buffer in V.graph.removed_buffers],
            text=text,
            launch=launch,
        )
        self._parts[id(V.graph)].kernels.append((report, {node.get_name() for node in group.nodes}))

    def add_graph(self, graph: GraphLowering) -> None:
        """Notes a graph, before its kernels."""
        self._parts.setdefault(id(graph), _Part(graph))

    def report(self) -> GraphReport:
        """The report of the graph, once it is compiled."""
        report = GraphReport(_name_of(self._parts.values()), self._is_backward)
        for part in self._parts.values():
            first = len(report.calls)
            places = _order(part, report.calls)
            report.buffers += buffers_of(part.graph, places, first)
        return report


def _name_of(parts: Any) -> str:
    names = [str(part.graph.graph_id) for part in parts if part.graph.graph_id is not None]
    return names[0] if names else "without kernels"


def _hints_of(nodes: Sequence[BaseSchedulerNode]) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for node in nodes:
        hints.update(get_op_hints(node))
    return hints


def _order(part: _Part, calls: list[CallReport]) -> dict[str, int]:
    """Adds a graph's calls in the order in which it makes them, and gives the place of each of its nodes."""
    places: dict[str, int] = {}
    waiting = list(part.kernels)
    seen: set[str] = set()

    def flush() -> None:
        for kernel, nodes in [entry for entry in waiting if entry[1] <= seen]:
            waiting.remove((kernel, nodes))
            places.update(dict.fromkeys(nodes, len(calls)))
            calls.append(kernel)

    for node in (inner for outer in part.graph.scheduler.nodes for inner in outer.get_nodes()):
        seen.add(node.get_name())
        if isinstance(node.node, ir.MultiOutput) or isinstance(node, NopKernelSchedulerNode):
            continue  # a name for what another call makes
        if any(node.get_name() in nodes for _, nodes in part.kernels):
            continue
        flush()
        places[node.get_name()] = len(calls)
        calls.append(extern_report(node))
    flush()
    return places


def _number(extent: Any) -> int | str:
    return int(extent) if getattr(extent, "is_number", True) else str(extent)
