"""Results do not depend on how tensors lie in device memory: same shapes and numbers, same bits.

The one exception is a matrix product of few rows, whose order of adding up depends on how the second matrix lies.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from conftest import needs_spyre
from torch.nn import functional as F

pytestmark = needs_spyre
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
FEW_ROWS, TILE_ROWS, ATTENTION_ROWS = 4, 256, 128

OPS = {
    "conv2d": (F.conv2d, [[(2, 3, 9, 9), (4, 3, 3, 3)], [(1, 70, 4, 4), (5, 70, 1, 1)]]),
    "softmax": (lambda x: x.softmax(-1), [[(3, 100)], [(4, 5, 130)]]),
    "softmax, first": (lambda x: x.softmax(0), [[(100, 3)], [(70, 5, 9)]]),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[-1:]), [[(3, 100)], [(4, 5, 130)], [(2, 1000)]]),
    **{
        f"{name} of {dim}": (lambda x, name=name, dim=dim: getattr(x, name)(dim), [[(70, 130, 3)], [(3, 5, 300)]])
        for name, dim in itertools.product(("sum", "mean", "var", "cumsum", "prod", "logsumexp"), range(3))
    },
    "sum": (torch.sum, [[(3, 100)], [(70, 130)], [(9, 300, 5)]]),
    "norm": (torch.norm, [[(3, 100)], [(70, 130)]]),
}
"""Per op, the sizes that it is called with."""

PRODUCTS = {
    "linear": (F.linear, -1, [[(1, 64), (64, 64)], [(2, 4096), (512, 4096)], [(3, 100), (70, 100)],
                              [(4, 300), (129, 300)], [(5, 77), (33, 77)], [(256, 100), (70, 100)],
                              [(257, 100), (70, 100)], [(260, 77), (33, 77)], [(261, 77), (33, 77)]]),
    "linear with bias": (F.linear, -1, [[(1, 100), (1, 100), (1,)], [(4, 513), (200, 513), (200,)]]),
    "linear of a batch": (F.linear, -1, [[(2, 3, 70), (65, 70)], [(1, 1, 300), (40, 300)]]),
    "matmul": (torch.matmul, -2, [[(1, 64), (64, 64)], [(4, 300), (300, 129)], [(17, 513), (513, 200)],
                                  [(70,), (70, 33)], [(2, 3, 5, 70), (70, 65)], [(40, 130), (130, 3)]]),
    "matmul, transposed": (lambda a, b: a @ b.t(), -1, [[(3, 100), (70, 100)], [(70, 130), (33, 130)]]),
    "bmm": (torch.bmm, -2, [[(3, 4, 70), (3, 70, 65)], [(2, 64, 129), (2, 129, 1)], [(5, 1, 200), (5, 200, 40)]]),
    "bmm, transposed": (lambda a, b: a.bmm(b.mT), -1, [[(3, 4, 70), (3, 65, 70)], [(2, 9, 130), (2, 33, 130)]]),
    "attention": (F.scaled_dot_product_attention, -1, [[(1, 2, rows, 64), (1, 2, 40, 64), (1, 2, 40, 64)]
                                                       for rows in (1, 4, 5, 128, 129)]),
}  # fmt: skip
"""Per product, which dimension of the second matrix is summed over, and the sizes that it is called with."""


def numbers(size: tuple[int, ...], at: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(sum(size) + at)).to(dtype)


def layouts(size: tuple[int, ...]) -> list[list[int]]:
    """Dimensions that sticks can run along: each, and both of a matrix."""
    alone = [[dim] for dim in range(len(size))]
    return [*alone, [0, 1], [1, 0]] if len(size) == 2 else alone


def bits(op, sizes, chosen, dtype: torch.dtype) -> torch.Tensor:
    values = [numbers(size, at, dtype) for at, size in enumerate(sizes)]
    return op(*(value.to("spyre", stick_dims=dims) for value, dims in zip(values, chosen))).cpu()


def has_few_rows(name: str, sizes) -> bool:
    """Tells if a tile of the first matrix has few rows. Those of a batch are one matrix for one second matrix."""
    if name == "attention":
        return 1 <= sizes[0][-2] % ATTENTION_ROWS <= FEW_ROWS
    rows = sizes[0][-2] if name.startswith("bmm") else torch.Size(sizes[0][:-1]).numel()
    return 1 <= rows % TILE_ROWS <= FEW_ROWS


def lies_along(summed: int, size: tuple[int, ...], dims: list[int]) -> bool:
    """Tells if neighbours in memory are those along the summed dimension: sticks are, or else the inner dimension."""
    of_matrix = {len(size) - 2, len(size) - 1}
    return (dims[-1] if dims[-1] in of_matrix else len(size) - 1) == len(size) + summed


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_results_have_the_same_bits_in_every_layout(name, dtype):
    op, calls = OPS[name]
    for sizes in calls:
        expected = op(*(numbers(size, at, dtype).to("spyre") for at, size in enumerate(sizes))).cpu()
        for chosen in itertools.product(*map(layouts, sizes)):
            assert torch.equal(bits(op, sizes, chosen, dtype), expected), (sizes, chosen)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_have_the_same_bits_but_for_few_rows_where_the_second_matrix_lies_otherwise(name, dtype):
    op, summed, calls = PRODUCTS[name]
    for sizes in calls:
        found = {}
        for chosen in itertools.product(*map(layouts, sizes)):
            kind = has_few_rows(name, sizes) and lies_along(summed, sizes[1], chosen[1])
            result = bits(op, sizes, chosen, dtype)
            assert torch.equal(result, found.setdefault(kind, result)), (sizes, chosen)
        first, last = list(found.values())[0], list(found.values())[-1]
        torch.testing.assert_close(first, last, rtol=4 * torch.finfo(dtype).eps, atol=sizes[0][-1] * 2.0**-20)
        is_one_column = first.shape[-1] == 1
        if has_few_rows(name, sizes) and dtype == torch.float32:
            assert torch.equal(first, last) == is_one_column, f"{sizes}: no exception any more"


def test_a_modules_weight_lies_otherwise_than_a_functions():
    model = torch.nn.Linear(200, 90)
    weight, bias, x = model.weight.to("spyre"), model.bias.to("spyre"), numbers((7, 200), 0, torch.float32).to("spyre")
    model = model.to("spyre")
    assert model.weight.get_stick_dims() == [0] and weight.get_stick_dims() == [1]

    is_same = [torch.equal(model(x[:rows]).cpu(), F.linear(x[:rows], weight, bias).cpu()) for rows in range(1, 8)]

    assert is_same == [rows > FEW_ROWS for rows in range(1, 8)]
