"""Lightning: ``accelerator="spyre"``, and ``"auto"`` where spyre is the device of the process."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import torch

from .._devices import existing_index
from ..constants import DEVICE_NAME
from .packages import extend_constants, is_default_device, replace


def change_accelerators(module: ModuleType) -> None:
    """The registry of accelerators: of ``Trainer`` or of ``Fabric``."""
    registry = getattr(module, "AcceleratorRegistry", None) or module.ACCELERATOR_REGISTRY
    accelerator = type("SpyreAccelerator", (_Cards, module.Accelerator), {})
    registry.register(DEVICE_NAME, accelerator, description="SpyreAccelerator")


def change_trainer(module: ModuleType) -> None:
    """``Trainer``: the strategy for one device, and mixed precision, go by lists of names."""
    connector = module._AcceleratorConnector
    extend_constants(connector._choose_strategy, "mps")
    extend_constants(connector._check_and_init_precision, "mps")


def change_fabric(module: ModuleType) -> None:
    """``Fabric``: as with ``Trainer``, and its own way to choose a device."""
    connector = module._Connector
    extend_constants(connector._choose_strategy, "mps")
    extend_constants(connector._check_and_init_precision, "mps")
    connector._choose_auto_accelerator = staticmethod(_or_spyre(connector._choose_auto_accelerator))


def change_parser(module: ModuleType) -> None:
    """``accelerator="auto"``."""
    name = "_select_auto_accelerator"
    if hasattr(module, name):
        replace(module, name, _or_spyre(getattr(module, name)))


def _or_spyre(known: Any) -> Any:
    @functools.wraps(known)
    def choose() -> str:
        name = known()
        return DEVICE_NAME if name == "cpu" and is_default_device() else name

    return choose


class _Cards:
    """The cards, as Lightning asks for them."""

    def setup_device(self, device: torch.device) -> None:
        torch.spyre.set_device(device)

    def teardown(self) -> None:
        torch.spyre.empty_cache()

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        return torch.spyre.memory_stats(device)

    @staticmethod
    def parse_devices(devices: int | str | list[int]) -> list[int]:
        """The indices that ``devices`` stands for: a count, -1 for all of them, or a list."""
        if isinstance(devices, str):
            devices = [int(index) for index in devices.split(",") if index] if "," in devices else int(devices)
        if isinstance(devices, int):
            devices = list(range(torch.spyre.device_count() if devices == -1 else devices))
        return [existing_index(index) for index in devices]

    @staticmethod
    def get_parallel_devices(devices: list[int]) -> list[torch.device]:
        return [torch.device(DEVICE_NAME, index) for index in devices]

    @staticmethod
    def auto_device_count() -> int:
        """One: to use several is the program's choice."""
        return 1

    @staticmethod
    def is_available() -> bool:
        return torch.spyre.is_available()

    @staticmethod
    def name() -> str:
        return DEVICE_NAME
