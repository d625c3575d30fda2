"""Complex numbers: their parts in memory of every kind, and functions of them, without the CPU."""

import pytest
import torch
from torch_spyre._C import SpyreTensorLayout
from torch_spyre.layouts import as_strided_with_layout

from conftest import needs_spyre
from layout_cases import CARD

pytestmark = [
    needs_spyre,
    pytest.mark.skipif(CARD, reason="the card has no complex numbers"),
    pytest.mark.usefixtures("no_fallback"),
]

DTYPES = (torch.complex32, torch.complex64, torch.complex128)


def numbers(*shape: int, dtype=torch.complex64) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.complex128, generator=torch.Generator().manual_seed(7)).to(dtype)


def same(given: torch.Tensor, expected: torch.Tensor) -> None:
    assert given.device.type == "spyre"
    torch.testing.assert_close(given.cpu(), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_conjugate_keeps_the_layout_of_its_own(dtype):
    values = numbers(3, 65, dtype=dtype)
    layout = SpyreTensorLayout([3, 65], dtype)
    sticks = torch.full([torch.Size(layout.device_size).numel()], float("nan"), dtype=dtype).to("spyre")
    there = as_strided_with_layout(sticks, (3, 65), (65, 1), 0, layout).copy_(values.to("spyre"))

    same(there.conj().resolve_conj(), values.conj().resolve_conj())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sticks", [{"stick_dims": [0]}, {"stick_dims": []}, {}], ids=str)
@pytest.mark.parametrize("shape", [(3, 65), (70, 1), (1, 1)], ids=str)
def test_parts_are_seen_whatever_sticks_run_along(shape, sticks, dtype):
    values = numbers(*shape, dtype=dtype)
    there = values.to("spyre", **sticks)

    same(there.real + 0, values.real)
    same(there.imag * 2, values.imag * 2)
    same(there.to(torch.complex128), values.to(torch.complex128))
    same(there.roll(1, 0), values.roll(1, 0))
    same(there.clone().fill_(2 - 1j), torch.full_like(values, 2 - 1j))


def test_a_number_is_true_if_either_part_is():
    values = torch.tensor([0, 1, 1j, -1j, 0j], dtype=torch.complex64)

    same(values.to("spyre").to(torch.bool), values.to(torch.bool))


def test_narrow_numbers_are_rounded_once():
    a, b = numbers(400, dtype=torch.complex32), numbers(400, dtype=torch.complex32).roll(1)
    exact = a.to(torch.complex128) * b.to(torch.complex128)

    given = (a.to("spyre") * b.to("spyre")).cpu()

    assert torch.equal(torch.view_as_real(given), torch.view_as_real(exact).half())


def test_long_products_are_as_close_as_the_cpu():
    a, b = numbers(2, 3, 4000), numbers(2, 4000, 5)
    exact = a.to(torch.complex128) @ b.to(torch.complex128)

    given = torch.bmm(a.to("spyre"), b.to("spyre")).cpu()

    assert (given - exact).abs().max() <= 2 * (a @ b - exact).abs().max() + 1e-4


FUNCTIONS = (
    "exp2 expm1 log2 log10 log1p rsqrt tan asin acos atan sinh cosh tanh asinh acosh atanh sinc isinf isfinite isnan "
    "logical_not nan_to_num reciprocal"
)


@pytest.mark.parametrize("name", FUNCTIONS.split())
def test_functions_give_what_the_cpu_gives(name):
    values = numbers(6, 70) * 2

    same(getattr(torch, name)(values.to("spyre")), getattr(torch, name)(values))


REDUCTIONS = {
    "var": lambda z: z.var(1),
    "std and mean": lambda z: torch.std_mean(z, 0)[1],
    "prod": lambda z: z.prod(1),
    "prod that keeps its dim": lambda z: z[0].prod(0, keepdim=True),
    "cumprod": lambda z: z.cumprod(0),
    "logsumexp": lambda z: z.logsumexp(1),
    "sum as float": lambda z: z.real.to(torch.complex64).sum(1, dtype=torch.complex128),
    "scatter": lambda z: z.scatter(1, torch.zeros(6, 1, dtype=torch.int64, device=z.device), 2j),
    "powers": lambda z: torch.stack([z**2, z**0.5, 2**z, z**z]),
    "linspace": lambda z: torch.linspace(0, 1 + 2j, 9, dtype=z.dtype, device=z.device),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_numbers_come_together_as_on_the_cpu(name):
    values = numbers(6, 9)

    same(REDUCTIONS[name](values.to("spyre")), REDUCTIONS[name](values))


INF, NAN = float("inf"), float("nan")
FAR = [complex(INF, 1), complex(1, -INF), complex(NAN, 1), 1e30 + 1e30j, 1e-30j, 1 + 2j, 0j]
EXTREMES = {
    "divided by large ones": lambda z: z / torch.full_like(z, 1e30 - 2e30j),
    "divided by small ones": lambda z: z / torch.full_like(z, 1e-30j),
    "divided by nothing": lambda z: z / torch.zeros_like(z),
    "divided by a number": lambda z: z / 2.0,
    "divided by a complex number": lambda z: z / (1e30 - 1j),
    "divided by real ones": lambda z: z / torch.full_like(z.real, -4.0),
    "reciprocal": torch.reciprocal,
    "mean": lambda z: z.mean(),
    "mean of columns": lambda z: torch.stack([z, z.flip(0)]).mean(0),
    "exp": lambda z: (z.real.abs() + 0j).exp(),
    "logsumexp": lambda z: torch.stack([z.real - INF + 0j, z.real + 0j])[:, 3:].logsumexp(1),
    "logsumexp to infinity": lambda z: torch.stack([z.real + 0j, z.real + INF + 0j])[:, 3:].logsumexp(1),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_numbers_far_out_are_the_cpus(name):
    values = torch.tensor(FAR, dtype=torch.complex64)

    same(EXTREMES[name](values.to("spyre")), EXTREMES[name](values))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("size", [(), (3,), (5, 70), (2, 0)], ids=str)
def test_complex_numbers_are_made_of_parts_and_conjugated_in_memory(size, dtype, device):
    generator = torch.Generator().manual_seed(11)
    a, b = (torch.randn(size, dtype=dtype, generator=generator) for _ in range(2))
    for make in (torch.complex, lambda a, b: torch.polar(a.abs(), 9 * b)):
        expected = make(a, b)
        made = make(a.to(device), b.to(device))
        torch.testing.assert_close(made.cpu(), expected)
        torch.testing.assert_close(made.conj_physical().cpu(), expected.conj_physical())
