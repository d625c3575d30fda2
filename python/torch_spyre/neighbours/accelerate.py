"""``accelerate``: which device a model is put on if nobody says, and how much memory it has."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import torch

from ..constants import DEVICE_NAME


def _is_ours() -> bool:
    """Whether this is the device of this process: a machine may have others."""
    device = torch.accelerator.current_accelerator(check_available=True)
    return device is not None and device.type == DEVICE_NAME


def change_state(module: ModuleType) -> None:
    """``Accelerator().device``."""
    known = module.PartialState.default_device

    def default_device(self: Any) -> torch.device:
        device = known.fget(self)
        return torch.device(DEVICE_NAME) if device.type == "cpu" and _is_ours() else device

    default_device.__doc__ = known.__doc__
    module.PartialState.default_device = property(default_device)


def change_modeling(module: ModuleType) -> None:
    """``device_map="auto"``: devices are numbers there, and a number alone is this device's."""
    known = module.get_max_memory

    @functools.wraps(known)
    def get_max_memory(max_memory: dict[int | str, int | str] | None = None) -> dict[int | str, int | str]:
        given: dict[int | str, int | str] = known(max_memory)
        if max_memory is not None or any(isinstance(device, int) for device in given) or not _is_ours():
            return given
        free = {device: torch.spyre.mem_get_info(device)[0] for device in range(torch.spyre.device_count())}
        return {**free, **given}

    module.get_max_memory = get_max_memory
