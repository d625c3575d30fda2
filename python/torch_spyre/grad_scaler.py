"""``torch.amp.GradScaler`` under the card's profile.

It inverts its one number in float64, which a card does not keep: the host does that, and it counts as a fallback.
Gradients stay where they are.
"""

from __future__ import annotations

import functools
from typing import Any

from torch.amp import GradScaler

from . import _C
from .constants import DEVICE_NAME

_OP = "GradScaler.unscale_"


def install() -> None:
    """Has the host invert a scale that is on a card."""
    known = GradScaler.unscale_

    @functools.wraps(known)
    def unscale_(self: GradScaler, optimizer: Any) -> None:
        scale = self._scale
        if scale is None or scale.device.type != DEVICE_NAME or not _C._is_card_profile():
            return known(self, optimizer)
        _note_fallback()
        self._scale = scale.cpu()
        try:
            known(self, optimizer)
        finally:
            self._scale = scale

    GradScaler.unscale_ = unscale_  # type: ignore[method-assign]


def _note_fallback() -> None:
    from .ops.fallbacks import warn_fallback

    if _C.count_fallback(_OP):
        warn_fallback(_OP)
