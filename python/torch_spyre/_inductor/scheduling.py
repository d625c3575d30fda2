"""Scheduler nodes of a graph, gathered and written as kernels.

Nodes are gathered until Inductor asks for them all (`flush`: before each call of another kernel, and at the end). They
are then parted into groups, each of which becomes one kernel: a node joins the group before it if it reads what the
group makes, element by element. Buffers that only their own group reads are never stored. The launches of the kernels
are one segment, which is one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor import metrics
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.scheduler import BaseSchedulerNode, BaseScheduling, Scheduler, SchedulerNode
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from ..graph_reports.recorder import has_listeners, note_graph, note_kernel
from .groups import Group
from .ir_layouts import lay_out
from .kernel_text import KernelText
from .node_writer import NodeWriter
from .segments import Segment, inner_buffers

__all__ = ["SpyreScheduling"]


class SpyreScheduling(BaseScheduling):
    """Writes kernels for nodes on the device."""

    def __init__(self, scheduler: Scheduler | None) -> None:
        super().__init__(scheduler)
        self._gathered: list[SchedulerNode] = []
        if scheduler is not None:
            note_graph(V.graph)
            _lay_out_after_fusion(scheduler)

    def get_backend_features(self, device: torch.device) -> OrderedSet[BackendFeature]:
        return OrderedSet(
            [
                BackendFeature.REDUCE_TO_SINGLE_ELEMENT,
                BackendFeature.BUCKETIZE,
                BackendFeature.SCAN,
                BackendFeature.SORT,
                BackendFeature.TUPLE_REDUCTION,
            ]
        )

    def group_fn(self, sizes: Sequence[Sequence[sympy.Expr]]) -> tuple[sympy.Expr, ...]:
        return tuple(V.graph.sizevars.simplify(sympy_product(size)) for size in sizes)

    def can_fuse_vertical(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        return False

    def can_fuse_horizontal(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        return False

    def codegen_sync(self) -> None:
        V.graph.wrapper_code.writeline(V.graph.device_ops.synchronize())

    def codegen_node(self, node: Any) -> None:
        self._gathered.extend(node.get_nodes())

    def flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        scheduler = self.scheduler
        if not gathered or scheduler is None:
            return
        current = scheduler.current_node
        unused, scheduler.buffer_names_to_free = scheduler.buffer_names_to_free, OrderedSet()
        segment = Segment(gathered, unused, self._free)
        for group in Group.partition(gathered):
            self._write(group, segment)
        segment.close()
        scheduler.current_node = current

    def _free(self, names: OrderedSet[str]) -> None:
        """Writes the ends of buffers."""
        self.scheduler.buffer_names_to_free.update(names)
        self.free_buffers_in_scheduler()

    def _write(self, group: Group, segment: Segment) -> None:
        """Writes one kernel, and its launch to a segment."""
        for node in group.nodes:
            V.graph.removed_buffers.update(inner_buffers(node, group.nodes))
            if node.has_side_effects():  # that nothing reads what an assertion gives is no reason to leave it out
                V.graph.removed_buffers -= OrderedSet(node.get_buffer_names())
        kernel = KernelText(extents=group.extents_in_order())
        writer = NodeWriter(kernel, lambda name: name not in V.graph.removed_buffers)
        for member in group.members:
            writer.write(member)
        kernel.cover_dims()
        for view in group.narrow_sides:
            kernel.widen(view)
        wrapper = V.graph.wrapper_code
        first_line = len(wrapper.lines)
        for node in group.nodes:
            self.scheduler.current_node = node
            node.mark_run()
        results = segment.take_allocations(kernel, first_line)
        metrics.generated_kernel_count += 1
        name = wrapper.kernel_name_of(kernel, group.nodes)
        self.codegen_comment(group.nodes, name)
        launch = wrapper.launch_of(name, kernel, group.device, results)
        segment.add(group.nodes, launch)
        note_kernel(group, kernel, name, launch.site)
        if has_listeners():
            segment.close()


def _lay_out_after_fusion(scheduler: Scheduler) -> None:
    """Has buffers get their layouts when they are final, before Inductor logs them."""
    merge_loops = scheduler.merge_loops

    def merge_and_lay_out() -> None:
        merge_loops()
        lay_out(V.graph)

    scheduler.merge_loops = merge_and_lay_out  # type: ignore[method-assign]
