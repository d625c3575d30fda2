"""Functions that the files of this folder share: find the process's device, replace a package's function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from ..constants import DEVICE_NAME


def is_default_device() -> bool:
    """Tells if spyre is the accelerator of this process: a machine may have others."""
    device = torch.accelerator.current_accelerator(check_available=True)
    return device is not None and device.type == DEVICE_NAME


def replace(module: ModuleType, name: str, function: Callable[..., Any]) -> None:
    """Puts ``function`` where ``module.name`` is, also where other modules of the package have imported it."""
    known = getattr(module, name)
    package = module.__name__.partition(".")[0]
    for other_name, other in list(sys.modules.items()):
        if other_name.partition(".")[0] == package and vars(other).get(name) is known:
            setattr(other, name, function)


def extend_constants(function: Callable[..., Any], first: str) -> None:
    """Adds spyre to the lists of device names that a function's body spells out, and that hold ``first``."""
    code = function.__code__
    constants = tuple(
        (*constant, DEVICE_NAME) if isinstance(constant, tuple) and first in constant else constant
        for constant in code.co_consts
    )
    function.__code__ = code.replace(co_consts=constants)
