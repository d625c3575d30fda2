"""Images resized with a filter as wide as the pixels that fall together: two products with the filter's weights."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from .bytes_images import bits_of_weights
from .table import Declined, composite

_CUBIC = -0.5


def _triangle(x: Tensor) -> Tensor:
    return (1 - x).clamp(min=0)


def _cubic(x: Tensor) -> Tensor:
    near = ((_CUBIC + 2) * x - (_CUBIC + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * _CUBIC
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def _lanczos(x: Tensor) -> Tensor:
    return torch.where(x < 3, torch.sinc(x) * torch.sinc(x / 3), torch.zeros_like(x))


_FILTERS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "bilinear": (_triangle, 1), "bicubic": (_cubic, 2), "lanczos": (_lanczos, 3),
}  # fmt: skip
"""Each filter's function of the distance, and how far it reaches."""


@functools.lru_cache(maxsize=64)
def _weights(kind: str, size: int, count: int, given: float | None, aligns_corners: bool) -> Tensor:
    """Returns the weights of ``size`` source pixels for ``count`` target pixels: a table on the host."""
    scale = _scale(size, count, given, aligns_corners)
    function, reach = _FILTERS[kind]
    stretch = max(scale, 1.0)
    centre = scale * (torch.arange(count, dtype=torch.float64) + 0.5).unsqueeze(1)
    first = (centre - reach * stretch + 0.5).trunc().clamp(min=0)
    end = (centre + reach * stretch + 0.5).trunc().clamp(max=size)
    pixel = torch.arange(size, dtype=torch.float64)
    weight = function(((pixel - centre + 0.5) / stretch).abs()).masked_fill((pixel < first) | (pixel >= end), 0)
    total = weight.sum(1, keepdim=True)
    return weight / torch.where(total == 0, torch.ones_like(total), total)


def _scale(size: int, count: int, given: float | None, aligns_corners: bool) -> float:
    if aligns_corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1 / given if given else size / count


def _tables(kind: str, x: Tensor, sizes: list[int], counts: list[int], aligns: bool, scales: list) -> list[Tensor]:
    if not x.is_floating_point():
        raise Declined("images are of floats or of bytes")
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    tables = (_weights(kind, size, count, scale, aligns) for size, count, scale in zip(sizes, counts, scales))
    return [table.to(wide).to(x.device) for table in tables]


def _resize_bytes(kind: str, x: Tensor, counts: list[int], aligns: bool, scales: list) -> Tensor:
    """Bytes have whole weights, and are rounded after each dim: columns first, as on the host."""
    for dim in (3, 2):
        table = _weights(kind, x.size(dim), counts[dim - 2], scales[dim - 2], aligns)
        bits = bits_of_weights(float(table.max()))
        whole = (table * (1 << bits) + torch.where(table < 0, -0.5, 0.5)).trunc().to(torch.int32).to(x.device)
        wide = x.to(torch.int32)
        total = (wide @ whole.t() if dim == 3 else whole @ wide) + (1 << (bits - 1))
        x = (total >> bits).clamp(0, 255).to(torch.uint8)
    return x


def _resize(kind: str, x: Tensor, counts: list[int], aligns: bool, scales: list) -> Tensor:
    if x.dtype == torch.uint8:
        return _resize_bytes(kind, x, counts, aligns, scales)
    rows, columns = _tables(kind, x, list(x.shape[-2:]), counts, aligns, scales)
    return (rows @ (x.to(rows.dtype) @ columns.t())).to(x.dtype)


def _resize_back(kind: str, grad: Tensor, counts: list[int], sizes: list[int], aligns: bool, scales: list) -> Tensor:
    rows, columns = _tables(kind, grad, sizes[-2:], counts, aligns, scales)
    return (rows.t() @ (grad.to(rows.dtype) @ columns)).to(grad.dtype)


def _register(kind: str) -> None:
    @composite(f"_upsample_{kind}2d_aa")
    def forward(
        x: Tensor, output_size: list[int], align_corners: bool, scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Tensor:  # fmt: skip
        if x.dim() != 4 or x.numel() == 0:
            raise Declined("the CPU says what is wrong")
        return _resize(kind, x, list(output_size), align_corners, [scales_h, scales_w])

    @composite(f"_upsample_{kind}2d_aa_backward")
    def backward(
        grad: Tensor, output_size: list[int], input_size: list[int], align_corners: bool,
        scales_h: float | None = None, scales_w: float | None = None,
    ) -> Tensor:  # fmt: skip
        if grad.dim() != 4 or grad.numel() == 0:
            raise Declined("the CPU says what is wrong")
        return _resize_back(kind, grad, list(output_size), list(input_size), align_corners, [scales_h, scales_w])


for _kind in _FILTERS:
    _register(_kind)
