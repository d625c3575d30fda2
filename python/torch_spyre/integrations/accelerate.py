"""``accelerate``: the device that a model is put on by default, its memory, and mixed precision on it."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from ..constants import DEVICE_NAME, DISTRIBUTED_BACKEND_NAME
from . import random_state
from .packages import extend_constants, is_default_device, replace

Memory = dict[int | str, int | str]


def change_state(module: ModuleType) -> None:
    """``Accelerator().device``."""
    known = module.PartialState.default_device

    def default_device(self: Any) -> torch.device:
        device = known.fget(self)
        return torch.device(DEVICE_NAME) if device.type == "cpu" and is_default_device() else device

    default_device.__doc__ = known.__doc__
    module.PartialState.default_device = property(default_device)
    _change_processes(module)


def _change_processes(module: ModuleType) -> None:
    """Processes of a launcher: they would each run alone. The kind of another accelerator stands for this one's."""
    known_backend, known_device = module.PartialState._prepare_backend, module.PartialState.set_device
    kinds = module.DistributedType

    @functools.wraps(known_backend)
    def prepare_backend(
        self: Any, cpu: bool = False, sagemaker_dp: bool = False, backend: str | None = None
    ) -> tuple[str | None, Any]:
        found, kind = known_backend(self, cpu, sagemaker_dp, backend)
        is_launched = int(os.environ.get("LOCAL_RANK", -1)) != -1
        if kind != kinds.NO or cpu or not is_launched or not is_default_device():
            return found, kind
        return backend or DISTRIBUTED_BACKEND_NAME, kinds.MULTI_XPU

    @functools.wraps(known_device)
    def set_device(self: Any) -> None:
        if self.device is None and self.distributed_type == kinds.MULTI_XPU and is_default_device():
            index = self.local_process_index % torch.spyre.device_count()
            self.device = torch.device(DEVICE_NAME, index)
            torch.spyre.set_device(index)
        else:
            known_device(self)

    module.PartialState._prepare_backend, module.PartialState.set_device = prepare_backend, set_device


def change_modeling(module: ModuleType) -> None:
    """``device_map="auto"`` and the scaler of float16's gradients."""
    _change_memory(module)
    _change_scaler(module)


def change_accelerator(module: ModuleType) -> None:
    """``Accelerator(mixed_precision="fp16")``: a list of devices in its constructor."""
    extend_constants(module.Accelerator.__init__, "xpu")


def change_checkpointing(module: ModuleType) -> None:
    """``save_state`` and ``load_state``: random numbers of the device go on as they would have."""
    for name, folder, act in (
        ("save_accelerator_state", "output_dir", random_state.save),
        ("load_accelerator_state", "input_dir", random_state.load),
    ):
        replace(module, name, _with_generators(getattr(module, name), folder, act))


def _change_memory(module: ModuleType) -> None:
    """Devices are numbers there, and a number alone is this device's."""
    known = module.get_max_memory

    @functools.wraps(known)
    def get_max_memory(max_memory: Memory | None = None) -> Memory:
        if not is_default_device():
            return known(max_memory)
        count = torch.spyre.device_count()
        if max_memory is None:
            return {**{device: torch.spyre.mem_get_info(device)[0] for device in range(count)}, **known()}
        cards = {device: max_memory[device] for device in sorted(d for d in max_memory if isinstance(d, int))}
        for device in cards:
            if not 0 <= device < count:
                module.logger.warning(f"Device {device} is not available, available devices are {[*range(count)]}")
        others = known({device: size for device, size in max_memory.items() if device not in cards})
        return {**{device: _bytes(module, size) for device, size in cards.items()}, **others}

    replace(module, "get_max_memory", get_max_memory)


def _bytes(module: ModuleType, size: int | str) -> int:
    return module.convert_file_size_to_int(size) if isinstance(size, str) else size


def _change_scaler(module: ModuleType) -> None:
    known = module.get_grad_scaler

    @functools.wraps(known)
    def get_grad_scaler(distributed_type: Any = None, **kwargs: Any) -> Any:
        is_sharded = distributed_type == module.DistributedType.FSDP
        if is_sharded or not is_default_device():
            return known(distributed_type, **kwargs)
        return torch.amp.GradScaler(DEVICE_NAME, **kwargs)

    replace(module, "get_grad_scaler", get_grad_scaler)


def _with_generators(known: Callable[..., Any], folder: str, act: Callable[..., None]) -> Callable[..., Any]:
    signature = inspect.signature(known)

    @functools.wraps(known)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = known(*args, **kwargs)
        if is_default_device():
            given = signature.bind(*args, **kwargs).arguments
            act(given[folder], given["process_index"])
        return result

    return call
