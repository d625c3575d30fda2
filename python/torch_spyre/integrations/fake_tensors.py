"""Fake tensors, which `import torch` imports: they learn of layouts when the first mode is made, and not before."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

__all__ = ["change"]


def change(module: ModuleType) -> None:
    """Has the first mode make fake tensors keep layouts."""
    known = module.FakeTensorMode.__init__
    is_changed = False

    @functools.wraps(known)
    def first(self: Any, *args: Any, **named: Any) -> None:
        nonlocal is_changed
        if not is_changed:
            is_changed = True
            from ..fake_layouts import change_fake_tensors

            change_fake_tensors(module)
        known(self, *args, **named)

    module.FakeTensorMode.__init__ = first
