"""Arrangements of operands in device memory: the same numbers, in different layouts, with poison around them."""

from __future__ import annotations

import torch
from torch_spyre import _C
from torch_spyre._C import SpyreTensorLayout
from torch_spyre.layouts import as_strided_with_layout


def plain(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    return values.to(device)


def transposed(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """All dimensions the other way round in memory."""
    dims = tuple(reversed(range(values.dim())))
    return values.permute(dims).contiguous().to(device).permute(dims)


def stepped(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Every other element of a poisoned tensor, from the second on, along each dimension."""
    parts = tuple(slice(1, 1 + 2 * count, 2) for count in values.shape)
    return part_of_poison(values, device, [2 * count + 3 for count in values.shape], parts)


def shifted(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The middle of a poisoned tensor: sticks begin and end elsewhere."""
    parts = tuple(slice(5, 5 + count) for count in values.shape)
    return part_of_poison(values, device, [count + 9 for count in values.shape], parts)


def part_of_poison(values, device, sizes, parts) -> torch.Tensor:
    whole = poison(sizes, values.dtype)
    whole[parts] = values
    return whole.to(device)[parts]


def expanded(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """One row, seen as many; `repeated` has made the values so."""
    if not is_repeated(values):
        return values.to(device)
    return values[:1].to(device).expand(values.shape)


def first_sticks(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Sticks along the first dimension instead of the last."""
    if values.dim() == 0:
        return values.to(device)
    return values.contiguous().to(device, stick_dims=[0])


def padded(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Sticks whose padding is poison."""
    values = values.contiguous()
    layout = SpyreTensorLayout(list(values.shape), values.dtype)
    sticks = poison([torch.Size(layout.device_size).numel()], values.dtype).to(device)
    view = as_strided_with_layout(sticks, values.shape, values.stride(), 0, layout)
    return view.copy_(values.to(device))


def repeated(values: torch.Tensor) -> torch.Tensor:
    """The values with the first row in place of all others."""
    return values[:1].expand(values.shape).contiguous() if is_repeated(values) else values


def is_repeated(values: torch.Tensor) -> bool:
    return values.dim() > 0 and values.shape[0] > 1


def poison(sizes: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Values that show in every result that is computed from them."""
    if dtype == torch.bool:
        return torch.ones(sizes, dtype=dtype)
    if dtype.is_floating_point or dtype.is_complex:
        poisoned = torch.full(sizes, float("nan"), dtype=torch.float32)
        if _C._is_card_profile():
            # NaN is a large number there: what is small must show too.
            poisoned.view(-1)[::2] = -float("inf")
        return poisoned.to(dtype)
    return torch.full(sizes, torch.iinfo(dtype).max // 3, dtype=dtype)


ARRANGEMENTS = {
    function.__name__: function
    for function in (plain, transposed, stepped, shifted, expanded, first_sticks, padded)
}
