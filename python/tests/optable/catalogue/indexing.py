"""Operators that read and write at places that other tensors tell."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..case import Case

KIND = "indexing"


def table_and_rows(make, size):
    return [make(9, size), make.index(9, 5)]


def columns(make, size):
    return [make(5, size), make.index(size, 7 if size else 0)]


def row_and_places(make, size):
    return [make(3, size), make.index(size, 3, 4 if size else 0)]


def scattered(make, size):
    """A matrix, places that come several times, and what goes there."""
    return [*row_and_places(make, size), make(3, 4 if size else 0)]


def placed(make, size):
    """A matrix, rows of it no two of which are one, and what goes there."""
    return [make(9, size), make.order(9)[:5], make(5, size)]


def reduced(how: str):
    # As many terms as fit into any dtype: the order of a product's roundings is free.
    return lambda x, at, y: x.scatter_reduce(1, at, y, how, include_self=True)


def index_reduced(how: str):
    return lambda x, at, y: x.clone().index_reduce_(0, at, y, how)


def put(x, at, y):
    x = x.clone()
    x[at] = y
    return x


def ordered(make, size):
    """Each row's places are all different."""
    places = torch.stack([make.order(size)[:4] for _ in range(3)]) if size else torch.empty(3, 0, dtype=torch.int64)
    return [make(3, size), places, make(3, places.shape[1])]


def steps_of(x):
    return torch.arange(-3, 3, device=x.device).to(x.dtype)


def masked(make, size):
    return [make(3, size), make.truth(3, size)]


def writes(name: str, function, operands) -> Case:
    """Two writes to one place would have no order: nothing is repeated."""
    return Case(name, function, operands, expands=False)


CASES: list[Case] = [
    Case("index_select", lambda x, at: x.index_select(0, at), table_and_rows),
    Case("index_select", lambda x, at: x.index_select(1, at), columns),
    Case("embedding", lambda x, at: F.embedding(at, x), table_and_rows),
    Case("gather", lambda x, at: x.gather(1, at), row_and_places),
    Case("take_along_dim", lambda x, at: x.take_along_dim(at, 1), row_and_places),
    Case("take", lambda x, at: x.take(at), row_and_places),
    Case("index", lambda x, at: x[at], table_and_rows),
    Case("index", lambda x, at: x[:, at - 9], lambda make, size: [make(size, 9), make.index(9, 2, 3)]),
    Case("index", lambda x, at: x[at[:3], at[2:5] * 0], lambda make, size: [make(9, size + 1), make.index(9, 5)]),
    writes("index_put", put, placed),
    Case("index_put", lambda x, at, y: x.clone().index_put_((at,), y, accumulate=True), placed, grows=True),
    writes("index_copy", lambda x, at, y: x.index_copy(0, at, y), placed),
    Case("index_add", lambda x, at, y: x.index_add(0, at, y, alpha=2), placed, grows=True),
    Case("index_fill", lambda x, at, y: x.index_fill(0, at, 2), placed),
    writes("scatter", lambda x, at, y: x.scatter(1, at, y), ordered),
    Case("scatter", lambda x, at, y: x.scatter(1, at, 2), ordered),
    Case("scatter", lambda x, at, y: x.scatter(1, at, y, reduce="add"), scattered, grows=True),
    Case("scatter", lambda x, at, y: x.scatter(1, at, 2, reduce="multiply"), scattered, grows=True),
    Case("scatter_add", lambda x, at, y: x.scatter_add(1, at, y), scattered, grows=True),
    *(Case("scatter_reduce", reduced(how), scattered, grows=True) for how in ("sum", "prod", "mean", "amax", "amin")),
    *(Case("index_reduce", index_reduced(how), placed, grows=True) for how in ("prod", "mean", "amax", "amin")),
    Case("masked_select", lambda x, m: x.masked_select(m), masked, reads=True),
    Case("masked_scatter", lambda x, m: x.masked_scatter(m, x.flip(1)), masked),
    Case("nonzero", lambda x, m: torch.nonzero(x), masked, reads=True),
    Case("nonzero", lambda x, m: torch.nonzero(m), masked, reads=True),
    Case("isin", lambda x, m: torch.isin(x, x[:1, :5]), masked),
    Case("one_hot", lambda x, at: F.one_hot(at, 9) * x, lambda make, size: [make(1), make.index(9, size)], reads=True),
    Case("bucketize", lambda x, at: torch.bucketize(x, steps_of(x)), row_and_places),
    Case(
        "embedding_dense_backward",
        lambda g, at: torch.ops.aten.embedding_dense_backward(g, at, 9, 2, False),
        lambda make, size: [make(5, size), make.index(9, 5)],
        grows=True,
    ),
]
