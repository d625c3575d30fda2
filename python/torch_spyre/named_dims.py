"""Names of tensors' dims, by which hints speak of them.

    declare_tensor_dim("rows", 512)
    name_tensor_dims(x, ["rows", "columns"])

A name belongs to a view of a storage: to the tensor, and to the fake tensor that stands for it in a graph. Kernels hand
names on from what they read to what they write: :mod:`.graph_reports.named_kernels`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["declare_tensor_dim", "declared_size", "keep_names", "name_tensor_dims", "names_of", "reset"]

_sizes: dict[str, int] = {}
"""Sizes of dims, by name."""
_generation = 0
"""Number of resets: names that were given before the last one are forgotten."""


def declare_tensor_dim(name: str, size: int) -> None:
    """Declares a dim and its size."""
    if size < 0:
        raise ValueError(f"the dim {name!r} cannot have {size} elements")
    if _sizes.setdefault(name, size) != size:
        raise ValueError(f"the dim {name!r} has {_sizes[name]} elements, not {size}: reset() forgets all names")


def name_tensor_dims(tensor: torch.Tensor, names: Sequence[str]) -> torch.Tensor:
    """Names the dims of a tensor, which is returned. A name that was not declared is, with the dim's size."""
    names = tuple(names)
    if len(names) != tensor.dim():
        raise ValueError(f"{len(names)} names for a tensor of {tensor.dim()} dims: {', '.join(names)}")
    if len(set(names)) < len(names):
        raise ValueError(f"two dims have one name: {', '.join(names)}")
    for name, size in zip(names, tensor.shape):
        declare_tensor_dim(name, size)
    keep_names(tensor, names)
    return tensor


def reset() -> None:
    """Forgets all dims, and the names of all tensors."""
    global _generation
    _generation += 1
    _sizes.clear()


def declared_size(name: str) -> int | None:
    """The size of a dim; ``None`` if it was not declared."""
    return _sizes.get(name)


def keep_names(tensor: torch.Tensor, names: tuple[str, ...]) -> None:
    """Has a tensor, or a fake one, keep names of its dims."""
    storage = tensor.untyped_storage()
    known = getattr(storage, "_spyre_dim_names", (0, {}))
    views = known[1] if known[0] == _generation else {}
    storage._spyre_dim_names = (_generation, {**views, _view_of(tensor): names})  # type: ignore[attr-defined]


def names_of(tensor: torch.Tensor) -> tuple[str, ...] | None:
    """The names of a tensor's dims; ``None`` if it has none."""
    if not _sizes or tensor.layout is not torch.strided:
        return None
    generation, views = getattr(tensor.untyped_storage(), "_spyre_dim_names", (-1, {}))
    return views.get(_view_of(tensor)) if generation == _generation else None


def _view_of(tensor: torch.Tensor) -> str:
    """The view of its storage that a tensor is, as a text: to compare symbols would be to specialise them."""
    return f"{tuple(tensor.size())} {tuple(tensor.stride())} {tensor.storage_offset()}"
