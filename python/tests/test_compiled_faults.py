"""Errors of compiled graphs, of indices that are out of range and of assertions: those of eager mode."""

from __future__ import annotations

import re

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F
from conftest import needs_spyre

pytestmark = [needs_spyre, pytest.mark.filterwarnings("ignore")]
INDEX = re.compile(r"index (-?\d+) is out of range for dimension \d+ with size (\d+)")


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield


def written(x, at):
    made = x * 2
    made[at] = 3
    return made


PROGRAMS = {
    "index": ("aten.index", lambda x, at: x[at] * 2),
    "index of columns": ("aten.index", lambda x, at: x[:, at] + 1),
    "index of a transposed": ("aten.index", lambda x, at: x.t()[at] * 2),
    "index of what is all in a row": ("aten.index", lambda x, at: x.flatten()[at + 60] * 2),
    "index, padded": ("aten.index", lambda x, at: F.pad(x[:, at], (1, 1))),
    "index by a range": ("aten.index", lambda x, at: x[torch.arange(9, device=x.device)] * 2),
    "from the end": ("aten.index", lambda x, at: x[-at] * 2),
    "index_select": ("aten.index_select", lambda x, at: x.index_select(1, at) + 1),
    "index_put": ("aten.index_put", written),
    "embedding": ("aten.embedding", lambda x, at: F.embedding(at, x) * 2),
    "gather": ("aten.gather", lambda x, at: torch.gather(x, 1, at.view(1, 2)) + 1),
    "scatter_add": ("aten.scatter_add", lambda x, at: torch.zeros_like(x).scatter_add(1, at.view(1, 2), x)),
    "nll_loss": ("aten.nll_loss", lambda x, at: F.nll_loss(x[:2], at)),
}


def raised(function, *args):
    with pytest.raises((IndexError, RuntimeError)) as error:
        function(*args).cpu()
    return error.value


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_index_out_of_range_is_named_as_in_eager_mode(name):
    operator, program = PROGRAMS[name]
    x, at = torch.randn(5, 7, device="spyre"), torch.tensor([1, 9], device="spyre")
    eager, given = raised(program, x, at), raised(torch.compile(program), x, at)
    assert type(given) is type(eager)
    assert INDEX.search(str(given)).groups() == INDEX.search(str(eager)).groups()
    assert f"; in {operator}" in str(given)
    assert "spyre_fused" in str(given)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "index by a range"])
def test_indices_in_range_raise_nothing(name):
    _, program = PROGRAMS[name]
    x, at = torch.randn(80, 70, device="spyre"), torch.tensor([1, 2], device="spyre")
    torch.testing.assert_close(torch.compile(program)(x, at).cpu(), program(x, at).cpu())


def asserted(x, at):
    torch._assert_async((at < 5).all(), "indices are below five")
    torch._assert_async((at >= 0).all(), "indices are at least zero")
    return x * 2


@pytest.mark.parametrize("indices, text", [([1, 9], "indices are below five"), ([-1, 2], "indices are at least zero")])
def test_an_assertion_raises_its_text(indices, text):
    compiled = torch.compile(asserted)
    x, at = torch.randn(5, 7, device="spyre"), torch.tensor(indices, device="spyre")
    for function in (asserted, compiled):
        with pytest.raises(RuntimeError, match=text):
            function(x, at).cpu()
            torch.spyre.synchronize()
    good = torch.tensor([1, 2], device="spyre")
    assert torch.equal(compiled(x, good).cpu(), (x * 2).cpu())
    torch.spyre.synchronize()
