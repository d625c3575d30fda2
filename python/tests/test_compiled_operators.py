"""Operators in compiled graphs that PyTorch's samples found wrong."""

from __future__ import annotations

import re

import children
import pytest
import torch
import torch._dynamo
from conftest import needs_spyre
from torch.testing._internal.common_utils import freeze_rng_state

pytestmark = [needs_spyre, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield


PRODUCTS = {
    "mm": (torch.mm, (3, 0), (0, 4)),
    "bmm": (torch.bmm, (2, 3, 0), (2, 0, 4)),
    "addmm": (lambda x, y: torch.addmm(torch.ones(4, device=x.device), x, y, beta=0.5), (3, 0), (0, 4)),
    "no rows": (torch.mm, (0, 3), (3, 4)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_may_have_no_elements(name):
    function, left, right = PRODUCTS[name]
    given = torch.compile(function)(torch.randn(left, device="spyre"), torch.randn(right, device="spyre"))
    assert torch.equal(given.cpu(), function(torch.randn(left), torch.randn(right)))


@pytest.mark.parametrize("unbiased", [False, True])
def test_the_mean_of_nothing_is_no_number(unbiased):
    given = torch.compile(lambda x: torch.var_mean(x, unbiased))(torch.ones(0, device="spyre"))
    assert [number.isnan().item() for number in given] == [True, True]


def test_generators_are_left_to_the_interpreter():
    """Dynamo compiled the functions with which `torch.get_rng_state` asks this device, in a place where it cannot."""

    def drawn(x):
        with freeze_rng_state():
            torch.manual_seed(42)
            return torch.rand_like(x)

    x = torch.ones(5, device="spyre")
    with torch._inductor.config.patch(fallback_random=True):
        given = torch.compile(drawn)(x)
    assert torch.equal(given.cpu(), drawn(x).cpu())


def test_a_tenth_of_the_operators_do_in_graphs_what_they_do_eagerly(tmp_path):
    """`python -m compiled.opinfo` compiles all of them, and more samples of each."""
    arguments = ["-m", "compiled.opinfo", "--share", "5/10", "--samples", "2", "--gradients", "1"]
    arguments += ["--bar", "1.0", "--table", str(tmp_path / "compiled.md")]
    code, output = children.finish(children.start(arguments), 900)

    found = re.search(r"compiled: (\d+) of (\d+) .*", output)
    assert found, output
    print(found[0])
    assert code == 0, output
    assert int(found[2]) >= 150, "too few samples to say anything"
