"""Operators that sort, scan, move and join."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..case import Case

KIND = "sorting, scans and moves"

SORTED = (0, 1, 21, 63, 64, 65)
"""Sizes at which three rows of different numbers fit into eight bits, and a little more."""


def distinct(make, size):
    return [make.distinct(3, size)]


def ties(make, size):
    return [make(3, size, low=-2, high=2).round() if make.is_float else make(3, size)]


def matrix(make, size):
    return [make(3, size)]


def volume(make, size):
    return [make(2, size, 3)]


def two(make, size):
    return [make(3, size), make(3, 5)]


def near_one(make, size):
    """Numbers of a magnitude near one, complex ones too: products of thousands neither vanish nor overflow."""
    values = make(3, size, low=0.95, high=1.05)
    return [(values.to(torch.complex128) * 0.5**0.5).to(values.dtype) if values.is_complex() else values]


def sorted_by_places(x):
    """The places of equal elements are free: what is there tells."""
    values, places = x.sort(1)
    return values, x.gather(1, places)


CASES: list[Case] = [
    Case("sort", sorted_by_places, distinct, sizes=SORTED),
    Case("sort", lambda x: tuple(x.sort(1, descending=True, stable=True)), ties),
    Case("sort", lambda x: tuple(x.sort(1, stable=True)), volume),
    Case("argsort", lambda x: x.argsort(0, stable=True), ties),
    Case("topk", lambda x: tuple(x.topk(min(5, x.shape[1]))), distinct, sizes=SORTED),
    Case("topk", lambda x: tuple(x.topk(1, dim=0, largest=False)), distinct, sizes=SORTED),
    Case("topk", lambda x: x.topk(min(5, x.shape[1]))[0], matrix),
    Case("kthvalue", lambda x: tuple(x.kthvalue(1, 1)), distinct, sizes=SORTED[1:]),
    Case("unique", lambda x: torch.unique(x), ties, reads=True),
    Case("cumsum", lambda x: x.cumsum(1), matrix, grows=True),
    Case("cumsum", lambda x: x.cumsum(1), volume, grows=True),
    Case("cumsum", lambda x: x.cumsum(0), matrix, grows=True),
    Case("cumprod", lambda x: x.cumprod(1), near_one, grows=True),
    Case("cummax", lambda x: tuple(x.cummax(1)), distinct, sizes=SORTED),
    Case("cummin", lambda x: tuple(x.cummin(0)), distinct, sizes=SORTED),
    Case("logcumsumexp", lambda x: x.logcumsumexp(1), matrix, grows=True),
    Case("diff", lambda x: x.diff(), matrix),
    Case("flip", lambda x: x.flip(0, 1), matrix),
    Case("roll", lambda x: x.roll((1, -7), (0, 1)), matrix),
    Case("rot90", lambda x: x.rot90(), matrix),
    Case("tril", lambda x: x.tril(), matrix),
    Case("tril", lambda x: x.tril(-1), volume),
    Case("triu", lambda x: x.triu(1), matrix),
    Case("diag", lambda x: torch.diag(x), matrix),
    Case("diag_embed", lambda x: torch.diag_embed(x), matrix, sizes=(0, 1, 63, 65)),
    Case("trace", lambda x: torch.trace(x), matrix),
    Case("cat", lambda x, y: torch.cat([x, y, x], 1), two),
    Case("cat", lambda x, y: torch.cat([x, x[:1]], 0), two),
    Case("stack", lambda x, y: torch.stack([x, x], 1), two),
    Case("repeat", lambda x: x.repeat(2, 3), matrix),
    Case("repeat_interleave", lambda x: x.repeat_interleave(3, 1), matrix, reads=True),
    Case("tile", lambda x: torch.tile(x, (2, 2)), matrix),
    Case("clone", lambda x: x.clone(), matrix),
    Case("contiguous", lambda x: x.t().contiguous(), matrix),
    Case("reshape", lambda x: x.t().reshape(-1), matrix),
    Case("copy_", lambda x: torch.zeros_like(x).copy_(x), matrix),
    Case("pad", lambda x: F.pad(x, (1, 2, 3, 0), value=1), matrix),
    Case("unfold", lambda x: x.unfold(1, 3, 2).clone(), matrix, sizes=(63, 64, 65, 129, 4000)),
    Case("histc", lambda x: torch.histc(x, 10, -3, 3), matrix),
    Case("bincount", lambda x: torch.bincount(x.abs().flatten()), matrix, reads=True),
]
