"""Automatic mixed precision: ``torch.autocast("spyre")`` under the names that other devices' modules have."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .constants import DEVICE_NAME

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast_mode.autocast):  # noqa: N801  the name that other devices have
    """``torch.autocast("spyre", ...)``."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True
    ) -> None:
        super().__init__(DEVICE_NAME, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("spyre", ...)``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(DEVICE_NAME, *args, **kwargs)


custom_fwd = functools.partial(torch.amp.custom_fwd, device_type=DEVICE_NAME)
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type=DEVICE_NAME)
