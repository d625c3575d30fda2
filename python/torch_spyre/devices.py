"""Devices: which there are, which one is selected, and what of other devices' modules this one does not do."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from . import _C
from ._devices import Device, DeviceContext, DeviceOf, device_index, existing_index
from ._runtime import runtime
from .logging_config import get_logger

__all__ = [
    "SpyrePluggableAllocator",
    "change_current_allocator",
    "current_device",
    "device",
    "device_of",
    "exchange_device",
    "get_amp_supported_dtype",
    "get_downcast_warning",
    "get_stream_from_external",
    "init",
    "maybe_exchange_device",
    "reset_device",
    "set_device",
    "set_downcast_warning",
]

device = DeviceContext
device_of = DeviceOf
_get_device_index = device_index


def init() -> None:
    """Starts the runtime now, rather than at first use."""
    runtime._lazy_init()


def current_device() -> int:
    """The index of the device that this thread has selected."""
    runtime._lazy_init()
    return _C.current_device()


def set_device(device: Device) -> None:
    """Selects a device for this thread. Before the runtime has started, it is selected when it starts."""
    index = existing_index(device)
    _C.set_device(index)
    get_logger("device").debug("selected device %d", index)


def exchange_device(device: int) -> int:
    """Selects a device and tells which one was selected; a negative index changes nothing."""
    if device < 0:
        return -1
    runtime._lazy_init()
    return torch._C._accelerator_exchangeDevice(existing_index(device))


def maybe_exchange_device(device: int) -> int:
    """The same."""
    return exchange_device(device)


def reset_device(device: Device = None) -> None:
    """Starts a device anew, after it was lost for instance. Tensors on it are gone: to use one is an error."""
    runtime._lazy_init()
    index = existing_index(device)
    get_logger("device").warning("device %d is reset: tensors on it are gone", index)
    _C.reset_device(index)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Returns the dtypes that ``torch.autocast("spyre", dtype=...)`` takes."""
    return [torch.float16, torch.bfloat16]


def get_downcast_warning() -> bool:
    """Returns True if tensors of int64, which the ``card`` profile keeps as int32, come with a warning."""
    return _C.get_downcast_warning()


def set_downcast_warning(enabled: bool) -> None:
    """Sets whether they do."""
    _C.set_downcast_warning(bool(enabled))


def _is_compiled() -> bool:
    return True


def get_stream_from_external(data_ptr: int, device: Device = None) -> NoReturn:
    """Not supported: it would take a pointer for a stream."""
    raise NotImplementedError("streams of spyre are not pointers: there is none to take from elsewhere")


class SpyrePluggableAllocator:
    """Cannot be made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("memory of spyre is given out by one allocator, which cannot be replaced")


def change_current_allocator(allocator: Any) -> NoReturn:
    """Not supported."""
    raise NotImplementedError("memory of spyre is given out by one allocator, which cannot be replaced")
