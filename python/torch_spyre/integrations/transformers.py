"""``transformers``: the device that a ``Trainer`` trains on, in which precision, and its checkpoints."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import torch

from ..constants import DEVICE_NAME, DISTRIBUTED_BACKEND_NAME
from . import random_state
from .packages import is_default_device, replace


def change_imports(module: ModuleType) -> None:
    """``bf16=True``: the functions that tell what the machine can do."""
    known = module.is_torch_bf16_gpu_available

    @functools.wraps(known)
    def is_torch_bf16_gpu_available() -> bool:
        return known() or (module.is_torch_available() and is_default_device())

    replace(module, "is_torch_bf16_gpu_available", is_torch_bf16_gpu_available)


def change_arguments(module: ModuleType) -> None:
    """``TrainingArguments.device``: where accelerate puts the model, unless another device was asked for."""
    known = module.TrainingArguments._setup_devices

    @functools.wraps(known.func)
    def setup_devices(self: Any) -> torch.device:
        device = known.func(self)
        state = getattr(self, "distributed_state", None)
        if device.type != "cpu" or state is None or state.device.type != DEVICE_NAME:
            return device
        self._n_gpu = 1
        return torch.device(DEVICE_NAME, torch.spyre.current_device())

    changed = functools.cached_property(setup_devices)
    changed.__set_name__(module.TrainingArguments, "_setup_devices")
    module.TrainingArguments._setup_devices = changed


def change_distributed(module: ModuleType) -> None:
    """``DistributedConfig``: the backend of a device, by its name."""
    module.DISTRIBUTED_BACKEND_MAP.setdefault(DEVICE_NAME, DISTRIBUTED_BACKEND_NAME)


def change_trainer(module: ModuleType) -> None:
    """Checkpoints: random numbers of the device go on as they would have."""
    trainer = module.Trainer
    known_save, known_load = trainer._save_rng_state, trainer._load_rng_state

    @functools.wraps(known_save)
    def save(self: Any, output_dir: str) -> None:
        known_save(self, output_dir)
        if self.args.device.type == DEVICE_NAME:
            random_state.save(output_dir, self.args.process_index)

    @functools.wraps(known_load)
    def load(self: Any, checkpoint: str | None) -> None:
        known_load(self, checkpoint)
        if checkpoint is not None and self.args.device.type == DEVICE_NAME:
            random_state.load(checkpoint, self.args.process_index)

    trainer._save_rng_state, trainer._load_rng_state = save, load
