"""Packages that keep a list of the devices that they know: this device is added to it.

Each is changed when it is imported, and not before: ``import torch`` imports none of them. A package may also be
the one that imports torch, in the middle of its own import: its modules are changed when they are complete.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

__all__ = ["install"]

_CHANGES = {
    "accelerate.accelerator": "accelerate.change_accelerator",
    "accelerate.checkpointing": "accelerate.change_checkpointing",
    "accelerate.state": "accelerate.change_state",
    "accelerate.utils.modeling": "accelerate.change_modeling",
    "lightning.fabric.accelerators": "lightning.change_accelerators",
    "lightning.fabric.connector": "lightning.change_fabric",
    "lightning.fabric.utilities.device_parser": "lightning.change_parser",
    "lightning.pytorch.accelerators": "lightning.change_accelerators",
    "lightning.pytorch.trainer.connectors.accelerator_connector": "lightning.change_trainer",
    "lightning_fabric.accelerators": "lightning.change_accelerators",
    "lightning_fabric.connector": "lightning.change_fabric",
    "lightning_fabric.utilities.device_parser": "lightning.change_parser",
    "peft.utils.other": "default_device.change_peft",
    "pytorch_lightning.accelerators": "lightning.change_accelerators",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "lightning.change_trainer",
    "safetensors": "safetensors.change",
    "sentence_transformers.util.environment": "default_device.change_sentence_transformers",
    "torch._dynamo.device_interface": "dynamo.change_interfaces",
    "torch._dynamo.trace_rules": "dynamo.change_rules",
    "torch._higher_order_ops.flex_attention": "flex_attention.change_operators",
    "torch._inductor.codegen.common": "inductor.change_codegen",
    "torch._inductor.compile_fx": "inductor.change_compile",
    "torch._inductor.lowering": "inductor.change_lowering",
    "torch._subclasses.fake_tensor": "fake_tensors.change",
    "torch.distributed.distributed_c10d": "distributed.change",
    "torch.distributed.tensor._ops._matrix_ops": "dtensor.change",
    "torch.nn.attention.flex_attention": "flex_attention.change_checks",
    "transformers.distributed.utils": "transformers.change_distributed",
    "transformers.trainer": "transformers.change_trainer",
    "transformers.training_args": "transformers.change_arguments",
    "transformers.utils.import_utils": "transformers.change_imports",
}
"""The file of this folder and the function in it, by the module's name: read when the module is imported."""


def install() -> None:
    """Changes what has been imported, and has the rest changed when it is."""
    for name in _CHANGES:
        if name in sys.modules:
            _change_when_complete(sys.modules[name])
    sys.meta_path.insert(0, _Finder())


def _change(module: ModuleType) -> None:
    file, _, function = _CHANGES[module.__name__].partition(".")
    getattr(importlib.import_module(f".{file}", __name__), function)(module)


def _change_when_complete(module: ModuleType) -> None:
    if getattr(module.__spec__, "_initializing", False):
        _WatchedSpec.watch(module)
    else:
        _change(module)


class _WatchedSpec(importlib.machinery.ModuleSpec):
    """The spec of a module that is being imported: the import system tells it when that is done."""

    @classmethod
    def watch(cls, module: ModuleType) -> None:
        spec: Any = module.__spec__
        is_running = spec.__dict__.pop("_initializing")
        spec.__class__ = cls
        spec.__dict__.update(_is_running=is_running, _change=lambda: _change(module))

    @property
    def _initializing(self) -> bool:
        return self.__dict__.get("_is_running", False)

    @_initializing.setter
    def _initializing(self, is_running: bool) -> None:
        self.__dict__["_is_running"] = is_running
        is_loaded = self.name in sys.modules
        if not is_running and is_loaded and "_change" in self.__dict__:
            self.__dict__.pop("_change")()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what others find, and changes it once it has run."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _CHANGES:
            return None
        finders = (finder for finder in sys.meta_path if not isinstance(finder, _Finder))
        specs = (finder.find_spec(name, path, target) for finder in finders)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        _change(module)
