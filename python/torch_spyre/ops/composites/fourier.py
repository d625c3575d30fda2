"""Fourier transforms: matrix products of the sizes that a length has as factors."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .table import Declined, composite

_AT_ONCE = 64
"""Lengths up to this are one product. A longer prime is, too."""


def _waves(rows: int, columns: int, length: int, sign: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """The cosines and sines of each row's and column's product, as parts of a turn of ``length`` steps."""
    row = torch.arange(rows, device=like.device).unsqueeze(1)
    steps = row * torch.arange(columns, device=like.device) % length
    turns = steps.to(like.dtype) * (sign * 2 * math.pi / length)
    return turns.cos(), turns.sin()


def _factor(length: int) -> int:
    """The largest factor that is one product, or 1."""
    return max(factor for factor in range(1, min(length, _AT_ONCE) + 1) if length % factor == 0)


def _transform(real: Tensor, imaginary: Tensor, sign: int) -> tuple[Tensor, Tensor]:
    """Along the last dim."""
    length = real.size(-1)
    factor = _factor(length)
    if factor in (1, length):
        cosine, sine = _waves(length, length, length, sign, real)
        return real @ cosine - imaginary @ sine, real @ sine + imaginary @ cosine
    rest = length // factor
    # Element j * rest + l of the whole, as column l of row j.
    shape = (*real.shape[:-1], factor, rest)
    first = _transform(real.reshape(shape).mT, imaginary.reshape(shape).mT, sign)
    cosine, sine = _waves(rest, factor, length, sign, real)
    turned = (first[0] * cosine - first[1] * sine, first[0] * sine + first[1] * cosine)
    second = _transform(turned[0].mT, turned[1].mT, sign)
    flat = (*real.shape[:-1], length)
    return second[0].mT.reshape(flat), second[1].mT.reshape(flat)


def _along(real: Tensor, imaginary: Tensor, dims: list[int], sign: int) -> tuple[Tensor, Tensor]:
    for dim in dims:
        real, imaginary = _transform(real.movedim(dim, -1), imaginary.movedim(dim, -1), sign)
        real, imaginary = real.movedim(-1, dim), imaginary.movedim(-1, dim)
    return real, imaginary


def _scale(elements: int, normalization: int) -> float:
    return (1.0, 1 / math.sqrt(elements), 1 / elements)[normalization]


def _wide(x: Tensor) -> Tensor:
    """Sums of many terms are wider than they are; a length of nothing is the host's to refuse."""
    if x.numel() == 0:
        raise Declined("there is nothing to transform")
    return x.double()


def _laid_out(made: Tensor, x: Tensor, *stages: list[int]) -> Tensor:
    """The result as PyTorch's function for shapes promises it: each stage puts its dims last, in their order, and the
    others before them as they lie in what the stage reads."""
    if not torch.backends.mkl.is_available() and made.is_complex() != x.is_complex():
        return made.contiguous()  # what is promised depends on the CPU's library
    order = sorted(range(x.ndim), key=x.stride, reverse=True)
    for dims in stages:
        order = [*(dim for dim in order if dim not in dims), *dims]
    return made.permute(order).contiguous().permute([order.index(dim) for dim in range(x.ndim)])


def _from_far_to_near(x: Tensor, dims: list[int]) -> list[int]:
    return sorted(dims, key=x.stride, reverse=True)


@composite("_fft_c2c")
def complex_to_complex(x: Tensor, dim: list[int], normalization: int, forward: bool) -> Tensor:
    scale = _scale(math.prod(x.size(d) for d in dim), normalization)
    real, imaginary = _along(_wide(x.real), _wide(x.imag), dim, -1 if forward else 1)
    made = torch.complex(real * scale, imaginary * scale).to(x.dtype)
    return _laid_out(made, x, _from_far_to_near(x, dim))


@composite("_fft_r2c")
def real_to_complex(x: Tensor, dim: list[int], normalization: int, onesided: bool) -> Tensor:
    real = _wide(x)
    scale = _scale(math.prod(x.size(d) for d in dim), normalization)
    real, imaginary = _along(real, torch.zeros_like(real), list(dim)[::-1], -1)
    if onesided:
        half = x.size(dim[-1]) // 2 + 1
        real, imaginary = real.narrow(dim[-1], 0, half), imaginary.narrow(dim[-1], 0, half)
    made = torch.complex(real * scale, imaginary * scale).to(x.dtype.to_complex())
    return _laid_out(made, x, [*_from_far_to_near(x, dim[:-1]), dim[-1]])


@composite("_fft_c2r")
def complex_to_real(x: Tensor, dim: list[int], normalization: int, last_dim_size: int) -> Tensor:
    last = dim[-1]
    sizes = [x.size(d) for d in dim[:-1]] + [last_dim_size]
    real, imaginary = _along(_wide(x.real), _wide(x.imag), list(dim[:-1]), 1)
    half = last_dim_size // 2 + 1
    real, imaginary = real.narrow(last, 0, half), imaginary.narrow(last, 0, half)
    # The other half is the first one backwards, conjugate.
    count = last_dim_size - half
    mirrored = [part.narrow(last, 1, count).flip(last) for part in (real, imaginary)] if count else []
    if mirrored:
        real, imaginary = torch.cat([real, mirrored[0]], last), torch.cat([imaginary, -mirrored[1]], last)
    real, _ = _along(real, imaginary, [last], 1)
    made = (real * _scale(math.prod(sizes), normalization)).to(x.dtype.to_real())
    return _laid_out(made, x, _from_far_to_near(x, dim[:-1]), [last])
