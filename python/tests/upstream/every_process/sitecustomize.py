"""Teaches PyTorch's helpers of distributed tests that spyre is a device with a backend of its own.

On the path of the driver's processes, so that the ranks that tests start load it, too. A helper is changed when it has
been imported. The helpers know cuda, hpu and xpu by name; each change puts spyre where they would stand.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

BACKEND = "cpu:gloo,spyre:spyreccl"


def change_common_distributed(module: ModuleType) -> None:
    """Has tests that need several cards see them, and tests of an accelerator's backend find ours."""
    import torch

    def skip_if_lt_x_gpu(count: int, *, allow_cpu: bool = False) -> Any:
        def decorator(test: Any) -> Any:
            @functools.wraps(test)
            def wrapper(*args: Any, **named: Any) -> Any:
                if torch.accelerator.device_count() >= count:
                    return test(*args, **named)
                sys.exit(module.TEST_SKIPS[f"multi-gpu-{count}"].exit_code)

            return wrapper

        return decorator

    module.skip_if_lt_x_gpu = skip_if_lt_x_gpu
    module.at_least_x_gpu = lambda count: torch.accelerator.device_count() >= count
    module.requires_accelerator_dist_backend = lambda backends=None: lambda test: test
    base = module.DistributedTestBase
    create = base.create_pg

    def create_pg(self: Any, device: str, world_size: int | None = None) -> Any:
        if "cpu" in device:
            return create(self, device, world_size)
        torch.accelerator.set_device_index(self.rank)
        torch.set_default_device(torch.device("spyre", self.rank))
        return create(self, "spyre", world_size)

    base.create_pg = create_pg
    base.backend = lambda self, device: "gloo" if "cpu" in device else BACKEND


def change_common_dtensor(module: ModuleType) -> None:
    """Has ranks use the card of their number."""
    import torch

    for base in (module.DTensorTestBase, module.DTensorContinuousTestBase):
        if "init_pg" in vars(base):
            base.init_pg = on_own_card(base.init_pg, torch)
    module.DTensorTestBase.backend = property(lambda self: BACKEND if self.device_type == "spyre" else "gloo")


def on_own_card(initialize: Any, torch: Any) -> Any:
    @functools.wraps(initialize)
    def initialized(self: Any, *args: Any, **named: Any) -> Any:
        if self.device_type == "spyre":
            torch.accelerator.set_device_index(self.rank)
        return initialize(self, *args, **named)

    return initialized


def change_common_fsdp(module: ModuleType) -> None:
    """Has tests of FSDP run on spyre, not on the CPU."""
    import torch

    module.DEVICE_TYPE, module.DISTRIBUTED_BACKEND = "spyre", BACKEND
    module.DEVICE_COUNT = torch.accelerator.device_count()
    module.FSDPTestContinuous.world_size = module.DEVICE_COUNT
    module.TEST_XPU = True  # which only says here that a rank has a device


def change_common_device_type(module: ModuleType) -> None:
    """Has classes that are made for one accelerator be made for spyre."""
    instantiate = module.instantiate_device_type_tests

    @functools.wraps(instantiate)
    def instantiated(*args: Any, only_for: Any = None, **named: Any) -> Any:
        is_accelerators = only_for is not None and "cpu" not in only_for
        return instantiate(*args, only_for="spyre" if is_accelerators else only_for, **named)

    module.instantiate_device_type_tests = instantiated


def change_functional_api(module: ModuleType) -> None:
    """Names the accelerator of this file's tests, as the note at its head asks of a new device."""
    module.DEVICE = "spyre"
    module.devices.append("spyre")


def change_multi_threaded_pg(module: ModuleType) -> None:
    """Has the group of threads, which knows no streams, wait for what each thread has queued."""
    import torch

    group = module.ProcessLocalGroup
    start = group._start_coll

    def start_after_all_streams(*args: Any) -> Any:
        torch.accelerator.synchronize()
        return start(*args)

    group._start_coll = staticmethod(start_after_all_streams)


CHANGES = {
    "torch.testing._internal.distributed.multi_threaded_pg": change_multi_threaded_pg,
    "test_functional_api": change_functional_api,
    "torch.testing._internal.common_distributed": change_common_distributed,
    "torch.testing._internal.common_device_type": change_common_device_type,
    "torch.testing._internal.common_fsdp": change_common_fsdp,
    "torch.testing._internal.distributed._tensor.common_dtensor": change_common_dtensor,
}


class ChangedLoader(importlib.abc.Loader):
    """Loads a module, and changes it then."""

    def __init__(self, loader: Any, change: Any) -> None:
        self._loader, self._change = loader, change

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._change(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the helpers, by way of those that find all modules."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        change = CHANGES.get(name)
        if change is None:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = ChangedLoader(spec.loader, change)
        return spec


if os.environ.get("SPYRE_UPSTREAM_RANKS"):
    sys.meta_path.insert(0, Finder())
