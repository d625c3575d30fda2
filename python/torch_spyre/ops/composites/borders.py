"""Borders that repeat or reflect what is inside, of numbers that the device has no kernel for, such as complex ones."""

from __future__ import annotations

import torch
from torch import Tensor

from .table import Declined, composite


def _bordered(kind: str, dims: int) -> None:
    name = f"{kind}_pad{dims}d"

    def bordered(x: Tensor, padding: list[int]) -> Tensor:
        """PyTorch's decomposition, which takes more than PyTorch does: the CPU says what is wrong."""
        from torch._decomp import decomposition_table

        if not _is_taken(x, padding, dims, kind == "reflection"):
            raise Declined("no image, or a border that is too wide for it")
        return decomposition_table[getattr(torch.ops.aten, name).default](x, padding)

    composite(name)(bordered)


def _is_taken(x: Tensor, padding: list[int], dims: int, reflects: bool) -> bool:
    """Returns True if images are not empty (a batch may be), and large enough to be reflected."""
    if x.dim() not in (dims + 1, dims + 2) or len(padding) != 2 * dims or 0 in x.shape[-dims - 1 :]:
        return False
    sides = zip(reversed(x.shape[-dims:]), padding[::2], padding[1::2], strict=True)
    return all(
        size + first + last > 0 and not (reflects and max(first, last) >= size) for size, first, last in sides
    )


for _dims in (1, 2, 3):
    _bordered("reflection", _dims)
    _bordered("replication", _dims)
