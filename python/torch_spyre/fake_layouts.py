"""Layouts of fake tensors: what `torch.compile` knows of the layouts of a graph's tensors.

A layout belongs to a storage. That of a fake tensor is kept with its storage, which views and `detach` share: the
layout of an input arrives at the nodes of a graph, in ``node.meta["val"]``. The result of an operator has the layout
that the eager operator's has: the default one, or the one that the operator was asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from ._C import DataFormats, SpyreTensorLayout
from .constants import DEVICE_NAME
from .named_dims import keep_names, names_of

__all__ = [
    "SymbolicLayout",
    "change_fake_tensors",
    "explicit_layout",
    "in_layout",
    "keep_layout",
    "layout_of_fake",
    "layout_of_shape",
    "own_dims",
]


@dataclass(frozen=True)
class SymbolicLayout:
    """The layout of tensors whose size is not known before they are made: which of their dims lie in sticks."""

    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    dtype: torch.dtype
    sticks: tuple[int, ...]

    @property
    def dma_sizes(self) -> list[Any]:
        return list(self.size)

    @property
    def dma_strides(self) -> list[Any]:
        return list(self.stride)

    def stick_dims(self) -> list[int]:
        """The dimensions that are padded to whole sticks, the one along the stick last."""
        return list(self.sticks)

    def __str__(self) -> str:
        return f"SymbolicLayout(size={list(self.size)}, stride={list(self.stride)}, stick_dims={list(self.sticks)})"


def layout_of_shape(
    size: Sequence[Any], stride: Sequence[Any], dtype: torch.dtype, stick_dims: Sequence[int] | None = None
) -> SpyreTensorLayout | SymbolicLayout:
    """The layout of a tensor with these dimensions in sticks, or the default one."""
    if all(isinstance(number, int) for number in (*size, *stride)):
        if stick_dims is None:
            return SpyreTensorLayout.of_shape(size, stride, dtype)
        return SpyreTensorLayout.with_stick_dims(size, stride, dtype, stick_dims)
    sticks = (len(size) - 1,) if stick_dims is None else own_dims(stick_dims, len(size))
    return SymbolicLayout(tuple(size), tuple(stride), dtype, sticks)


def own_dims(dims: Sequence[int], rank: int) -> tuple[int, ...]:
    """The dims counted from the first one; each must be there, and once."""
    dims = [int(dim) for dim in dims]  # numbers of a program that are symbols to Dynamo
    for dim in dims:
        if not -rank <= dim < rank:
            expected = f"expected to be in range of [{-rank}, {rank - 1}]"
            raise IndexError(f"Dimension out of range ({expected}, but got {dim})")
    own = tuple(dim % rank for dim in dims)
    if len(set(own)) < len(own):
        raise ValueError(f"stick_dims={dims} has a dimension twice")
    return own


def layout_of_fake(tensor: torch.Tensor) -> SpyreTensorLayout | SymbolicLayout | None:
    """The layout that the storage of a fake tensor stands for; ``None`` if it is not known."""
    if tensor.layout is not torch.strided:
        return None
    return getattr(tensor.untyped_storage(), "_spyre_layout", None)


def change_fake_tensors(module: ModuleType) -> None:
    """Has fake tensors keep the layouts of the tensors that they stand for."""
    if hasattr(module.FakeTensorMode.dispatch, "__wrapped__"):
        return
    from_real = module.FakeTensorConverter.from_real_tensor
    dispatch = module.FakeTensorMode.dispatch
    fake_tensor = module.FakeTensor

    @functools.wraps(from_real)
    def from_real_tensor(self: Any, fake_mode: Any, t: torch.Tensor, *args: Any, **named: Any) -> Any:
        made = from_real(self, fake_mode, t, *args, **named)
        if t.device.type == DEVICE_NAME and type(made) is fake_tensor and made.layout is torch.strided:
            keep_layout(made, _layout_for(made, t, isinstance(t, fake_tensor)))
            names = names_of(t)
            if names is not None:
                keep_names(made, names)
        return made

    @functools.wraps(dispatch)
    def noting(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = dispatch(self, func, types, args, kwargs)
        for tensor in made if isinstance(made, (tuple, list)) else (made,):
            if type(tensor) is fake_tensor and tensor.fake_device.type == DEVICE_NAME:
                _note(tensor, func, args)
        return made

    module.FakeTensorConverter.from_real_tensor = from_real_tensor
    module.FakeTensorMode.dispatch = noting


def _layout_for(made: torch.Tensor, real: torch.Tensor, is_fake: bool) -> SpyreTensorLayout | SymbolicLayout | None:
    """The layout of a fake tensor for a real one, or for another fake one."""
    if is_fake:
        return layout_of_fake(real)
    if type(real) not in (torch.Tensor, torch.nn.Parameter):
        return None
    try:
        with torch._C._DisableTorchDispatch():
            layout = real.device_tensor_layout()
        sizes = (*made.size(), *made.stride())
        if layout is None or all(isinstance(number, int) for number in sizes):
            return layout
        sticks = layout.stick_dims()
        is_known = SpyreTensorLayout.with_stick_dims(real.size(), real.stride(), real.dtype, sticks) == layout
    except (RuntimeError, ValueError):  # a tensor without memory of its own, or a layout without dims in sticks
        return None
    return layout_of_shape(made.size(), made.stride(), made.dtype, sticks) if is_known else None


def _note(tensor: torch.Tensor, func: Any, args: Sequence[Any]) -> None:
    """Keeps the layout of a new storage. That of a view has one."""
    if tensor.layout is not torch.strided:
        return
    size, stride, dtype = tensor.size(), tensor.stride(), tensor.dtype
    try:
        if func.name() == "spyre::_with_sticks":
            keep_layout(tensor, layout_of_shape(size, stride, dtype, args[1]))
        elif func.name() == "spyre::_in_layout":
            keep_layout(tensor, explicit_layout(*args[1:]))
        elif func.name() == "aten::copy" and tensor.size() == args[0].size():  # `copy_` of a graph: the memory stays
            keep_layout(tensor, layout_of_fake(args[0]))
        elif not hasattr(tensor.untyped_storage(), "_spyre_layout"):
            keep_layout(tensor, layout_of_shape(size, stride, dtype))
    except (RuntimeError, TypeError, ValueError):  # the device has no layout for it: its kernels will say so
        keep_layout(tensor, None)


def keep_layout(tensor: torch.Tensor, layout: SpyreTensorLayout | SymbolicLayout | None) -> None:
    """Has a fake tensor's storage stand for one with this layout."""
    tensor.untyped_storage()._spyre_layout = layout  # type: ignore[attr-defined]


# Layouts in graphs: operators that copy a tensor to memory with a layout. It is spelled in numbers.

_library = torch.library.Library("spyre", "FRAGMENT")


def in_layout(tensor: torch.Tensor, layout: SpyreTensorLayout) -> torch.Tensor:
    """A copy with this layout, in a graph."""
    return torch.ops.spyre._in_layout(tensor, *parts_of(layout))


def parts_of(layout: SpyreTensorLayout) -> tuple[list[int], list[int], str]:
    """The layout as an operator of a graph takes it."""
    parts = (layout.device_size, layout.stride_map, layout.device_dtype.name)
    if explicit_layout(*parts) != layout:
        raise NotImplementedError(f"torch.compile takes no layout whose elements are arranged in another way: {layout}")
    return parts


def explicit_layout(device_size: Sequence[int], stride_map: Sequence[int], device_dtype: str) -> SpyreTensorLayout:
    """The layout that an operator of a graph was given."""
    return SpyreTensorLayout(list(device_size), list(stride_map), getattr(DataFormats, device_dtype))


def _spelled(layout: SpyreTensorLayout) -> tuple[str, dict[str, Any]]:
    """The layout in the text of a graph, and the names in it."""
    return f"explicit_layout{parts_of(layout)}", {"explicit_layout": explicit_layout}


def _define(schema: str, kernel: Callable[..., torch.Tensor]) -> None:
    """Defines an operator that changes no value, and so no gradient."""
    _library.define(schema)
    name = schema.partition("(")[0]
    _library.impl(name, kernel, "PrivateUse1")
    _library.impl(name, lambda tensor, *_: tensor.clone(), "CPU")
    _library.impl(name, lambda tensor, *_: torch.empty_like(tensor), "Meta")
    others = [None] * schema.count(", ")
    torch.library.register_autograd(f"spyre::{name}", lambda _, gradient: (gradient, *others), lib=_library)


def _install() -> None:
    from torch._library.opaque_object import register_opaque_type

    _define("_with_sticks(Tensor self, int[] stick_dims) -> Tensor", torch.ops.spyre.restickify)
    _define(
        "_in_layout(Tensor self, int[] device_size, int[] stride_map, str device_dtype) -> Tensor",
        lambda tensor, *parts: tensor.to(device_layout=explicit_layout(*parts), copy=True),  # type: ignore[call-overload]
    )
    SpyreTensorLayout.__fx_repr__ = _spelled  # type: ignore[attr-defined]
    register_opaque_type(SpyreTensorLayout, typ="value")


_install()
