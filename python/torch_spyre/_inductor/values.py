"""Values inside a kernel: their text, their dtype, and the dims along which they differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

__all__ = ["Value", "is_narrow", "lane_of", "literal"]

_LANES = {torch.bool: "bool", torch.float64: "f64"}


def lane_of(dtype: torch.dtype) -> str:
    """The lane in which numbers of a dtype are computed."""
    return _LANES.get(dtype, "f32" if dtype.is_floating_point else "i64")


def is_narrow(dtype: torch.dtype) -> bool:
    """Returns true if a lane holds numbers that the dtype does not."""
    return dtype not in (torch.bool, torch.float32, torch.float64, torch.int64)


@dataclass(frozen=True)
class Value:
    """A value of a kernel."""

    text: str
    dtype: torch.dtype
    dims: frozenset[str] = frozenset()
    is_rounded: bool = False
    """True if it is a number of its dtype, and not only of its lane."""

    @property
    def lane(self) -> str:
        return lane_of(self.dtype)

    def __str__(self) -> str:
        return self.text

    def in_lane(self, lane: str) -> str:
        """Its text, converted to a lane."""
        return self.text if lane == self.lane else f"{lane}({self.text})"


def literal(number: bool | float | int, dtype: torch.dtype) -> Value:
    """A number as a value."""
    lane = lane_of(dtype)
    if lane == "bool":
        return Value("true" if number else "false", dtype, is_rounded=True)
    if lane == "i64":
        whole = int(number)
        text = f"{whole}i64" if whole >= 0 else f"(-{-whole}i64)"
        return Value(text, dtype, is_rounded=True)
    real = float(number)
    digits = "nan" if math.isnan(real) else "inf" if math.isinf(real) else repr(abs(real))
    sign = math.copysign(1, real) < 0 and not math.isnan(real)
    return Value(f"(-{digits}{lane})" if sign else f"{digits}{lane}", dtype, is_rounded=not is_narrow(dtype))
