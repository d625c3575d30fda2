"""Dynamo, which traces Python, and asks of a device what it has."""

from __future__ import annotations

import functools
from types import ModuleType

__all__ = ["change_interfaces", "change_rules"]


def change_interfaces(module: ModuleType) -> None:
    """Registers what Dynamo asks of a device."""
    known = module.init_device_reg

    @functools.wraps(known)
    def with_ours() -> None:
        from .device_interface import SpyreInterface

        known()
        module.register_interface_for_device("spyre", SpyreInterface)
        for index in range(SpyreInterface.device_count()):
            module.register_interface_for_device(f"spyre:{index}", SpyreInterface)

    module.init_device_reg = with_ours


def change_rules(module: ModuleType) -> None:
    """Leaves functions that ask the runtime to the interpreter, as those of `torch.cuda` are: they are no part of a graph."""
    from .. import _devices, _runtime, random

    module.FORCE_SKIP_FILES.update(file.__file__ for file in (_devices, _runtime, random))
