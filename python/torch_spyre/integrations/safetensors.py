"""``safetensors``: files whose tensors are wanted on this device."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch

from ..constants import DEVICE_NAME


def change(module: ModuleType) -> None:
    """``safe_open`` and all that is made of it."""
    known = module.safe_open

    class safe_open:
        """Opens a file of safetensors. On spyre it is read by the host, and its tensors are copied."""

        def __new__(cls, filename: Any, framework: str, device: Any = "cpu", **others: Any) -> Any:
            if not _is_ours(device):
                return known(filename, framework, device, **others)
            return _Moved(known(filename, framework, "cpu", **others), torch.device(device))

    module.safe_open = safe_open  # type: ignore[attr-defined]
    user = sys.modules.get("safetensors.torch")
    if user is not None and getattr(user, "safe_open", None) is known:
        user.safe_open = safe_open  # type: ignore[attr-defined]


def _is_ours(device: Any) -> bool:
    if isinstance(device, torch.device):
        return device.type == DEVICE_NAME
    return isinstance(device, str) and device.partition(":")[0] == DEVICE_NAME


class _Moved:
    """An open file, or a part of one, whose tensors are copied to a device as they are asked for."""

    def __init__(self, there: Any, device: torch.device) -> None:
        self._there, self._device = there, device

    def __enter__(self) -> _Moved:
        self._there = self._there.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._there.__exit__(*error)

    def __getitem__(self, place: Any) -> torch.Tensor:
        return self._moved(self._there[place])

    def get_tensor(self, name: str) -> torch.Tensor:
        """One of its tensors."""
        return self._moved(self._there.get_tensor(name))

    def get_tensors(self) -> dict[str, torch.Tensor]:
        """All of its tensors."""
        return {name: self._moved(tensor) for name, tensor in self._there.get_tensors().items()}

    def get_slice(self, name: str) -> _Moved:
        """One of its tensors, of which parts can be asked for."""
        return _Moved(self._there.get_slice(name), self._device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._there, name)

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self._device)
