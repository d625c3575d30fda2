"""Float64 with the roundings between operators: what PyTorch makes of several, each stores for the next."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

CARD_BITS, CARD_TOP, CARD_LEAST = 10, 33, -31
"""The card's 16-bit float: significant bits, and the exponents past its ends."""

HOST_END = 2.0**16
"""The first number that the host's float16 does not have."""


class Rounding(TorchDispatchMode):
    """Rounds what every operator gives or writes."""

    def __init__(self, round_one: Callable[[torch.Tensor], torch.Tensor]):
        super().__init__()
        self.round_one = round_one

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        schema = function._schema
        for at, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                given = kwargs.get(argument.name, args[at] if at < len(args) else None)
                for tensor in filter(is_wide, tree_leaves(given)):
                    tensor.copy_(self.round_one(tensor))
        if any(value.alias_info is not None for value in schema.returns):
            return result
        return tree_map_only(torch.Tensor, lambda tensor: self.round_one(tensor) if is_wide(tensor) else tensor, result)


def is_wide(value) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.float64


def as_card(value: torch.Tensor) -> torch.Tensor:
    """Rounds to the nearest number of the card's float, ties away from zero. Past the end is one special for infinity
    and NaN: it keeps an infinity's sign, and NaN has none."""
    fraction, exponent = torch.frexp(value)
    scaled = fraction * 2.0**CARD_BITS
    whole = torch.copysign((scaled.abs() + 0.5).floor(), scaled)
    result = torch.ldexp(whole, exponent - CARD_BITS)
    result = torch.where(result.abs() <= 2.0**CARD_LEAST, torch.copysign(torch.zeros_like(value), value), result)
    end = 2.0**CARD_TOP - 2.0 ** (CARD_TOP - CARD_BITS + 1)
    special = torch.where(value.isnan(), torch.inf, torch.copysign(torch.full_like(value, torch.inf), value))
    return torch.where(result.abs() <= end, result, special)


def arrived(value: torch.Tensor) -> torch.Tensor:
    """Values that the card holds of a host's tensor. The largest exponent of float16 is one more binade: infinity is
    65536, NaN 98304."""
    if value.dtype != torch.float16:
        return value
    bits = value.contiguous().view(torch.int16).to(torch.int32)
    binade = (1 + (bits & 0x3FF) / 1024.0).double() * HOST_END
    numbers = torch.where(bits < 0, -binade, binade).where(~value.isfinite(), value.double())
    return as_card(numbers)


def returned(value: torch.Tensor) -> torch.Tensor:
    """Values that the host's float16 shows of the card's, but for rounding: infinity is the next number after its last,
    and NaN is the special, without a sign."""
    return value.nan_to_num(torch.inf, torch.inf, -torch.inf).clamp(-HOST_END, HOST_END)


def as_dtype(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda value: value.to(dtype).to(value.dtype)
