"""flex_attention: the device is one of those that it takes, under autocast, too."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import torch
from torch._C import DispatchKey

from ..constants import DEVICE_NAME

__all__ = ["change_checks", "change_operators"]


def change_checks(module: ModuleType) -> None:
    """Adds the device to those that may be asked; the others are PyTorch's to judge."""
    known = module._validate_device

    @functools.wraps(known)
    def validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != DEVICE_NAME:
            known(query, key, value)

    module._validate_device = validate_device


def change_operators(module: ModuleType) -> None:
    """Casts query, key and value under autocast, as for other devices."""
    attention = module.flex_attention

    @attention.py_impl(DispatchKey.AutocastPrivateUse1)
    def cast(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *others: Any) -> Any:
        dtype = torch.get_autocast_dtype(DEVICE_NAME)
        query, key, value = (module._autocast_cast(tensor, DEVICE_NAME, dtype) for tensor in (query, key, value))
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(DispatchKey.AutocastPrivateUse1)):
            return attention(query, key, value, *others)
