"""Storages and files: what PyTorch does with them on the host, by address, is refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..constants import DEVICE_NAME

_ADDRESS_TAG = 0x00D5
_ADDRESS_SHIFT = 48

_REFUSED = {
    "_byteswap": "its bytes are swapped on the host: use storage.cpu().byteswap(dtype)",
    "_share_fd_cpu_": "its memory is not the host's: share tensor.cpu(), or send the tensor, which copies it",
    "_share_filename_cpu_": "its memory is not the host's: share tensor.cpu(), or send the tensor, which copies it",
    "byteswap": "its bytes are swapped on the host: use storage.cpu().byteswap(dtype)",
    "share_memory_": "a card's memory belongs to one process: share tensor.cpu(), or send the tensor, which copies it",
}


def install() -> None:
    """Puts refusals in place of the methods."""
    for name, remedy in _REFUSED.items():
        setattr(torch.UntypedStorage, name, _refusing(getattr(torch.UntypedStorage, name), name, remedy))
    known_shared = torch.UntypedStorage.is_shared
    torch.UntypedStorage.is_shared = functools.wraps(known_shared)(  # type: ignore[method-assign]
        lambda self: False if self.device.type == DEVICE_NAME else known_shared(self)
    )
    writer = torch._C.PyTorchFileWriter
    writer.write_record = _writing(writer.write_record)


def _refusing(known: Callable[..., Any], name: str, remedy: str) -> Callable[..., Any]:
    @functools.wraps(known)
    def call(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
        if self.device.type == DEVICE_NAME:
            raise RuntimeError(f"{name} of a storage on {self.device}: {remedy}")
        return known(self, *args, **kwargs)

    return call


def _writing(known: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(known)
    def write_record(self: Any, name: str, data: Any, *args: Any) -> Any:
        is_storage = isinstance(data, torch.UntypedStorage) and data.device.type == DEVICE_NAME
        is_address = isinstance(data, int) and data >> _ADDRESS_SHIFT == _ADDRESS_TAG
        if is_storage or is_address:
            raise RuntimeError(f"write_record({name!r}) of memory on {DEVICE_NAME}: it is written from storage.cpu()")
        return known(self, name, data, *args)

    return write_record
