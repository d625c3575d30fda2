"""Tensors that are made from nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from .table import Declined, composite, writes


def _filled(out: Tensor, value: Tensor) -> Tensor:
    if out.shape != value.shape:
        out.resize_(value.shape)
    return out.copy_(value)


def _in_rows(out: Tensor, value: Tensor) -> Tensor:
    """A result of as many elements keeps its shape, and is filled row by row."""
    return _filled(out, value.reshape(out.shape) if out.numel() == value.numel() else value)


@composite("eye.m_out")
@writes
def eye(n: int, m: int, *, out: Tensor) -> Tensor:
    if n < 0 or m < 0:
        raise Declined("a negative size")
    rows = torch.arange(n, device=out.device).unsqueeze(1)
    return _filled(out, rows == torch.arange(m, device=out.device))


@composite("eye.out")
@writes
def square_eye(n: int, *, out: Tensor) -> Tensor:
    return eye(n, n, out=out)


def _steps(start: float, end: float, steps: int, out: Tensor) -> Tensor:
    """Steps from the nearer end, so that both are met. Integer results begin and end with integers."""
    if steps < 0 or isinstance(start, complex) and not out.is_complex():
        raise Declined("no steps of such numbers")
    if out.is_complex():
        first, last, parts = complex(start), complex(end), torch.empty((), dtype=torch.float64, device=out.device)
        return torch.complex(_steps(first.real, last.real, steps, parts), _steps(first.imag, last.imag, steps, parts))
    if not out.is_floating_point():
        start, end = int(start), int(end)
    at = torch.arange(steps, device=out.device).double()
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    return torch.where(at < steps // 2, start + step * at, end - step * (steps - 1 - at)) if steps > 1 else at + start


@composite("linspace.out")
@writes
def linspace(start: float, end: float, steps: int, *, out: Tensor) -> Tensor:
    return _in_rows(out, _steps(start, end, steps, out))


@composite("logspace.out")
@writes
def logspace(start: float, end: float, steps: int, base: float = 10.0, *, out: Tensor) -> Tensor:
    return _in_rows(out, torch.pow(base, _steps(start, end, steps, out)))


@composite("range.out")
@writes
def range_(start: float, end: float, step: float = 1, *, out: Tensor) -> Tensor:
    if step == 0 or (end - start) / step < 0:
        raise Declined("no such range")
    at = torch.arange(int((end - start) / step) + 1, device=out.device).double()
    return _in_rows(out, start + at * step)


@composite("_efficientzerotensor")
def zeros(
    size: list[int], *, dtype: torch.dtype | None = None, layout: torch.layout | None = None,
    device: torch.device | None = None, pin_memory: bool | None = None,
) -> Tensor:  # fmt: skip
    return torch.zeros(size, dtype=dtype, device=device)


@composite("kaiser_window", "kaiser_window.periodic", "kaiser_window.beta")
def kaiser_window(
    length: int, periodic: bool = True, beta: float = 12.0, *, dtype: torch.dtype | None = None,
    layout: torch.layout | None = None, device: torch.device | None = None, pin_memory: bool | None = None,
) -> Tensor:  # fmt: skip
    dtype = dtype or torch.get_default_dtype()
    if pin_memory:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    if layout not in (None, torch.strided):
        raise RuntimeError(f"kaiser_window is not implemented for sparse types, got: {layout}")
    if not dtype.is_floating_point and not dtype.is_complex:
        raise RuntimeError(f"kaiser_window expects floating point dtypes, got: {dtype}")
    if length < 0:
        raise RuntimeError(f"kaiser_window requires non-negative window_length, got window_length={length}")
    if length < 2:
        return torch.ones(length, dtype=dtype, device=device)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    x = torch.arange(length, dtype=wide, device=device) * (2.0 / (length if periodic else length - 1)) - 1.0
    largest = torch.special.i0(torch.tensor(beta, dtype=torch.float64)).item()
    return (torch.special.i0((1.0 - x * x).clamp_min(0).sqrt() * beta) / largest).to(dtype)


@composite("frexp.Tensor")
def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """The bits of the exponent, where there are some; numbers without are first made larger."""
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise Declined(str(x.dtype))
    wide = x.float()
    is_small = wide.abs() < 2.0**-126
    large = torch.where(is_small, wide * 2.0**24, wide).contiguous()
    bits = (large.view(torch.int32) >> 23) & 255
    exponent = bits - 126 - torch.where(is_small, 24, 0)
    is_whole = (wide == 0) | ~wide.isfinite()
    exponent = torch.where(is_whole, torch.zeros_like(exponent), exponent)
    mantissa = large * torch.exp2((126 - bits).float())
    return torch.where(is_whole, wide, mantissa).to(x.dtype), exponent.to(torch.int32)


@composite("nextafter")
def nextafter(a: Tensor, b: Tensor) -> Tensor:
    """Computes it for 16-bit floats: the next one has the next bits, away from zero or towards it."""
    if a.dtype != b.dtype or a.dtype not in (torch.float16, torch.bfloat16):
        raise Declined(str(a.dtype))
    a, b = torch.broadcast_tensors(a, b)
    a, b = a.contiguous(), b.contiguous()
    bits = a.view(torch.int16)
    step = torch.where((b > a) == (a > 0), 1, -1).to(torch.int16)
    least = torch.where(b > 0, 1, -0x7FFF).to(torch.int16)
    following = torch.where(a == 0, least, bits + step).view(a.dtype)
    known = torch.where(a == b, b, following)
    return torch.where(a.isnan() | b.isnan(), float("nan"), known)
