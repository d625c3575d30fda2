"""Launches of kernels that follow each other, written as one call of a graph's module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch._inductor.codegen.wrapper import AllocateLine
from torch._inductor.scheduler import OutputNode, SchedulerNode
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from .kernel_text import KernelText

__all__ = ["Launch", "Segment", "inner_buffers"]


@dataclass
class Launch:
    """A launch: its name in the module, its buffers and values, and the names of what it makes."""

    site: str
    buffers: list[str]
    values: list[str]
    results: list[str]


class Segment:
    """Launches that are one call. Buffers that only they read have no name in the module."""

    def __init__(
        self, nodes: Sequence[SchedulerNode], unused: OrderedSet[str], free: Callable[[OrderedSet[str]], None]
    ) -> None:
        """Launches of nodes, after which some buffers are unused."""
        self._waiting = OrderedSet(nodes)
        self._unused = unused
        self._free = free
        self._nodes: list[SchedulerNode] = []
        self._launches: list[Launch] = []

    def take_allocations(self, kernel: KernelText, first_line: int) -> list[Any]:
        """The buffers that the last lines allocate for a kernel to write. The lines are dropped: its launch does it."""
        lines = V.graph.wrapper_code.lines
        operands = {operand.buffer for operand in kernel.operands if operand.role == "out"}
        taken = []
        while len(lines) > first_line and type(lines[-1]) is AllocateLine:
            buffer = lines[-1].node
            if buffer.get_name() not in operands or buffer.get_device().type != "spyre":
                break
            taken.append(lines.pop().node)
        if any(type(line) is not AllocateLine for line in lines[first_line:]):
            others = lines[first_line:]  # they may use what the launches before them make
            del lines[first_line:]
            self.close()
            lines.extend(others)
        return taken[::-1]

    def add(self, nodes: Sequence[SchedulerNode], launch: Launch) -> None:
        self._nodes.extend(nodes)
        self._launches.append(launch)
        self._waiting -= OrderedSet(nodes)

    def close(self) -> None:
        """Writes the call of all launches so far."""
        nodes, launches = self._nodes, self._launches
        self._nodes, self._launches = [], []
        real_name = V.graph.scheduler.mutation_real_name
        outputs = [buffer for node in nodes for buffer in node.get_outputs()]
        shared = OrderedSet(real_name.values()).union(*(buffer.get_aliases() for buffer in outputs))
        inner = OrderedSet(name for node in nodes for name in inner_buffers(node, nodes)) - shared
        used = OrderedSet(real_name.get(name, name) for node in self._waiting for name in node.used_buffer_names())
        freed = self._unused - used
        self._unused -= freed
        made = OrderedSet(result for launch in launches for result in launch.results)
        if len(launches) > 1:
            _write_all(launches, inner, lambda: self._free(freed - made))
            freed = freed & made - inner
        elif launches:
            _write(launches[0].results, launches[0].site, [*launches[0].buffers, *launches[0].values])
        self._free(freed)


def _write_all(launches: Sequence[Launch], inner: OrderedSet[str], free: Callable[[], None]) -> None:
    """Writes one call, whose buffers are in a list: what the module has no further use for is the call's to end."""
    made = [result for launch in launches for result in launch.results]
    given = dict.fromkeys(name for launch in launches for name in launch.buffers if name not in made)
    values = dict.fromkeys(value for launch in launches for value in launch.values)
    place = [*given, *made].index
    value = [*values].index
    steps = [f"({of.site}, {[*map(place, of.buffers)]}, {[*map(value, of.values)]})" for of in launches]
    kept = [at for at, result in enumerate(made) if result not in inner]
    wrapper = V.graph.wrapper_code
    site = f"GraphSegment([{', '.join(steps)}], ({len(given)}, {len(values)}), {kept})"
    wrapper.writeline(f"given = [{', '.join(given)}]")
    free()
    _write([made[at] for at in kept], wrapper.site_name("segment", site), ["given", *values])


def _write(results: Sequence[str], function: str, arguments: Iterable[str]) -> None:
    target = f"{', '.join(results)} = " if results else ""
    V.graph.wrapper_code.writeline(f"{target}{function}({', '.join(arguments)})")


def inner_buffers(node: SchedulerNode, among: Iterable[SchedulerNode]) -> list[str]:
    """The node's buffers that only these nodes read."""
    names = {other.get_name() for other in among}

    def is_inner(users: Iterable[Any]) -> bool:
        return all(not isinstance(user.node, OutputNode) and user.node.get_name() in names for user in users)

    return [
        buffer.get_name()
        for buffer in node.get_outputs()
        if buffer.users and is_inner(buffer.users) and not buffer.get_mutations() and not buffer.get_aliases()
    ]
