"""Indices below zero: counted from the end where the CPU does, refused where it refuses them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch_spyre.ops.fallbacks import fallback_mode, set_fallback_mode

X = torch.arange(12.0).view(3, 4)
TWO = torch.ones(3, 2)


@pytest.fixture(autouse=True)
def forbidden():
    mode = fallback_mode()
    set_fallback_mode("error")
    yield
    set_fallback_mode(mode)


def _unpool(function: Callable, shape: tuple[int, ...]):
    return lambda to, index: function(to(torch.ones(1, 2, *shape)), to(index), 2)


def _rows(index: torch.Tensor) -> torch.Tensor:
    return index.view(3, 1)


# What is done with indices, and indices that are fine. The first of them is then made -1, and out of range.
CALLS: dict[str, tuple[Callable, torch.Tensor]] = {
    "max_unpool1d": (_unpool(F.max_unpool1d, (2,)), torch.tensor([[[3, 1], [0, 2]]])),
    "max_unpool2d": (_unpool(F.max_unpool2d, (2, 2)), torch.tensor([15, 1, 2, 3, 0, 7, 8, 9]).view(1, 2, 2, 2)),
    "max_unpool3d": (_unpool(F.max_unpool3d, (1, 2, 2)), torch.tensor([31, 1, 2, 3, 0, 7, 8, 9]).view(1, 2, 1, 2, 2)),
    "gather": (lambda to, index: to(X).gather(1, to(_rows(index))), torch.tensor([3, 0, 1])),
    "scatter": (lambda to, index: to(X).scatter(1, to(_rows(index)), 5.0), torch.tensor([3, 0, 1])),
    "scatter_add": (lambda to, index: to(X).scatter_add(1, to(_rows(index)), to(TWO)), torch.tensor([3, 0, 1])),
    "index_select": (lambda to, index: to(X).index_select(1, to(index)), torch.tensor([3, 0])),
    "index_add": (lambda to, index: to(X).index_add(1, to(index), to(TWO)), torch.tensor([3, 0])),
    "index_copy": (lambda to, index: to(X).index_copy(1, to(index), to(TWO)), torch.tensor([3, 0])),
    "index_fill": (lambda to, index: to(X).index_fill(1, to(index), 7.0), torch.tensor([3, 0])),
    "index_fill by a tensor": (
        lambda to, index: to(X).index_fill(1, to(index), to(torch.tensor(7.0))), torch.tensor([3, 0]),
    ),
    "index_reduce": (lambda to, index: to(X).index_reduce(1, to(index), to(TWO), "amax"), torch.tensor([3, 0])),
    "index_reduce anew": (
        lambda to, index: to(X).index_reduce(1, to(index), to(TWO), "amax", include_self=False), torch.tensor([3, 0]),
    ),
    "take": (lambda to, index: to(X).take(to(index)), torch.tensor([3, 0])),
    "put": (lambda to, index: to(X).put(to(index), to(torch.ones(2))), torch.tensor([3, 0])),
    "index": (lambda to, index: to(X)[to(index)], torch.tensor([2, 0])),
    "index_put": (lambda to, index: to(X).index_put((to(index),), to(torch.tensor(7.0))), torch.tensor([2, 0])),
    "embedding": (lambda to, index: F.embedding(to(index), to(X)), torch.tensor([2, 0])),
    "nll_loss": (lambda to, index: F.nll_loss(to(X), to(index)), torch.tensor([3, 0, 1])),
    "one_hot": (lambda to, index: F.one_hot(to(index), 3), torch.tensor([2, 0])),
    "bincount": (lambda to, index: torch.bincount(to(index), minlength=9), torch.tensor([2, 0])),
}  # fmt: skip


def _result(call: Callable, index: torch.Tensor, to: Callable) -> torch.Tensor | None:
    """Result of a call, or None if it is refused."""
    try:
        return call(to, index).cpu()
    except (RuntimeError, IndexError):
        return None


@pytest.mark.parametrize("first", [-1, -2, -1000])
@pytest.mark.parametrize("name", CALLS)
def test_indices_below_zero_are_what_they_are_on_the_cpu(name, first, device):
    call, index = CALLS[name]
    # With indices that are fine first: what a fault cancels is another test's.
    torch.testing.assert_close(call(lambda x: x.to(device), index).cpu(), call(lambda x: x, index))
    index = index.clone()
    index.view(-1)[0] = first
    expected = _result(call, index, lambda x: x.clone())
    found = _result(call, index, lambda x: x.to(device))
    assert (found is None) == (expected is None), found
    if expected is not None:
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("name", "plane"), [("max_unpool1d", 4), ("max_unpool2d", 16), ("max_unpool3d", 32)])
def test_an_unpooled_element_stays_in_its_plane(name, plane, device):
    call, index = CALLS[name]
    index = index.clone()
    index.view(-1)[0] = plane  # the first of the next one
    with pytest.raises(RuntimeError, match="out of range|out of bounds|invalid max index"):
        call(lambda x: x.to(device), index).cpu()
