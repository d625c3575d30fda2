"""DLPack: a copy for the host, if it is asked for; PyTorch itself shares the memory.

A capsule with an address of the device is of use to PyTorch alone. An export to another package raises an
error that says so: the package's own error would name neither the device nor the remedy.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils.dlpack import DLDeviceType

from ..constants import DEVICE_NAME

_known_export = torch.Tensor.__dlpack__
_known_device = torch.Tensor.__dlpack_device__
_known_import = torch.from_dlpack


def install() -> None:
    """Puts the functions in place of PyTorch's."""
    torch.Tensor.__dlpack__ = _export  # type: ignore[method-assign,assignment]
    torch.Tensor.__dlpack_device__ = _device  # type: ignore[method-assign]
    torch.from_dlpack = torch.utils.dlpack.from_dlpack = _import


@functools.wraps(_known_device)
def _device(self: torch.Tensor) -> Any:
    if not _is_ours(self):
        return _known_device(self)
    return DLDeviceType.kDLExtDev, self.get_device()


@functools.wraps(_known_export)
def _export(self: torch.Tensor, **wanted: Any) -> Any:
    if not _is_ours(self):
        return _known_export(self, **wanted)
    if wanted.get("dl_device") is None or wanted["dl_device"][0] != DLDeviceType.kDLCPU:
        raise BufferError(
            f"a tensor on {self.device} has no memory that another package can use: give it tensor.cpu(), or ask for a "
            f'copy on the host, as in numpy.from_dlpack(tensor, device="cpu")'
        )
    if wanted.get("copy") is False:
        raise BufferError(f"a tensor on {self.device} is not on the host: without a copy it cannot be exported there")
    wanted = {name: value for name, value in wanted.items() if name in ("max_version", "dl_device")}
    return self.detach().cpu().__dlpack__(**wanted) if not self.requires_grad else _known_export(self)


@functools.wraps(_known_import)
def _import(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> torch.Tensor:
    if isinstance(ext_tensor, torch.Tensor) and _is_ours(ext_tensor):
        ext_tensor = _WithinTorch(ext_tensor)
    return _known_import(ext_tensor, device=device, copy=copy)


class _WithinTorch:
    """A tensor of the device that PyTorch exports to itself: the memory is shared."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def __dlpack__(self, **wanted: Any) -> Any:
        return _known_export(self._tensor, **wanted)

    def __dlpack_device__(self) -> Any:
        return _device(self._tensor)


def _is_ours(tensor: torch.Tensor) -> bool:
    return tensor.device.type == DEVICE_NAME
