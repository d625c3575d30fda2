"""Pools whose windows are taken place by place: values and places as on the CPU, also of ties, NaN and infinities."""

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("no_fallback")

NUMBERS = torch.randn(2, 3, 11, 9, generator=torch.Generator().manual_seed(0))
TIES = (NUMBERS * 2).round()
GAPS = torch.where(NUMBERS > 0.5, torch.nan, NUMBERS)
INFINITE = torch.full((2, 3, 11, 9), -torch.inf)
PICTURES = {"numbers": NUMBERS, "ties": TIES, "nan": GAPS, "infinite": INFINITE, "turned": NUMBERS.transpose(2, 3)}
WINDOWS = {
    "beside": dict(kernel_size=2),
    "padded": dict(kernel_size=3, stride=2, padding=1),
    "dilated": dict(kernel_size=3, stride=1, padding=1, dilation=2),
    "begun": dict(kernel_size=3, stride=2, ceil_mode=True),
    "begun and padded": dict(kernel_size=(3, 2), stride=(2, 3), padding=(1, 1), ceil_mode=True),
    "a line": dict(kernel_size=(3, 1)),
}


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("picture", PICTURES)
def test_the_largest_and_their_places_are_the_cpus(picture, windows, device):
    x = PICTURES[picture]
    expected = F.max_pool2d(x, **WINDOWS[windows], return_indices=True)
    given = F.max_pool2d(x.to(device), **WINDOWS[windows], return_indices=True)
    for right, part in zip(expected, given, strict=True):
        torch.testing.assert_close(part.cpu(), right, equal_nan=True, atol=0, rtol=0)


MEANS = {
    "beside": dict(kernel_size=2),
    "padded": dict(kernel_size=3, stride=2, padding=1),
    "inside": dict(kernel_size=3, stride=2, padding=1, count_include_pad=False),
    "begun": dict(kernel_size=3, stride=2, ceil_mode=True),
    "divided": dict(kernel_size=3, divisor_override=4),
    "a line": dict(kernel_size=(3, 1)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("windows", MEANS)
def test_means_are_the_cpus(windows, dtype, device):
    x = NUMBERS.to(dtype)
    expected, given = (F.avg_pool2d(y, **MEANS[windows]) for y in (x, x.to(device)))
    torch.testing.assert_close(given.cpu(), expected)


@pytest.mark.parametrize("size", [(11, 3), (1, 9), (5, 4), (11, 9)])
def test_places_that_windows_share_are_as_on_the_cpu(size, device):
    for pool in (F.adaptive_avg_pool2d, lambda x, size: F.adaptive_max_pool2d(x, size, return_indices=True)[1]):
        torch.testing.assert_close(pool(TIES.to(device), size).cpu(), pool(TIES, size))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bfloat16])
def test_other_numbers_are_compared_too(dtype, device):
    x = (NUMBERS * 10).to(dtype)
    expected = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    for right, part in zip(expected, F.max_pool2d(x.to(device), 3, 2, 1, return_indices=True), strict=True):
        torch.testing.assert_close(part.cpu(), right)


def test_a_volume_and_a_line_have_windows_too(device):
    volume, line = NUMBERS.view(2, 3, 11, 3, 3), NUMBERS.view(2, 3, 99)
    for pool, x in [(F.max_pool3d, volume), (F.avg_pool3d, volume), (F.max_pool1d, line), (F.avg_pool1d, line)]:
        torch.testing.assert_close(pool(x.to(device), 3, 2, 1).cpu(), pool(x, 3, 2, 1))


def test_results_are_written_where_they_are_wanted(device):
    x = NUMBERS.to(device)
    out = torch.empty(2, 3, 4, 5, device=device).transpose(2, 3)
    torch.ops.aten.avg_pool2d.out(x, [2, 2], out=out)
    torch.testing.assert_close(out.cpu(), F.avg_pool2d(NUMBERS, 2))
