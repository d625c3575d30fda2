"""Scans, sorts and searches in compiled graphs: parts of kernels, with the bits of the eager operators."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo.testing
from conftest import needs_spyre
from torch._inductor.utils import run_and_get_code
from torch.utils._pytree import tree_leaves

pytestmark = [needs_spyre, pytest.mark.filterwarnings("ignore")]
NAN = float("nan")


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    torch.manual_seed(3)
    with torch._inductor.config.patch(force_disable_caches=True):
        yield


def edges(count, x):
    return torch.linspace(-1, 1, count, dtype=x.dtype, device=x.device)


def likely(x):
    """A row without its least likely elements."""
    values, places = x.sort(1, descending=True)
    kept = torch.where(torch.softmax(values, -1).cumsum(-1) > 0.6, -1e9, values)
    return kept.gather(1, places.argsort(1))


PROGRAMS = {
    "cumsum": lambda x: torch.relu((x * 2).cumsum(1)) + 1,
    "cumsum of columns": lambda x: x.cumsum(0) * 2,
    "cumsum, wider": lambda x: x.cumsum(-1, dtype=torch.float64),
    "cumsum, wrapping": lambda x: (x.clamp(-2, 2) * 1e9).int().cumsum(1, dtype=torch.int32) + 1,
    "cumsum of truth values": lambda x: (x > 0).cumsum(1),
    "cumsum of one number": lambda x: x + torch.ones(x.shape, device=x.device).cumsum(1),
    "cumsum along both": lambda x: x.cumsum(1).cumsum(0),
    "cumsum and sum": lambda x: x.cumsum(1).sum(1),
    "cumprod": lambda x: x.cumprod(1) * x,
    "cummax": lambda x: (x + 1).cummax(1),
    "cummin": lambda x: x.round().cummin(0),
    "cummax of NaN": lambda x: torch.where(x > 0.5, NAN, x).cummax(1),
    "cummax of truth values": lambda x: (x > 0).cummax(0),
    "logcumsumexp": lambda x: x.logcumsumexp(1) * 2,
    "sort": lambda x: [*(x * 2).sort(1), (x * 2).sort(1)[0] + 1],
    "sort, descending": lambda x: x.round().sort(dim=0, descending=True, stable=True),
    "sort of NaN": lambda x: torch.where(x > 0.5, NAN, x).sort(dim=1, stable=True),
    "sort of truth values": lambda x: (x > 0).sort(dim=1, stable=True),
    "sort of one number": lambda x: x + torch.ones(x.shape, device=x.device).sort(dim=1, stable=True).indices,
    "sort, transposed": lambda x: x.t().sort(1).values + x.t(),
    "topk": lambda x: x.topk(3, 1),
    "topk of columns": lambda x: x.topk(2, 0, largest=False),
    "kthvalue": lambda x: x.kthvalue(2, 1),
    "likely": likely,
    "bucketize": lambda x: torch.bucketize(x * 2, edges(7, x)) + 1,
    "bucketize, to the right": lambda x: torch.bucketize(x.round(), edges(5, x) * 2, right=True, out_int32=True),
    "bucketize of NaN": lambda x: torch.bucketize(torch.where(x > 0, NAN, x), edges(8, x)),
    "bucketize, one edge": lambda x: torch.bucketize(x, edges(1, x)),
    "bucketize, no edges": lambda x: torch.bucketize(x, edges(0, x)),
    "searchsorted": lambda x: torch.searchsorted(x.sort(1).values, x * 1.1),
    "searchsorted with a sorter": lambda x: torch.searchsorted(x, x * 1.1, sorter=x.argsort(1)),
}


@pytest.mark.parametrize("size", [(4, 5), (3, 70), (1, 6), (0, 3)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_a_part_of_kernels_with_the_eager_bits(name, size):
    program = PROGRAMS[name]
    if name == "topk of columns" and size[0] < 2 or name == "kthvalue" and 0 in size:
        pytest.skip("there are not as many")
    x = torch.randn(size)

    given, codes = run_and_get_code(torch.compile(program, fullgraph=True), x.to("spyre"))

    assert "torch.ops.aten." not in "".join(line for code in codes for line in code.splitlines() if "buf" in line)
    torch.testing.assert_close([t.cpu() for t in tree_leaves(given)], tree_leaves(program(x)), equal_nan=True)
    if "and sum" not in name:  # sums add up in the order of their loops
        eager = tree_leaves(program(x.to("spyre")))
        assert all(torch.equal(a.nan_to_num(7), b.nan_to_num(7)) for a, b in zip(tree_leaves(given), eager))


def test_a_row_may_have_any_length():
    count = torch._dynamo.testing.CompileCounterWithBackend("inductor")

    def program(x):
        return torch.relu(x).cumsum(0), x.sort(-1)[0] + 1, x.topk(2, 1)

    compiled = torch.compile(program, backend=count, dynamic=True)
    for size in ((3, 4), (7, 9), (100, 1000), (5, 3000)):
        x = torch.randn(size).to("spyre")
        assert all(torch.equal(*pair) for pair in zip(tree_leaves(compiled(x)), tree_leaves(program(x))))
    assert count.frame_count == 1


def test_boundaries_that_are_counted_at_launch_are_searched_by_the_eager_operator():
    compiled = torch.compile(torch.bucketize, dynamic=True)
    for count in (3, 40):
        x, boundaries = torch.randn(7), torch.randn(count).sort()[0]
        assert torch.equal(compiled(x.to("spyre"), boundaries.to("spyre")).cpu(), torch.bucketize(x, boundaries))


@pytest.mark.parametrize("program", [torch.median, torch.nanmedian, torch.mode], ids=lambda program: program.__name__)
def test_middles_follow_the_eager_rules_for_nan(program):
    x = torch.randn(5, 9).round()
    x[2, 3] = x[4, 1] = NAN
    expected = program(x, 1)
    given = torch.compile(program)(x.to("spyre"), 1)
    torch.testing.assert_close(given.values.cpu(), expected.values, equal_nan=True)


def test_unsigned_numbers_of_64_bits_keep_their_order():
    x = torch.tensor([1, 1 << 63, 5, (1 << 64) - 1, 0], dtype=torch.uint64)
    values, places = torch.compile(torch.sort)(x.to("spyre"))
    assert values.tolist() == sorted(x.tolist()) and places.tolist() == [4, 0, 2, 1, 3]


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax of NaN", "sort", "topk"])
def test_it_has_gradients(name):
    x = torch.rand(6, 8) + 0.5
    gradients = []
    for device, program in (("cpu", PROGRAMS[name]), ("spyre", torch.compile(PROGRAMS[name]))):
        leaf = x.clone().to(device).detach().requires_grad_()
        weighted = (result.square().sum() for result in tree_leaves(program(leaf)) if result.is_floating_point())
        sum(weighted).backward()
        gradients.append(leaf.grad.cpu())
    torch.testing.assert_close(*gradients, equal_nan=True, rtol=1e-4, atol=1e-5)


def test_parts_of_a_sorted_row_do_not_keep_the_rest_in_memory():
    values, places = torch.compile(lambda x: x.topk(2, 1))(torch.randn(4, 100, device="spyre"))
    assert values.stride() == places.stride() == (2, 1)
    assert values.untyped_storage().nbytes() == 4 * 2 * 4


@pytest.mark.parametrize(
    ("program", "dims"),
    [
        (lambda x: x.sum(0), "(d1, d0)"),
        (lambda x: x.cumsum(0), "(d1, d0)"),
        (lambda x: torch.softmax(x, 0), "(d1, d0)"),
        (lambda x: x.view(8, 8, 96).sum(1), "(d0, d2, d1)"),
        (lambda x: x.sum(1), "(d0, d1)"),
        (lambda x: x.t() + x.t().mean(0), "(d0, d1)"),
        (lambda x: x.t() + 1, "(d0, d1)"),
    ],
)
def test_loops_go_as_memory_does(program, dims):
    """Sums over rows took five times as long as eager ones: loops over what is added up were always the inner ones."""
    _, (code,) = run_and_get_code(torch.compile(program), torch.randn(64, 96, device="spyre"))
    assert dims in code
