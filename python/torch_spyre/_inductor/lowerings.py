"""Operators that are lowered in the device's own way; on other devices, in Inductor's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch._inductor import config, inductor_prims, ir
from torch._inductor.lowering import add, clone, fallback_handler, lowerings, mul, to_dtype
from torch._inductor.utils import convert_shape_to_inductor
from torch._inductor.virtualized import V, ops

from .dense_attention import DENSE_FORMS, lower_densely
from .ir_layouts import SpyreFixedLayout

__all__ = ["install"]

aten = torch.ops.aten


def install() -> None:
    """Puts them in front of Inductor's."""
    for operator, lowering in ((aten.mm, mm), (aten.bmm, mm), (aten.addmm, addmm), (aten.baddbmm, addmm)):
        for target in (operator, operator.default):
            _put_in_front(target, lowering)
    _put_in_front(aten.view.dtype, view_dtype)
    for target in (aten.sort.default, aten.sort.stable, aten.topk.default, aten.kthvalue.default):
        lowerings[target] = _called_if(_has_no_order, target, _of_any_length(lowerings[target]))
    for target in (aten.bucketize.Tensor, aten.searchsorted.Tensor):
        lowerings[target] = _called_if(_is_search_of_unknown, target, lowerings[target])
    for attention in DENSE_FORMS:
        _put_in_front(attention, lower_densely)
    for operator, layout in (("_with_sticks", SpyreFixedLayout.with_sticks), ("_in_layout", SpyreFixedLayout.with_parts)):
        overload = getattr(torch.ops.spyre, operator).default
        lowerings[overload] = functools.partial(_copy, overload, layout)

    inductors = lowerings[inductor_prims.seeds]

    @functools.wraps(inductors)
    def seeds(count: int, device: torch.device) -> Any:
        made = inductors(count, device)
        random = made.data.data
        if random.get_device().type == "spyre":
            random.constant_args = (0, *random.constant_args[1:])  # 63 bits: as many as its kernels draw at once
        return made

    lowerings[inductor_prims.seeds] = seeds


def _called_if(applies: Callable[..., bool], target: Any, lowering: Callable[..., Any]) -> Callable[..., Any]:
    """A lowering but for tensors of the device with which the eager operator is to be called."""
    call = fallback_handler(target, add_to_fallback_set=False)

    @functools.wraps(lowering)
    def chosen(x: ir.TensorBox, *args: Any, **named: Any) -> Any:
        is_called = x.get_device().type == "spyre" and applies(x, *args)
        return (call if is_called else lowering)(x, *args, **named)

    return chosen


def _of_any_length(lowering: Callable[..., Any]) -> Callable[..., Any]:
    """Sorts as loops of rows of any length: Inductor makes none of those that are longer than a block of a GPU.

    Parts of what is sorted are copied, so that they do not keep the rest in memory.
    """

    @functools.wraps(lowering)
    def lowered(x: ir.TensorBox, *args: Any, **named: Any) -> Any:
        if x.get_device().type != "spyre":
            return lowering(x, *args, **named)
        with config.patch({"triton.decompose_sort_ops": True}):
            results = lowering(x, *args, **named)
        return [clone(result) if isinstance(result.data, ir.BaseView) else result for result in results]

    return lowered


def _has_no_order(x: ir.TensorBox, *_: Any) -> bool:
    """Returns true if a kernel's numbers have another order than the tensor's."""
    return x.get_dtype() == torch.uint64


def _is_search_of_unknown(x: ir.TensorBox, y: ir.TensorBox, *_: Any) -> bool:
    """Returns true if a search has a number of steps that is known at launch only."""
    return not all(isinstance(each.get_size()[-1], (int, sympy.Integer)) for each in (x, y) if each.get_size())


def _put_in_front(target: Any, lowering: Callable[..., Any]) -> None:
    inductors = lowerings[target]

    @functools.wraps(inductors)
    def chosen(*args: Any, **named: Any) -> Any:
        tensors = [arg for arg in args if isinstance(arg, ir.TensorBox)]
        is_ours = any(tensor.get_device().type == "spyre" for tensor in tensors)
        dtypes = {tensor.get_dtype() for tensor in tensors}
        # Complex numbers, and dtypes that do not go together, are the eager operators' to compute or to refuse.
        is_plain = target in DENSE_FORMS or (len(dtypes) == 1 and not any(dtype.is_complex for dtype in dtypes))
        return (lowering if is_ours and is_plain else inductors)(*args, **named)

    lowerings[target] = chosen


def _product(left: ir.TensorBox, right: ir.TensorBox, dtype: torch.dtype | None = None) -> ir.TensorBox:
    """The sum of products over left's last dim and right's one before the last: the card's matrix product."""
    left.realize()
    right.realize()
    *batch, rows, inner = left.get_size()
    columns = right.get_size()[-1]
    inner = V.graph.sizevars.check_equals_and_simplify(inner, right.get_size()[-2])
    load_left = left.make_loader()
    load_right = right.make_loader()

    def element(index: list[sympy.Expr], reduced: list[sympy.Expr]) -> Any:
        *outer, row, column = index
        (at,) = reduced
        sides = (load_left([*outer, row, at]), load_right([*outer, at, column]))
        return ops.mul(*(ops.to_dtype(side, wide) if wide != source else side for side in sides))

    source = left.get_dtype()
    wide = torch.float32 if source.is_floating_point and source.itemsize < 4 else source
    made = ir.Reduction.create(
        device=left.get_device(),
        dst_dtype=dtype or source,
        src_dtype=wide,
        inner_fn=element,
        ranges=[*batch, rows, columns],
        reduction_ranges=[inner],
        reduction_type="sum" if V.graph.sizevars.statically_known_equals(inner, 0) else "dot",
    )
    made.realize()
    return made


def view_dtype(x: ir.TensorBox, dtype: torch.dtype) -> ir.TensorBox:
    """Bits as another dtype are a view of memory, not a word of kernels."""
    if x.get_dtype() == dtype:
        return x
    return ir.TensorBox.create(ir.ComplexView.create(aten.view.dtype, x, dtype))


def _copy(overload: Any, layout: Callable[..., ir.Layout], x: ir.TensorBox, *choice: Any) -> ir.TensorBox:
    """A copy whose buffer has the layout that a program chose."""
    if x.get_dtype().is_complex:
        return fallback_handler(overload, add_to_fallback_set=False)(x, *choice)
    made = clone(x)
    made.realize()
    buffer = made.data.data
    buffer.freeze_layout_with_exact_strides(convert_shape_to_inductor(V.graph.current_node.meta["val"].stride()))
    if x.get_device().type == "spyre":
        buffer.layout = layout(buffer.layout, *choice)
    return made


def mm(left: ir.TensorBox, right: ir.TensorBox, out_dtype: torch.dtype | None = None, **_: Any) -> ir.TensorBox:
    return _product(left, right, out_dtype)


def addmm(added: ir.TensorBox, left: ir.TensorBox, right: ir.TensorBox, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """A 16-bit product is rounded once, after the addition."""
    source = left.get_dtype()
    is_short = source in (torch.float16, torch.bfloat16)
    product = _product(left, right, torch.float32 if is_short else None)
    scaled = product if alpha == 1 else mul(product, alpha)
    if beta == 0:
        return to_dtype(scaled, source)
    wide = to_dtype(added, torch.float32) if is_short else added
    return to_dtype(add(scaled, wide if beta == 1 else mul(wide, beta)), source)
