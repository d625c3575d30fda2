"""Layouts of a graph's buffers in device memory, beside their strides (`TORCH_LOGS=ir_post_fusion` shows both)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sympy
from torch._inductor import ir
from torch._inductor.virtualized import V

from .._C import SpyreTensorLayout
from ..fake_layouts import SymbolicLayout, explicit_layout, layout_of_fake, layout_of_shape, own_dims

if TYPE_CHECKING:
    from torch._inductor.graph import GraphLowering

__all__ = ["FixedTiledLayout", "SpyreFixedLayout", "in_order_of_memory", "lay_out"]

DeviceLayout = SpyreTensorLayout | SymbolicLayout
Chosen = tuple[str, str] | None


class SpyreFixedLayout(ir.FixedLayout):
    """The layout of a buffer on the device.

    ``chosen`` is the keyword and the text that choose it in the graph's module, if the program chose it.
    """

    def __init__(self, *plain: Any, device_layout: DeviceLayout | None = None, chosen: Chosen = None) -> None:
        super().__init__(*plain)
        self.device_layout = device_layout
        self.chosen = chosen

    @classmethod
    def of(cls, layout: ir.Layout, device_layout: DeviceLayout | None, chosen: Chosen = None) -> SpyreFixedLayout:
        """A layout with its place in device memory."""
        plain = (layout.device, layout.dtype, layout.size, layout.stride, layout.offset)
        return cls(*plain, device_layout=device_layout, chosen=chosen)

    @classmethod
    def with_sticks(cls, layout: ir.Layout, stick_dims: Sequence[int] | None) -> SpyreFixedLayout:
        """A layout with these dims in sticks, or with the default ones."""
        size = _numbers(layout.size)
        device_layout = layout_of_shape(size, _numbers(layout.stride), layout.dtype, stick_dims)
        chosen = None if stick_dims is None else ("stick_dims", str(list(own_dims(stick_dims, len(size)))))
        return cls.of(layout, device_layout, chosen)

    @classmethod
    def with_parts(cls, layout: ir.Layout, *parts: Any) -> SpyreFixedLayout:
        """A layout that is given in parts."""
        return cls.of(layout, explicit_layout(*parts), ("device_layout", f"explicit_layout{parts}"))

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and self.device_layout == getattr(other, "device_layout", None)

    __hash__ = None  # type: ignore[assignment]  # as that of the class above

    def __str__(self) -> str:
        return f"{super().__str__()[:-1]}, device_layout={self.device_layout})"

    __repr__ = __str__


FixedTiledLayout = SpyreFixedLayout


def lay_out(graph: GraphLowering) -> None:
    """Gives every buffer of a graph on the device its layout there: inputs as they lie, the others as they are made."""
    for node in graph.module.graph.find_nodes(op="placeholder"):
        given = graph.graph_inputs.get(node.target)
        if isinstance(given, ir.TensorBox) and isinstance(given.data, ir.StorageBox):
            _set(given.data.data, layout_of_fake(node.meta["val"]))
    for buffer in graph.buffers:
        _set(buffer, None)


def in_order_of_memory(buffer: str, strides: Mapping[str, sympy.Expr]) -> list[str]:
    """Dims with strides through a buffer, from those that go farthest in the device's memory to the one along sticks."""
    if not strides:
        return []
    hint = V.graph.sizevars.optimization_hint
    layout = V.graph.get_buffer(V.graph.scheduler.mutation_real_name.get(buffer, buffer)).get_layout()
    device_layout = getattr(layout, "device_layout", None)
    own = [hint(stride) for stride in (layout.stride if device_layout is None else device_layout.dma_strides)]

    def place(dim: str) -> tuple[int, int]:
        """The buffer's dim of which this one is all or a part, and how far it goes there."""
        stride = hint(strides[dim])
        return max((step, at) for at, step in enumerate([0, *own]) if step <= stride)[1], -stride

    return sorted(strides, key=place)


def _set(buffer: Any, known: DeviceLayout | None) -> None:
    layout = getattr(buffer, "layout", None)
    if type(layout) is not ir.FixedLayout or layout.device.type != "spyre":
        return
    try:
        default = SpyreFixedLayout.with_sticks(layout, None)
    except (RuntimeError, TypeError, ValueError):  # the device has none for it: its kernels will say so
        return
    buffer.layout = default if known is None else SpyreFixedLayout.of(layout, known)


def _numbers(numbers: Iterable[Any]) -> list[Any]:
    return [int(number) if isinstance(number, (int, sympy.Integer)) else number for number in numbers]
