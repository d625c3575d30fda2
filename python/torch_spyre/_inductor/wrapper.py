"""The Python module that Inductor writes for a graph: kernels in its head, and a launch for each in its `call`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen.common import DeviceOpOverrides
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.scheduler import SchedulerNode
from torch._inductor.utils import get_fused_kernel_name
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from . import config
from .errors import Unsupported
from .ir_layouts import Chosen
from .kernel_text import KernelText, Operand
from .segments import Launch

__all__ = ["SpyreOpOverrides", "SpyreSubgraphWrapper", "SpyreWrapper"]


class _Launches:
    """Lines for kernels and for memory on the device, of both kinds of wrapper."""

    def kernel_name_of(self: Any, kernel: KernelText, nodes: Sequence[SchedulerNode]) -> str:
        """The name of a kernel in the module; kernels with the same text are one."""
        root = self.root
        lanes = [(name, _scalar_lane(symbol)) for symbol, name in kernel.scalars.items()]
        key = (kernel.text("graph", lanes), f"{kernel.operators}{kernel.assertions}")
        if key in root.spyre_kernels:
            return root.spyre_kernels[key]
        about = get_fused_kernel_name(nodes, "original_aten")
        name = f"spyre_{about}_{len(root.spyre_kernels)}" if about else f"spyre_{len(root.spyre_kernels)}"
        root.spyre_kernels[key] = name
        text = kernel.text(name, lanes)
        given = {"max_tile": config.max_tile, "operators": kernel.operators, "assertions": kernel.assertions}
        further = "".join(f", {key}={value!r}" for key, value in given.items() if value)
        root.header.splice(f"\n{name} = spyre_kernel('''\n{text}'''{further})\n")
        return name

    def launch_of(
        self: Any, name: str, kernel: KernelText, device: torch.device, results: Sequence[Any]
    ) -> Launch:
        """The launch of a kernel, whose fixed part is written to the head of the module."""
        shapes = [part for buffer in results for part in (*buffer.get_size(), *buffer.get_stride())]
        for expression in (*kernel.expressions(), *shapes):
            for symbol in sorted(sympy.sympify(expression).free_symbols, key=str):
                self.ensure_size_computed(symbol)
        numbers: dict[str, int] = {}

        def number(value: Any) -> str:
            text = self.codegen_python_sizevar(sympy.sympify(value))
            return text if text.isdigit() else str(-1 - numbers.setdefault(text, len(numbers)))

        def tuple_of(values: Sequence[Any]) -> str:
            return f"({', '.join(map(number, values))}{',' if len(values) == 1 else ''})"

        made = [buffer.get_name() for buffer in results]
        buffers: dict[str, int] = {}
        for operand in kernel.operands:
            if operand.buffer not in made:
                buffers.setdefault(self._buffer(operand, device), len(buffers))
        places = buffers | {result: len(buffers) + at for at, result in enumerate(made)}
        described = [
            f"({buffer.get_dtype()}, {tuple_of(buffer.get_size())}, {tuple_of(buffer.get_stride())}"
            f"{', ' + _chosen(buffer)[1] if _chosen(buffer) else ''})"
            for buffer in results
        ]
        views = [
            f"({places[operand.buffer if operand.buffer in made else self._buffer(operand, device)]}, "
            f"{tuple_of(operand.sizes)}, {tuple_of(operand.strides)}, {number(operand.offset)})"
            for operand in kernel.operands
        ]
        counts = f"({len(buffers)}, {len(numbers)}, {len(kernel.scalars)})"
        site = f"GraphLaunch({name}, {device.index or 0}, {counts}, [{', '.join(described)}], [{', '.join(views)}])"
        scalars = [self.codegen_python_sizevar(symbol) for symbol in kernel.scalars]
        return Launch(self.site_name("launch", site), [*buffers], [*numbers, *scalars], made)

    def site_name(self: Any, kind: str, site: str) -> str:
        """The name of a launch, or of a segment, in the module; those alike are one."""
        root = self.root
        if site not in root.spyre_sites:
            root.spyre_sites[site] = f"{kind}_{len(root.spyre_sites)}"
            root.header.splice(f"{root.spyre_sites[site]} = {site}\n")
        return root.spyre_sites[site]

    def _buffer(self: Any, operand: Operand, device: torch.device) -> str:
        """A buffer, on the kernel's device."""
        if not operand.buffer:
            return f"empty_strided((1,), (1,), device='{device}', dtype={operand.dtype})"
        if V.graph.get_buffer(operand.buffer).get_device() != device:
            return f"{operand.buffer}.to('{device}')"  # a number of the host
        return operand.buffer

    def make_allocation(
        self: Any, name: str, device: torch.device, dtype: torch.dtype, shape: Any, stride: Any, *others: Any
    ) -> str:
        if device.type != "spyre":
            return super().make_allocation(name, device, dtype, shape, stride, *others)
        size = self.codegen_python_shape_tuple(shape)
        strides = self.codegen_python_shape_tuple(stride)
        return f"{name} = empty_strided({size}, {strides}, device='{device}', dtype={dtype})"

    def make_buffer_allocation(self: Any, buffer: Any) -> str:
        if not _chosen(buffer):
            return super().make_buffer_allocation(buffer)
        size, strides = map(self.codegen_python_shape_tuple, (buffer.get_size(), buffer.get_stride()))
        shape = f"{size}, {strides}, {buffer.get_dtype()}, '{buffer.get_device()}'"
        return f"{buffer.get_name()} = spyre_empty_strided({shape}, {'='.join(_chosen(buffer))})"

    def generate_kernel_call(self: Any, kernel_name: str, call_args: Any, **named: Any) -> None:
        """A kernel of another device would read this one's handles as if they were addresses."""
        for name in call_args:
            buffer = V.graph.try_get_buffer(name) if isinstance(name, str) else None
            device = None if buffer is None else buffer.get_device()
            if device is not None and device.type == "spyre":
                raise Unsupported(f"{kernel_name} of {named.get('device')} is to read {name}, which is on {device}")
        super().generate_kernel_call(kernel_name, call_args, **named)


class SpyreWrapper(_Launches, PythonWrapperCodegen):
    """Writes the module of a graph."""

    def __init__(self) -> None:
        self.spyre_kernels: dict[tuple[str, str], str] = {}
        self.spyre_sites: dict[str, str] = {}
        super().__init__()

    @property
    def root(self) -> SpyreWrapper:
        return self

    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: PythonWrapperCodegen | None,
        partition_signatures: ir.GraphPartitionSignature | None = None,
    ) -> PythonWrapperCodegen:
        if not is_subgraph:
            return SpyreWrapper()
        assert subgraph_name is not None
        assert parent_wrapper is not None
        return SpyreSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)

    def write_header(self) -> None:
        super().write_header()
        self.header.writeline("from torch_spyre._inductor.launch import *")


class SpyreSubgraphWrapper(_Launches, SubgraphPythonWrapperCodegen):
    """Writes a function for a part of a graph; its kernels stand in the head of the module."""

    @property
    def root(self) -> SpyreWrapper:
        parent = self.parent_wrapper
        return parent.root if isinstance(parent, _Launches) else parent


class SpyreOpOverrides(DeviceOpOverrides):
    """Lines of Python that name the device."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"def {name}(device): return torch.spyre.current_stream(device).stream_id"

    def set_device(self, device_idx: int) -> str:
        return f"torch.spyre.set_device({device_idx})"

    def synchronize(self) -> str:
        return "torch.spyre.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.spyre.device({device_idx})"

    def current_stream(self) -> str:
        return "torch.spyre.current_stream()"


def _chosen(buffer: Any) -> Chosen:
    """The keyword and the text of the layout that the program chose for a buffer."""
    return getattr(buffer.get_layout(), "chosen", None)


def _scalar_lane(symbol: sympy.Symbol) -> str:
    return "f64" if symbol_is_type(symbol, SymT.FLOAT) else "i64"
