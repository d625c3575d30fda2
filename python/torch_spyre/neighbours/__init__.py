"""Packages that keep a list of the devices that they know, and are told of this one.

Each is changed when it is imported, and not before: ``import torch`` imports none of them.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from . import accelerate, safetensors

__all__ = ["install"]

_CHANGES: dict[str, Callable[[ModuleType], None]] = {
    "accelerate.state": accelerate.change_state,
    "accelerate.utils.modeling": accelerate.change_modeling,
    "safetensors": safetensors.change,
}


def install() -> None:
    """Changes what has been imported, and has the rest changed when it is."""
    for name, change in _CHANGES.items():
        if name in sys.modules:
            change(sys.modules[name])
    sys.meta_path.insert(0, _Finder())


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
            spec.loader = _Loader(spec.loader, _CHANGES[name])
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, change: Callable[[ModuleType], None]) -> None:
        self._loader, self._change = loader, change

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._change(module)
