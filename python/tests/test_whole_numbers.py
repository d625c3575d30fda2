"""Whole numbers and truth values without the CPU: 64 bits without a sign, convolutions, orders, counts."""

import pytest
import torch
import torch.nn.functional as F

from conftest import needs_spyre
from layout_cases import CARD

pytestmark = [
    needs_spyre,
    pytest.mark.skipif(CARD, reason="the card has other dtypes"),
    pytest.mark.usefixtures("no_fallback"),
]

LARGE = [0, 1, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1025, 2**64 - 1]


def same(given: torch.Tensor, expected: torch.Tensor) -> None:
    assert given.device.type == "spyre"
    torch.testing.assert_close(given.cpu(), expected)


UNSIGNED = {
    "as floats": lambda x: torch.stack([x.sqrt(), x / 3, x.log1p()]),
    "as doubles": lambda x: x.double(),
    "wrap": lambda x: x * 3,
    "bits": lambda x: (x & 6) | (x ^ 5),
    "equal": lambda x: torch.stack([x == 1, x != x.roll(1), x.signbit()]),
    "chosen": lambda x: torch.where(x == 1, x, x.flip(0)),
    "moved": lambda x: torch.cat([x[[3, 1]], x.roll(2), F.pad(x, (1, 1))]),
    "added": lambda x: torch.stack([x.sum(), x.cumsum(0).sum()]),
    "in order": lambda x: x.sort()[0],
    "order": lambda x: torch.stack([x.sort(descending=True)[1], x.argsort()]),
}


@pytest.mark.parametrize("name", UNSIGNED)
def test_numbers_without_a_sign_are_not_negative(name):
    values = torch.tensor(LARGE, dtype=torch.uint64)
    if name in ("chosen", "moved"):
        expected = UNSIGNED[name](values.view(torch.int64)).view(torch.uint64)
    else:
        expected = UNSIGNED[name](values)

    same(UNSIGNED[name](values.to("spyre")), expected)


def test_the_largest_number_without_a_sign_is_not_the_least():
    there = torch.tensor(LARGE, dtype=torch.uint64).to("spyre")

    assert [place.item() for place in (there.argmax(), there.argmin(), there.argmax(0))] == [len(LARGE) - 1, 0, len(LARGE) - 1]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("groups", [1, 4])
def test_whole_numbers_are_convolved_without_rounding(groups, dtype):
    generator = torch.Generator().manual_seed(5)
    top = min(torch.iinfo(dtype).max, 1 << 20)
    x = torch.randint(0, top, (2, 4, 5, 9), generator=generator).to(dtype)
    w = torch.randint(0, top, (4, 4 // groups, 3, 3), generator=generator).to(dtype)

    same(F.conv2d(x.to("spyre"), w.to("spyre"), padding=1, groups=groups), F.conv2d(x, w, padding=1, groups=groups))


def test_means_of_whole_numbers_are_cut():
    x = torch.arange(2 * 4 * 9).reshape(1, 2, 4, 9) - 30

    same(F.avg_pool2d(x.to("spyre"), 2), F.avg_pool2d(x, 2))
    same(F.avg_pool2d(x.to("spyre"), 2, divisor_override=3), F.avg_pool2d(x, 2, divisor_override=3))


def test_truth_values_have_an_order():
    x = torch.rand(3, 65, generator=torch.Generator().manual_seed(3)) < 0.5
    there = x.to("spyre")

    for given, expected in zip(there.sort(dim=1, stable=True), x.sort(dim=1, stable=True)):
        same(given, expected)
    for given, expected in zip(there.cummax(1), x.cummax(1)):
        same(given, expected)


def test_the_largest_of_all_is_found_however_they_lie():
    x = torch.randn(6, 8, generator=torch.Generator().manual_seed(3))

    for view in (lambda t: t, lambda t: t.t(), lambda t: t[::2, 1::3]):
        same(view(x.to("spyre")).argmax(), view(x).argmax())
        same(view(x.to("spyre")).argmin(keepdim=True), view(x).argmin(keepdim=True))


def test_rows_are_added_with_a_factor():
    x, rows = torch.randn(5, 7), torch.randn(3, 7)
    at = torch.tensor([4, 0, 4])

    same(x.to("spyre").index_add(0, at.to("spyre"), rows.to("spyre"), alpha=-2.5), x.index_add(0, at, rows, alpha=-2.5))
    whole = (x * 9).to(torch.int16)
    given = whole.to("spyre").index_add(0, at.to("spyre"), whole[:3].to("spyre"), alpha=3)
    same(given, whole.index_add(0, at, whole[:3], alpha=3))


def test_counts_do_not_stand_still_in_narrow_floats():
    x = torch.zeros(5000, dtype=torch.float16)

    assert torch.histc(x.to("spyre"), 2, -1, 1).tolist() == [0, 5000]


def test_bytes_are_resampled_as_on_the_cpu():
    x = torch.randint(0, 256, (2, 3, 13, 17), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))

    for size, corners in (((20, 40), True), ((7, 31), False), ((13, 5), False)):
        options = {"size": size, "mode": "bilinear", "align_corners": corners}
        same(F.interpolate(x.to("spyre"), **options), F.interpolate(x, **options))


def test_sums_of_exponentials_are_carried_over_any_range():
    x = torch.tensor([-2000.0, 0.0, -3000.0, 5.0, 1000.0], dtype=torch.float64)

    same(x.to("spyre").logcumsumexp(0), x.logcumsumexp(0))
