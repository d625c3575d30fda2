"""Tensors as plans know them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .. import _C
from .._C import DeviceHandle, SpyreTensor

__all__ = ["SpyreTensor", "device_handle", "spyre_tensor", "spyre_tensors"]


def spyre_tensor(tensor: torch.Tensor) -> SpyreTensor:
    """A tensor as plans know it: handle, shape, strides in bytes and layout. It does not keep the memory."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a tensor on spyre, not a {type(tensor).__name__}")
    return _C._take_tensor(torch.ops.spyre._hand_tensor(tensor))


def spyre_tensors(tensors: Sequence[torch.Tensor]) -> list[SpyreTensor]:
    """Each of them as plans know it."""
    return [spyre_tensor(tensor) for tensor in tensors]


def device_handle(tensor: torch.Tensor) -> DeviceHandle:
    """Returns the start of a tensor's storage in device memory."""
    return spyre_tensor(tensor).device_handle
