"""Scans and sorts along a dim, and places among elements that are in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.ops_handler import MockHandler
from torch._inductor.virtualized import OpsValue, V

from .errors import Unsupported
from .kernel_text import KernelText
from .values import Value, lane_of

__all__ = ["Combine", "bisected", "scanned", "sorted_along"]

Combine = Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]

_SCANS = {"a + b": "sum", "a * b": "product", "ops.maximum(a, b)": "max", "ops.minimum(a, b)": "min"}
"""Scans, by what Inductor writes for a combination of two values."""
_LOG_SUM = "log1p(ops.exp(ops.minimum(a, b) - ops.maximum(a, b))) + ops.maximum(a, b), a)"
"""The end of what it writes for logarithms of sums."""


def scanned(kernel: KernelText, dim: str, combine: Combine, values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Values, each combined with all those before it along a dim."""
    value = values[0]
    if len(values) == 2:
        return _furthest(kernel, dim, combine, value, values[1])
    (written,) = _written(combine, ("a",), ("b",))
    if written.endswith(_LOG_SUM):
        wide = Value(value.in_lane("f64"), torch.float64, value.dims)
        made = _along(kernel, "scan_logsumexp", dim, wide)
        return (kernel.value(made.in_lane(value.lane), value.dtype, made),)
    if written not in _SCANS:
        raise Unsupported(f"a scan that combines a and b as {written}")
    return (_along(kernel, f"scan_{_SCANS[written]}", dim, value),)


def _furthest(kernel: KernelText, dim: str, combine: Combine, value: Value, place: Value) -> tuple[Value, Value]:
    """The largest value so far, or the smallest, and its last place."""
    for word, name in (("scan_max", "argmax"), ("scan_min", "argmin")):
        known = ir.get_reduction_combine_fn(name, value.dtype, arg_break_ties_left=False)
        pair = ("a", "i"), ("b", "j")
        if _written(combine, *pair) == _written(known, *pair):
            break
    else:
        raise Unsupported("a scan of pairs that is neither cummax nor cummin")
    key = _key(kernel, value)
    best = _along(kernel, word, dim, key)
    is_it = f"({key} == {best}) | is_nan({key})" if value.dtype.is_floating_point else f"{key} == {best}"
    here = kernel.value(f"where({is_it}, {place}, 0i64)", place.dtype, key, best, place)
    return _back(kernel, best, value), _along(kernel, "scan_max", dim, here)


def sorted_along(kernel: KernelText, dim: str, value: Value, place: Value, *, is_descending: bool) -> tuple[Value, Value]:
    """Values in their order along a dim, and the places that they had."""
    key = _key(kernel, value)
    order = "_descending" if is_descending else ""
    made = _along(kernel, f"sort{order}", dim, key)
    places = _along(kernel, f"order{order}", dim, key)
    return _back(kernel, made, value), Value(places.text, place.dtype, places.dims, is_rounded=True)


def bisected(
    kernel: KernelText, value: Value, count: int, element: Callable[[Value], Value], *, is_after: str
) -> Value:
    """The number of elements, which are in order, that come before a value: all those that are not after it."""
    found = Value("0i64", torch.int64, is_rounded=True)
    for step in (1 << power for power in reversed(range(count.bit_length()))):
        last = kernel.value(f"{found} + {step - 1}i64", torch.int64, found)
        at = element(kernel.value(f"min({last}, {count - 1}i64)", torch.int64, last))
        lane = lane_of(torch.promote_types(at.dtype, value.dtype))
        is_before = f"({last} < {count}i64) & !({at.in_lane(lane)} {is_after} {value.in_lane(lane)})"
        text = f"where({is_before}, {found} + {step}i64, {found})"
        found = kernel.value(text, torch.int64, found, at, value, is_rounded=True)
    return found


def _along(kernel: KernelText, word: str, dim: str, value: Value) -> Value:
    """A scan or a sort along a dim, of a value that may be the same everywhere along it."""
    if dim not in value.dims:
        everywhere = Value(dim, torch.int64, frozenset({dim}))
        value = kernel.value(f"where({dim} >= 0i64, {value}, {value})", value.dtype, value, everywhere)
    return kernel.value(f"{word}<{dim}>({value})", value.dtype, value)


def _key(kernel: KernelText, value: Value) -> Value:
    """The value as a number that has an order: truth values have none."""
    return kernel.value(f"i64({value})", torch.int64, value) if value.lane == "bool" else value


def _back(kernel: KernelText, key: Value, value: Value) -> Value:
    """A value, of its key."""
    if value.lane == "bool":
        return kernel.value(f"{key} != 0i64", torch.bool, key, is_rounded=True)
    return Value(key.text, value.dtype, key.dims, value.is_rounded)


def _written(combine: Combine, left: tuple[str, ...], right: tuple[str, ...]) -> list[str]:
    """The text that Inductor writes for a combination of two values."""
    with V.set_ops_handler(MockHandler()):
        return [part.value if isinstance(part, OpsValue) else part for part in combine(left, right)]
