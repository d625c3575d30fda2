"""Elements that are looked up, counted and moved: as the CPU does, and without it."""

import pytest
import torch
from torch_spyre.ops.fallbacks import fallback_mode, set_fallback_mode

from conftest import needs_spyre

X = torch.randn(5, 4, 7)
WHOLE = torch.randint(-3, 4, (6, 5))
EMPTY = torch.tensor([], dtype=torch.int64)


@pytest.fixture(autouse=True)
def forbidden():
    mode = fallback_mode()
    set_fallback_mode("error")
    yield
    set_fallback_mode(mode)


def copied(x, dim, index, values):
    return x.index_copy(dim, index, values), x.clone().index_copy_(dim, index, values)


CALLS = {
    "isin": (torch.isin, WHOLE, torch.tensor([1, -3])),
    "isin, of another shape": (torch.isin, WHOLE, WHOLE[:2]),
    "isin, inverted": (lambda a, b: torch.isin(a, b, invert=True), WHOLE, torch.tensor(2)),
    "isin, in floats": (torch.isin, WHOLE, torch.tensor([1.0, 2.5])),
    "isin, in nothing": (torch.isin, WHOLE, EMPTY),
    "isin, not in nothing": (lambda a, b: torch.isin(a, b, invert=True), WHOLE, EMPTY),
    "isin, of nothing": (torch.isin, EMPTY, WHOLE),
    "histc": (lambda a: torch.histc(a, 8, -2, 2), X),
    "histc, of its ends": (lambda a: torch.histc(a, 4, 0, 3), torch.tensor([0.0, 1.0, 2.0, 3.0, 3.5, -0.1])),
    "histc, of nothing": (lambda a: torch.histc(a, 4, 0, 3), X[:0]),
    "histc, in doubles": (lambda a: torch.histc(a, 5, -1, 1), X.double()),
    "roll": (lambda a: a.roll(2, 1), X),
    "roll, both ways": (lambda a: a.roll((-1, 9), (0, -1)), X),
    "roll, one dim twice": (lambda a: a.roll((1, 2), (0, 0)), X),
    "roll, all as one row": (lambda a: a.roll(-5), X),
    "roll, of truth, turned": (lambda a: a.t().roll(1, 0), WHOLE > 0),
    "index_copy": (copied, X, 1, torch.tensor([3, 0]), torch.randn(5, 2, 7)),
    "index_copy, of whole": (copied, WHOLE, 0, torch.tensor([5]), WHOLE[:1]),
    "index_copy, of nothing": (copied, X, 0, EMPTY, X[:0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_as_on_the_cpu(name, device):
    function, *arguments = CALLS[name]
    there = [value.to(device) if isinstance(value, torch.Tensor) else value for value in arguments]
    ours, theirs = function(*there), function(*arguments)
    torch.testing.assert_close(tuple_on_the_cpu(ours), tuple_on_the_cpu(theirs))


def tuple_on_the_cpu(values):
    values = values if isinstance(values, tuple) else (values,)
    return tuple(value.cpu() for value in values)


@needs_spyre
def test_whole_numbers_are_counted_as_on_other_devices():
    counts = torch.histc(torch.tensor([0, 3, 3, 1, 7], device="spyre", dtype=torch.int32), bins=4, min=0, max=3)
    assert counts.tolist() == [1, 1, 0, 2] and counts.dtype == torch.int32


@needs_spyre
def test_a_copy_in_place_leaves_the_rest_where_it_is():
    x = torch.arange(12.0, device="spyre").view(3, 4)
    for row in range(3):  # the same call again and again: it may be kept
        y = torch.zeros(3, 4, device="spyre")
        y.index_copy_(0, torch.tensor([row], device="spyre"), x[:1])
        other = x.index_copy(0, torch.tensor([row], device="spyre"), x[:1])
        assert y.sum().item() == 6 and y[row].tolist() == [0, 1, 2, 3]
        assert other[row].tolist() == [0, 1, 2, 3] and other.sum().item() == 66 - 16 * row
