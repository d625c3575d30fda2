"""Random numbers of a chain's steps, what a step is, and what a host tensor allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Callable

import torch

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SMALL_FLOATS = [
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
]
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
COMPLEX = [torch.complex32, torch.complex64, torch.complex128]
ALL = FLOATS + SMALL_FLOATS + SIGNED + UNSIGNED + COMPLEX + [torch.bool]

CARD = [torch.float16, torch.bfloat16, torch.float32, torch.bool, torch.uint8] + SIGNED
"""Dtypes that the `card` profile stores."""

CARD_CASTS = {
    (torch.float16, torch.bool),
    (torch.bool, torch.float16),
    (torch.float16, torch.bfloat16),
    (torch.bfloat16, torch.float16),
    (torch.float16, torch.float32),
    (torch.bfloat16, torch.float32),
    (torch.float32, torch.float16),
    (torch.float32, torch.bfloat16),
}
"""The conversions that the `card` profile must carry out; it may refuse every other."""


@dataclass
class Step:
    """One operation, ready to run on either side."""

    text: str
    run: Callable[["Side", torch.Tensor], torch.Tensor | None]
    writes: bool = False
    refusable: bool = False
    """The device may refuse this with a RuntimeError, and then nothing has happened."""


@dataclass
class Side:
    """One side of a comparison: the CPU, or the device under test."""

    device: torch.device
    others: list[torch.Tensor]
    peer: torch.device | None = None

    @property
    def is_host(self) -> bool:
        return self.device.type == "cpu"


@dataclass
class Draw:
    """Random numbers, and the rules of the profile under test."""

    random: Random
    card: bool
    others: list[torch.Tensor]

    def below(self, count: int) -> int:
        return self.random.randrange(count)

    def pick(self, items):
        return items[self.below(len(items))]

    def dims(self, tensor: torch.Tensor, count: int) -> list[int]:
        return self.random.sample(range(tensor.dim()), count)

    def dtype(self) -> torch.dtype:
        return self.pick(CARD if self.card else ALL)

    def value(self, dtype: torch.dtype):
        if dtype == torch.bool:
            return bool(self.below(2))
        signed = dtype.is_signed
        number = self.below(9) - (4 if signed else 0)
        if not self.card and dtype in FLOATS and self.below(8) == 0:
            return self.pick([math.inf, -math.inf, math.nan, -0.0, torch.finfo(dtype).min])
        return number


def host_values(draw: Draw, size, dtype: torch.dtype) -> torch.Tensor:
    """A fresh host tensor of small whole numbers, with specials where every dtype's rule keeps them."""
    seed = draw.below(1 << 30)
    count = math.prod(size)
    start = torch.arange(count, dtype=torch.int64).mul_(2654435761).add_(seed)
    whole = start.bitwise_right_shift_(7).remainder_(101)
    if dtype.is_signed:
        whole -= 50
    values = whole.to(dtype)
    if not draw.card and dtype in FLOATS and count and draw.below(3) == 0:
        for special in (math.nan, math.inf, -math.inf, -0.0):
            values[draw.below(count)] = special
    return values.reshape(size)


def has_windows(tensor: torch.Tensor) -> bool:
    """Returns true if two indices share an element of the storage, other than by a stride of zero.

    The result of a write through such a tensor depends on the order of its loops.
    """
    for dim, stride in enumerate(tensor.stride()):
        tensor = tensor.narrow(dim, 0, min(1, tensor.size(dim))) if stride == 0 else tensor
    if tensor.numel() < 2:
        return False
    places = element_numbers(tensor).flatten()
    return places.unique().numel() != places.numel()


def element_numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Per index of `tensor`, the storage element it stands for."""
    places = torch.full((), tensor.storage_offset(), dtype=torch.int64)
    for dim, (size, stride) in enumerate(zip(tensor.size(), tensor.stride())):
        axis = torch.arange(size, dtype=torch.int64) * stride
        places = places.unsqueeze(-1) + axis
    return places


def byte_numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Every byte of its storage that `tensor` can touch."""
    first = element_numbers(tensor).flatten() * tensor.element_size()
    return (first.unsqueeze(-1) + torch.arange(tensor.element_size())).flatten()


def same_memory(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Returns true if two host tensors have a byte in common."""
    if left.untyped_storage().data_ptr() != right.untyped_storage().data_ptr():
        return False
    return bool(torch.isin(byte_numbers(left), byte_numbers(right)).any())


def can_become(tensor: torch.Tensor, dtype: torch.dtype) -> bool:
    """Returns true if CPU PyTorch defines the cast, whatever loop it takes: no overflow, no NaN to int."""
    if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
        return True
    if not tensor.numel():
        return True
    values = tensor.detach().resolve_conj().resolve_neg()
    if values.is_complex():
        values = torch.view_as_real(values.contiguous().to(torch.complex128))
    if values.dtype == torch.uint64 and values.to(torch.float64).max() >= 2**63:
        return dtype == torch.uint64
    values = values.to(torch.float64)
    limits = torch.iinfo(dtype)
    return bool(((values >= limits.min) & (values <= limits.max)).all())
