"""Dynamo, which traces Python: functions that ask the runtime are left to the interpreter, as those of `torch.cuda` are."""

from __future__ import annotations

from types import ModuleType

__all__ = ["change"]


def change(module: ModuleType) -> None:
    """Has Dynamo compile nothing of these files, which hold no part of a graph."""
    from .. import _devices, _runtime, random

    module.FORCE_SKIP_FILES.update(file.__file__ for file in (_devices, _runtime, random))
