"""Dtypes, markers and tensors that the tests of layouts share."""

from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor

CARD = os.environ.get("SPYRE_PROFILE", "open").strip().lower() == "card"
DTYPES = [torch.float16, torch.float32, torch.bfloat16, torch.int8, torch.int32, torch.bool]

only_on_card = pytest.mark.skipif(not CARD, reason="as the card has it")
only_on_open = pytest.mark.skipif(CARD, reason="what the card does not keep")


def halves(*size: int) -> Tensor:
    """Numbers that every 16-bit format keeps, all different as far as they can be."""
    count = torch.Size(size).numel()
    return (torch.arange(count) % 509 - 254).to(torch.float16).reshape(size)


def contiguous(size: list[int]) -> list[int]:
    return list(torch.empty(size, device="meta").stride())
