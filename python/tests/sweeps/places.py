"""Operators that return the index of an element. Any of several equal elements is right, so the index of the first
one stands for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

DIMS = {"argsort": 0, "kthvalue": 1, "median": 0, "mode": 0, "nanmedian": 0, "sort": 0, "topk": 1}
"""Operators whose second or only result is places, and which of their arguments is the dim."""
APART = ("argsort", "sort", "topk")
"""Operators that return several places along a dim, no two of them equal."""


class OfEquals:
    """An operator whose places, made or written, are those of the first element that is as large as what they name."""

    def __init__(self, op: Any):
        self._op = op

    def __getattr__(self, name: str) -> Any:
        return getattr(self._op, name)

    def __call__(self, given: Tensor, *args: Any, **kwargs: Any) -> Any:
        source = given.cpu().clone()
        made = self._op(given, *args, **kwargs)
        at = DIMS[self._op.name]
        dim = args[at] if len(args) > at else kwargs.get("dim", -1)
        if self._op.name == "argsort" and source.dim() and not kwargs.get("stable"):
            self._tell_first((source.gather(dim, made.cpu()), made), source, dim)
        elif isinstance(made, tuple) and not kwargs.get("stable"):
            self._tell_first(made, source, dim)
        return made

    def _tell_first(self, made: Any, source: Tensor, dim: int) -> None:
        values, places = (one.cpu() for one in made)
        if source.dim() == 0 or places.numel() == 0 or places.dtype != torch.int64:
            return
        if values.dim() < source.dim():
            values, places = values.unsqueeze(dim), places.unsqueeze(dim)
        assert torch.equal(values.isnan(), source.gather(dim, places).isnan()), "a value is not at its reported place"
        found = source.gather(dim, places).nan_to_num().to(values.dtype)
        assert torch.equal(values.nan_to_num(), found), "a value is not at its reported place"
        if self._op.name in APART:
            assert (places.sort(dim)[0].diff(dim=dim) > 0).all(), "a place is reported twice"
        made[1].copy_(first_equal(source, places, dim).reshape(made[1].shape))


def first_equal(source: Tensor, places: Tensor, dim: int) -> Tensor:
    """Place of the first element that equals the one at each place."""
    values, order = source.movedim(dim, -1).sort(-1, stable=True)
    nan = values.isnan()
    is_other = (values[..., 1:] != values[..., :-1]) & ~(nan[..., 1:] & nan[..., :-1])
    starts = torch.nn.functional.pad(is_other, (1, 0)) * torch.arange(values.size(-1))
    first = order.gather(-1, starts.cummax(-1)[0])
    firsts = torch.empty_like(order).scatter(-1, order, first)
    return firsts.gather(-1, places.movedim(dim, -1)).movedim(-1, dim)


def with_first_places(op: Any) -> Callable[..., Any]:
    """Wraps an operator of `DIMS` so that it returns the first of equal places; returns any other operator as it is."""
    return OfEquals(op) if op.name in DIMS else op
