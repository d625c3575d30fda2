"""Calls of one sample that are made on both sides: into views, into other dtypes, with shared memory, with strides,
with nothing in them, with NaN and infinities.

A case is a function of a device. What it gives back, or that it raises, is to be the same on every device.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from opinfo.judge import KEPT_ON_THE_CPU, copied, moved

Run = Callable[[torch.device], Any]


@dataclass
class Case:
    """A call, by what is special about it."""

    label: str
    run: Run
    has_strides: bool = False


Maker = Callable[[Any, tuple, torch.dtype], Iterator[Case]]

KINDS: dict[str, Maker] = {}

WRITTEN_IN_ROWS = ("narrow_copy", "nn.functional.avg_pool3d")
"""Operators that the CPU writes as if every result lay in rows: past the end of one whose elements share memory."""
NO_SPECIALS = ("linalg.eigvals",)
"""Operators whose library on the CPU ends the process for what is not finite; the device refuses it."""


def kind(maker: Maker) -> Maker:
    KINDS[maker.__name__] = maker
    return maker


def tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, Tensor)]


def on(arguments: tuple, device: torch.device, op: Any) -> tuple:
    """A call's arguments on a device, with their strides."""
    there = tree_map(lambda leaf: moved(leaf, device, False), arguments)
    return (there[0], arguments[1], arguments[2]) if op.name in KEPT_ON_THE_CPU else there


def call(op: Any, arguments: tuple, **named: Any) -> Any:
    first, rest, kept = arguments
    return op(first, *rest, **kept, **named)


def expected(op: Any, arguments: tuple) -> list[Tensor] | None:
    """Results on the CPU; None where they are no list of tensors."""
    try:
        made = call(op, tree_map(copied, arguments))
    except Exception:  # noqa: BLE001 (what the CPU refuses is not the device's to do)
        return None
    results = [made] if isinstance(made, Tensor) else list(made) if isinstance(made, (tuple, list)) else []
    is_plain = all(isinstance(one, Tensor) and one.layout == torch.strided for one in results)
    return results if results and is_plain else None


def given(outs: list[Tensor]) -> Any:
    return outs[0] if len(outs) == 1 else tuple(outs)


def plain(arguments: tuple) -> bool:
    """Returns true if all tensors are strided ones: others have no views."""
    return all(one.layout == torch.strided and not one.is_nested for one in tensors(arguments))


def has_out(op: Any, arguments: tuple) -> bool:
    return bool(op.supports_out) and plain(arguments)


def filled(shape: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.full(tuple(shape), 7 if dtype != torch.bool else True, dtype=dtype, device=device)


# ---- out=


@kind
def out_views(op: Any, arguments: tuple, dtype: torch.dtype) -> Iterator[Case]:
    """A result is a view with gaps, or lies the other way round: what is beside it stays."""
    results = expected(op, arguments) if has_out(op, arguments) else None
    if results is None:
        return

    def between(one: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        whole = filled([2 * size + 3 for size in one.shape], one.dtype, device)
        return whole, whole[tuple(slice(1, 1 + 2 * size, 2) for size in one.shape)]

    def turned(one: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        whole = filled([size + 2 for size in reversed(one.shape)], one.dtype, device)
        inside = whole[tuple(slice(1, 1 + size) for size in reversed(one.shape))]
        return whole, inside.permute(*reversed(range(one.dim())))

    for label, place in (("between", between), ("turned", turned)):

        def run(device: torch.device, place: Any = place) -> Any:
            pairs = [place(one, device) for one in results]
            views = [view for _, view in pairs]
            made = call(op, on(arguments, device, op), out=given(views))
            is_out = [one is view for one, view in zip(tensors(made), views)]
            return [whole for whole, _ in pairs], [view.stride() for view in views], is_out

        yield Case(label, run)


@kind
def out_dtypes(op: Any, arguments: tuple, dtype: torch.dtype) -> Iterator[Case]:
    """A result of another dtype is refused, or holds what is computed in the dtype of the arguments."""
    results = expected(op, arguments) if has_out(op, arguments) else None
    if results is None:
        return
    for other in (torch.bool, torch.int64, torch.float16, torch.float32, torch.float64, torch.complex64):

        def run(device: torch.device, other: torch.dtype = other) -> Any:
            outs = [filled(one.shape, other, device) for one in results]
            call(op, on(arguments, device, op), out=given(outs))
            return outs

        yield Case(str(other)[6:], run)


@kind
def out_shapes(op: Any, arguments: tuple, dtype: torch.dtype) -> Iterator[Case]:
    """A result of another shape is resized, with PyTorch's warning if there was something in it."""
    results = expected(op, arguments) if has_out(op, arguments) else None
    if results is None:
        return
    for label, shape in (("empty", lambda one: (0,)), ("longer", lambda one: (*one.shape, 3))):

        def run(device: torch.device, shape: Any = shape) -> Any:
            outs = [filled(shape(one), one.dtype, device) for one in results]
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                call(op, on(arguments, device, op), out=given(outs))
            is_warned = any("was resized" in str(warning.message) for warning in said)
            return outs, [out.stride() for out in outs], is_warned

        yield Case(label, run)


@kind
def out_overlaps(op: Any, arguments: tuple, dtype: torch.dtype) -> Iterator[Case]:
    """A result shares memory with an argument, or with itself."""
    results = expected(op, arguments) if has_out(op, arguments) else None
    if results is None or len(results) != 1:
        return
    result = results[0]

    def repeated(device: torch.device) -> Any:
        out = filled([1] * result.dim(), result.dtype, device).expand(result.shape)
        call(op, on(arguments, device, op), out=out)
        return out

    if result.numel() > 1 and op.name not in WRITTEN_IN_ROWS:
        yield Case("with itself", repeated)
    first = arguments[0]
    if not isinstance(first, Tensor) or first.dtype != result.dtype or not first.numel() or not result.numel():
        return

    def shared(shift: int) -> Run:
        def run(device: torch.device) -> Any:
            there = on(arguments, device, op)
            row = filled([shift + max(first.numel(), result.numel())], result.dtype, device)
            source = row[: first.numel()].view(first.shape)
            source.copy_(there[0])
            out = row[shift : shift + result.numel()].view(result.shape)
            call(op, (source, *there[1:]), out=out)
            return row

        return run

    yield Case("in part", shared(1))
    if first.shape == result.shape:
        yield Case("in whole", shared(0))


# ---- in place


@kind
def in_place(op: Any, arguments: tuple, dtype: torch.dtype) -> Iterator[Case]:
    """A tensor that is changed lies in a larger one, shares memory with another argument, or with itself."""
    function, first = op.get_inplace(), arguments[0]
    if function is None or not isinstance(first, Tensor) or not plain(arguments) or not first.numel():
        return

    def change(target: Tensor, there: tuple) -> None:
        function(target, *there[1], **there[2])

    def inside(device: torch.device) -> Any:
        there = on(arguments, device, op)
        whole = filled([2 * size + 3 for size in first.shape], first.dtype, device)
        view = whole[tuple(slice(1, 1 + 2 * size, 2) for size in first.shape)]
        view.copy_(there[0])
        change(view, there)
        return whole

    def repeated(device: torch.device) -> Any:
        there = on(arguments, device, op)
        target = filled([1] * first.dim(), first.dtype, device).expand(first.shape)
        change(target, there)
        return target

    def shared(device: torch.device) -> Any:
        there = on(arguments, device, op)
        row = filled([first.numel() + 1], first.dtype, device)
        target, other = row[1:].view(first.shape), row[:-1].view(first.shape)
        other.copy_(there[0])
        rest = [other if is_alike(one) else one for one in there[1]]
        change(target, (target, rest, there[2]))
        return row

    def is_alike(one: Any) -> bool:
        return isinstance(one, Tensor) and one.shape == first.shape and one.dtype == first.dtype

    yield Case("inside", inside)
    if first.numel() > 1:
        yield Case("with itself", repeated)
    if any(is_alike(one) for one in arguments[1]):
        yield Case("with an argument", shared)


# ---- what is read


def with_strides(op: Any, arguments: tuple) -> Run:
    def run(device: torch.device) -> Any:
        return call(op, on(arguments, device, op))

    return run


@kind
def formats(op: Any, arguments: tuple, dtype: torch.dtype) -> Iterator[Case]:
    """Images lie channels last, matrices by columns: strides of results are the CPU's."""
    if not plain(arguments):
        return
    yield Case("as given", with_strides(op, arguments), has_strides=True)
    last = {4: torch.channels_last, 5: torch.channels_last_3d}

    def laid(one: Any) -> Any:
        if not isinstance(one, Tensor) or one.numel() == 0:
            return one
        if one.dim() in last:
            return one.contiguous(memory_format=last[one.dim()])
        return one.mT.contiguous().mT if one.dim() >= 2 else one

    yield Case("all last", with_strides(op, tree_map(laid, arguments)), has_strides=True)
    first_only = (tree_map(laid, arguments[0]), *arguments[1:])
    yield Case("first last", with_strides(op, first_only), has_strides=True)


@kind
def empties(op: Any, arguments: tuple, dtype: torch.dtype) -> Iterator[Case]:
    """A dim of the first argument, and of all that have as many elements there, has none."""
    first = tensors(arguments[0])
    if not first or not plain(arguments) or first[0].dim() == 0:
        return
    for dim in sorted({0, first[0].dim() - 1}):
        size = first[0].shape[dim]
        back = dim - first[0].dim()

        def cut(one: Any, dim: int = dim, back: int = back, size: int = size) -> Any:
            if not isinstance(one, Tensor) or one.dim() == 0:
                return one
            at = dim if dim == 0 else one.dim() + back
            return one.narrow(at, 0, 0) if 0 <= at < one.dim() and one.shape[at] == size else one

        emptied = tree_map(lambda leaf: copied(leaf), tree_map(cut, arguments))
        yield Case(f"dim {dim}", with_strides(op, emptied), has_strides=True)


@kind
def specials(op: Any, arguments: tuple, dtype: torch.dtype) -> Iterator[Case]:
    """Some elements are NaN, infinite, or zero with a sign."""
    if not dtype.is_floating_point or not plain(arguments) or op.name in NO_SPECIALS:
        return
    values = (float("nan"), float("inf"), -float("inf"), -0.0, torch.finfo(dtype).max)

    def sown(one: Any, some: tuple[float, ...]) -> Any:
        if not isinstance(one, Tensor) or not one.is_floating_point() or one.numel() == 0:
            return one
        made = one.clone()
        row = made.reshape(-1)
        for at, value in enumerate(some):
            row[(1 + 2 * at) % row.numel()] = value
        return row.reshape(one.shape)

    for label, some in (("nan", values[:1]), ("inf", values[1:3]), ("all", values)):
        with_some = (tree_map(lambda one, some=some: sown(one, some), arguments[0]), *arguments[1:])
        yield Case(label, with_strides(op, with_some))
