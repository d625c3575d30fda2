"""Operators that a graph calls as they are, and the reason for which each is no loop of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch._inductor import ir
from torch._inductor.lowering import fallbacks
from torch._inductor.scheduler import BaseSchedulerNode

from ..hints import get_op_hints
from .graph_report import ExternReport
from .source_lines import lines_of, operator_name

__all__ = ["extern_report"]

_SORTS = frozenset("sort topk kthvalue".split())
_MIDDLES = frozenset("median nanmedian mode".split())
_SEARCHES = frozenset("searchsorted bucketize".split())
_PRODUCTS = frozenset("mm bmm addmm baddbmm mv addmv dot vdot linear".split())
_OF_DATA = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
_OWN_NAMESPACES = ("aten", "prims", "inductor")


class _Call(NamedTuple):
    """A call that Inductor writes for an operator."""

    operation: Any
    operator: Any
    """An overload; ``None`` if it is none."""

    @property
    def kernel(self) -> str:
        """Name of the function that the graph's module calls; that of loops is none."""
        if not isinstance(self.operation, ir.ExternKernel):
            return "loops"
        return self.operation.python_kernel_name or type(self.operation).__name__

    @property
    def schema_name(self) -> str:
        """The operator's name in full: that of the function, where no overload is named."""
        if isinstance(self.operator, torch._ops.OpOverload):
            return self.operator._schema.name
        if isinstance(self.operation, ir.DeviceCopy):
            return "aten::copy_"
        return f"aten::{self.kernel.partition('.')[2]}" if self.kernel.startswith("extern_kernels.") else ""

    @property
    def name(self) -> str:
        """The operator's name, without ``aten::``."""
        return self.schema_name.removeprefix("aten::")


def extern_report(node: BaseSchedulerNode) -> ExternReport:
    """The report of an operator that is called."""
    operation = node.node
    assert operation is not None
    call = _Call(operation, getattr(operation, "op_overload", None))
    return ExternReport(
        call.name or (call.kernel if call.operator is None else operator_name(call.operator)),
        lines_of(operation.get_origins()),
        get_op_hints(operation),
        operator=call.schema_name,
        reason=_reason_of(call, node.get_device()),
    )


def _reason_of(call: _Call, device: torch.device | None) -> str:
    if device is not None and device.type != "spyre":
        return f"it runs on {device}, where its tensors are"
    return next(reason for applies, reason in _REASONS if applies(call))


def _is_a(*kinds: type) -> Callable[[_Call], bool]:
    return lambda call: isinstance(call.operation, kinds)


def _is_named(names: frozenset[str]) -> Callable[[_Call], bool]:
    return lambda call: call.name in names


def _has_in_name(word: str) -> Callable[[_Call], bool]:
    return lambda call: word in call.name


def _is_custom(call: _Call) -> bool:
    return isinstance(call.operator, torch._ops.OpOverload) and call.operator.namespace not in _OWN_NAMESPACES


def _is_of_data(call: _Call) -> bool:
    return any(tag in getattr(call.operator, "tags", ()) for tag in _OF_DATA)


def _is_complex(call: _Call) -> bool:
    buffers = [call.operation, *(each for each in call.operation.inputs if isinstance(each, ir.IRNode))]
    dtypes = (buffer.maybe_get_dtype() for buffer in buffers)
    return any(dtype is not None and dtype.is_complex for dtype in dtypes)


_REASONS: list[tuple[Callable[[_Call], bool], str]] = [
    (_is_a(ir.DeviceCopy), "it copies between two devices"),
    (_is_a(ir.RandomSeeds), "seeds are drawn from the device's generator"),
    (_is_a(ir.Conditional, ir.WhileLoop, ir.InvokeSubgraph), "it is control flow, whose parts are graphs"),
    (_is_a(ir.DynamicScalar), "the host reads a number from the device"),
    (_is_a(ir.ComplexView), "bits as another dtype are a view"),
    (_is_custom, "Inductor knows no loops of custom operators"),
    (_is_of_data, "the shape of its result depends on data"),
    (_is_complex, "complex numbers are computed by the eager operator"),
    (_is_named(_PRODUCTS), "a product of several dtypes is computed by the eager operator"),
    (_has_in_name("convolution"), "the windows of a convolution are no loops: the eager kernel has them"),
    (_has_in_name("scaled_dot_product"), "attention is one kernel of the device already"),
    (_is_named(_SORTS), "kernels order numbers that have a sign"),
    (_is_named(_MIDDLES), "the eager operator has its own rules for NaN and for equals"),
    (_is_named(_SEARCHES), "a search has as many steps as its boundaries need, which are counted at launch only"),
    (lambda call: call.operator in fallbacks, "Inductor has no lowering for it"),
    (lambda call: True, "Inductor lowers it to a call in this case"),
]
"""Reasons, and the calls for which each is one: the first counts."""
