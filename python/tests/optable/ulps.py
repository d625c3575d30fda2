"""Errors of the functions that have a bound of their own, in units of the last place."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .case import special
from .rounding import arrived

BOUNDS = {torch.float16: 1.0, torch.bfloat16: 1.0, torch.float32: 2.0}
FUNCTIONS = {
    "exp": torch.exp,
    "log": torch.log,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "erf": torch.erf,
    "sin": torch.sin,
    "cos": torch.cos,
    "pow": torch.pow,
    "rsqrt": torch.rsqrt,
}
SAMPLE = 1 << 20
"""Numbers of float32 that are tried; of the 16-bit formats, all are."""


@dataclass(frozen=True)
class Format:
    """Spacing of a format's numbers: bits of fraction, the least and the largest exponent."""

    fraction: int
    least: int
    largest: int

    def spacing(self, values: torch.Tensor) -> torch.Tensor:
        exponent = torch.frexp(values.abs())[1] - 1
        return torch.ldexp(torch.ones_like(values), exponent.clamp(self.least, self.largest) - self.fraction)


FORMATS = {
    torch.float16: Format(10, -14, 15),
    torch.bfloat16: Format(7, -126, 127),
    torch.float32: Format(23, -126, 127),
}
CARD = Format(9, -15, 15)
"""The card's 16-bit float, as far as the host's float16 shows it."""


def worst(name: str, dtype: torch.dtype, device: torch.device, card: bool) -> tuple[float, str]:
    """The largest error of a function, and where it is."""
    operands = pairs(dtype) if name == "pow" else [every_number(dtype)]
    given = FUNCTIONS[name](*(operand.to(device) for operand in operands)).cpu().double()
    numbers = [(arrived(operand) if card else operand).double() for operand in operands]
    exact = FUNCTIONS[name](*numbers)
    # One special stands for NaN and for the infinities: it comes back as an infinity, NaN as that above.
    exact = exact.nan_to_num(torch.inf, torch.inf, -torch.inf) if card else exact
    errors = distances(given, exact, CARD if card else FORMATS[dtype])
    at = int(errors.argmax())
    where = ", ".join(f"{value[at].item():g}" for value in numbers)
    return float(errors[at]), f"{name}({where}) is {given[at].item():g}, not {exact[at].item():g}"


def distances(given: torch.Tensor, exact: torch.Tensor, form: Format) -> torch.Tensor:
    """Error of each result, in units of the last place; infinite where only one of the two is a number."""
    end = 2.0 ** (form.largest + 1)
    errors = (ended(given, end) - ended(exact, end)).abs() / form.spacing(ended(exact, end))
    errors = errors.masked_fill(given.isnan() & exact.isnan(), 0)
    return errors.nan_to_num(float("inf"), posinf=float("inf"))


def ended(values: torch.Tensor, end: float) -> torch.Tensor:
    """Infinity is the next number after the last."""
    return values.clamp(-end, end)


def every_number(dtype: torch.dtype) -> torch.Tensor:
    """All of a 16-bit format, or a sample of float32: bits at random, numbers of everyday size, and the ends."""
    if dtype.itemsize == 2:
        return torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(dtype)
    generator = torch.Generator().manual_seed(11)
    bits = torch.randint(-(1 << 31), 1 << 31, (SAMPLE // 2,), generator=generator).to(torch.int32).view(dtype)
    usual = torch.randn(SAMPLE // 2, generator=generator) * 10
    return torch.cat([bits, usual, torch.tensor(special(dtype), dtype=dtype)])


def pairs(dtype: torch.dtype) -> list[torch.Tensor]:
    """Bases and exponents: everything with some numbers of everyday size, and those with each other."""
    generator = torch.Generator().manual_seed(12)
    base = every_number(dtype)
    order = torch.randperm(base.numel(), generator=generator)
    usual = (torch.randn(base.numel(), generator=generator) * 3).to(dtype)
    whole = torch.randint(-4, 5, (base.numel(),), generator=generator).to(dtype)
    bases = [base, base, usual.abs(), base, usual]
    exponents = [usual, whole, usual[order], base[order], whole]
    return [torch.cat(bases), torch.cat(exponents)]
