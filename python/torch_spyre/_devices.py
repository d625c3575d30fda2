"""Devices as people name them: an index, a text, a ``torch.device``, or nothing at all."""

from __future__ import annotations

from typing import Any, Optional, Union

import torch

from . import _C
from ._runtime import runtime
from .constants import DEVICE_NAME

Device = Optional[Union[int, str, torch.device]]


def device_index(device: Any = None, optional: bool = True) -> int:
    """The index that ``device`` names. ``None`` and ``"spyre"`` are the current device, if that will do."""
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device) and device.type != DEVICE_NAME:
        raise ValueError(f"Expected a {DEVICE_NAME} device, but got: {device}")
    if isinstance(device, torch.device):
        device = device.index
    elif isinstance(device, DeviceContext):
        device = device.idx
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if device is None and optional:
        # PyTorch's own question would start the runtime.
        return _C.current_device()
    raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")


def existing_index(device: Any = None) -> int:
    """Returns the index that ``device`` names. Raises if this process does not see such a device."""
    index, count = device_index(device), runtime.device_count()
    if not 0 <= index < count:
        raise RuntimeError(f"Device index {index} out of range [0, {count})")
    return index


class DeviceContext:
    """Selects a device meanwhile. A negative index, or ``None``, changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            runtime._lazy_init()
            self.prev_idx = torch._C._accelerator_exchangeDevice(existing_index(self.idx))

    def __exit__(self, *raised: object) -> None:
        if self.idx >= 0:
            torch._C._accelerator_maybeExchangeDevice(self.prev_idx)


class DeviceOf(DeviceContext):
    """Selects the device of a tensor or storage meanwhile; one of another device changes nothing."""

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage) -> None:
        super().__init__(obj.get_device() if obj.device.type == DEVICE_NAME else -1)
