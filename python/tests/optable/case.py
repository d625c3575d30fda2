"""One way to call an operator, and the operands that it is called with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

SIZES = (0, 1, 63, 64, 65, 129, 4000)
"""Around a stick of 16-bit elements and two, and sizes that end in the middle of one."""

WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
FLOAT = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex32, torch.complex64, torch.complex128)
EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)
DTYPES = (torch.bool, *WHOLE, *UNSIGNED, *EIGHT_BITS, *FLOAT, *COMPLEX)
"""The columns of the table. What the CPU does not have of them is not measured."""

SMALL = (0, 1, 63, 64, 65, 129)
"""Sizes for operators whose work grows faster than their operands."""


@dataclass(frozen=True)
class Case:
    """One row of the table is all cases of one name."""

    name: str
    function: Callable
    operands: Callable
    """Gives the operands for a `Make` and a size."""
    sizes: tuple[int, ...] = SIZES
    expands: bool = True
    """True if operands may be expanded: not where two writes would meet in one place."""
    reads: bool = False
    """True if the operator has to read something back to the host, such as the size of its result."""
    random: bool = False
    """True if results are random numbers: only their devices, shapes and dtypes are compared."""
    grows: bool = False
    """True if results are sums of many terms, whose order is free."""
    off: float = 0.0
    """Error of PyTorch's own results in float64: some of its polynomials are no better."""


class Make:
    """Operands of one dtype; the same ones for the same seed."""

    def __init__(self, dtype: torch.dtype, seed: int):
        self.dtype, self.generator = dtype, torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int, low: float = -3, high: float = 3, dtype=None) -> torch.Tensor:
        """Numbers of the dtype between two bounds."""
        dtype = dtype or self.dtype
        if dtype == torch.bool:
            return self.truth(*shape)
        if dtype.is_complex:
            parts = [self(*shape, low=low, high=high, dtype=torch.float64) for _ in range(2)]
            return torch.complex(*parts).to(dtype)
        if dtype.is_floating_point:
            return (torch.rand(shape, generator=self.generator, dtype=torch.float64) * (high - low) + low).to(dtype)
        least = max(low, 0) if not dtype.is_signed else low
        return torch.randint(int(least), int(high) + 1, shape, generator=self.generator).to(dtype)

    def edges(self, *shape: int, low: float = -3, high: float = 3) -> torch.Tensor:
        """Random operands with the ends of ranges among them: zeros, infinities, NaN, the largest number."""
        values = self(*shape, low=low, high=high)
        if values.numel() < 32 or self.dtype == torch.bool or self.dtype.is_complex:
            return values
        ends = special(self.dtype) if self.is_float else whole_ends(self.dtype)
        places = torch.randperm(values.numel(), generator=self.generator)[: len(ends)]
        values.view(-1)[places] = torch.tensor(ends, dtype=self.dtype)
        return values

    def nonzero(self, *shape: int, low: float = 1, high: float = 9) -> torch.Tensor:
        """No zeros; half of the signed ones negative."""
        values = self(*shape, low=low, high=high)
        if self.dtype == torch.bool:
            return torch.ones_like(values)
        if self.dtype.is_signed or self.dtype.is_complex:
            return torch.where(self.truth(*shape), values, -values)
        return values

    def index(self, bound: int, *shape: int) -> torch.Tensor:
        """Places below a bound."""
        return torch.randint(0, max(bound, 1), shape, generator=self.generator)

    def order(self, count: int) -> torch.Tensor:
        """Every place once."""
        return torch.randperm(count, generator=self.generator)

    def distinct(self, *shape: int) -> torch.Tensor:
        """Numbers no two of which are equal, as far as the dtype has that many: sorting has one answer."""
        count = torch.Size(shape).numel()
        values = torch.randperm(count, generator=self.generator) - (count // 2 if self.dtype.is_signed else 0)
        return values.to(self.dtype).reshape(shape)

    def truth(self, *shape: int) -> torch.Tensor:
        return torch.randint(0, 2, shape, generator=self.generator).bool()

    @property
    def is_float(self) -> bool:
        return self.dtype.is_floating_point


def whole_ends(dtype: torch.dtype) -> list[int]:
    return [0, 1, torch.iinfo(dtype).max, torch.iinfo(dtype).min]


def special(dtype: torch.dtype) -> list[float]:
    limits = torch.finfo(dtype)
    ends = [0.0, -0.0, 1.0, -1.0, limits.max, limits.min, limits.tiny, limits.eps, float("nan")]
    return ends if dtype == torch.float8_e4m3fn else [*ends, float("inf"), -float("inf")]
