"""Operations that the device does itself, as far as they are written in Python.

``EAGER_MODE=0`` leaves all of them out: the CPU does everything (:mod:`.fallbacks`). That is how to find out
whether a kernel is to blame.

    @register_eager("aten::frac")
    def frac(x):              # on the device's own tensors
        return x - x.trunc()
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .fallbacks import Op, _overloads

__all__ = ["eager_mode", "eager_ops", "register_eager"]

eager_ops: list[str] = []
"""The operations that were registered here."""

_libraries: dict[str, torch.library.Library] = {}


def eager_mode() -> bool:
    """Returns True if the device's own kernels are used: ``EAGER_MODE``, as it was at the import."""
    return _MODE


def register_eager(ops: Op | Iterable[Op]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Has a function do one or more operations on the device's tensors, unless ``EAGER_MODE`` is 0."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for overload in _overloads(ops) if eager_mode() else ():
            namespace, _, name = overload.name().partition("::")
            library = _libraries.setdefault(namespace, torch.library.Library(namespace, "IMPL"))
            library.impl(name, function, "PrivateUse1", allow_override=True)
            eager_ops.append(overload.name())
        return function

    return register


def _mode(value: str) -> bool:
    if value.strip() not in ("", "0", "1"):
        raise ValueError(f"EAGER_MODE is {value!r}: give 1 for the device's own kernels, or 0 for the CPU's")
    return value.strip() != "0"


_MODE = _mode(os.environ.get("EAGER_MODE", ""))
