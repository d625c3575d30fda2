"""``torch.autograd.profiler.profile(use_device="spyre")``: the older face of PyTorch's profiler.

By default it asks a device for events of its own kind around every operator. The device's activity is recorded by
Kineto, as in ``torch.profiler``, so that is what it uses here.
"""

from __future__ import annotations

import functools
from typing import Any

from torch.autograd.profiler import profile

from ..constants import DEVICE_NAME


def install() -> None:
    """Has the profiler use Kineto for this device."""
    known = profile.__init__

    @functools.wraps(known)
    def make(self: Any, *args: Any, use_device: str | None = None, **kwargs: Any) -> None:
        if use_device == DEVICE_NAME:
            kwargs["use_kineto"] = True
        known(self, *args, use_device=use_device, **kwargs)

    profile.__init__ = make  # type: ignore[method-assign]
