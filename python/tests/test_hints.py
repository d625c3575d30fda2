"""Hints of programs: `spyre_hint`, and the names of dims that they speak of."""

from __future__ import annotations

import pytest
import torch
from conftest import needs_spyre
from torch._dynamo.backends.common import aot_autograd
from torch_spyre._inductor import config, get_op_hints, spyre_hint
from torch_spyre._inductor.errors import Unsupported
from torch_spyre._inductor.propagate_named_dims import declare_tensor_dim, name_tensor_dims, reset
from torch_spyre.hints import check_core_count

pytestmark = needs_spyre


@pytest.fixture(autouse=True)
def fresh():
    reset()
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield
    reset()


def hints_of(function, *inputs, train=False):
    """Hints of the nodes of a function's graphs after AOTAutograd, by what they call."""
    found = []

    def keep(module, _):
        found.append({str(node.target): get_op_hints(node) for node in module.graph.nodes if node.op == "call_function"})
        return module.forward

    made = torch.compile(function, backend=aot_autograd(fw_compiler=keep), fullgraph=True)(*inputs)
    if train:
        made.sum().backward()
    return found


def test_nodes_of_the_scope_have_the_hints():
    def step(x, w):
        with spyre_hint(work_div={"rows": 4}, tiles={"rows": 2}):
            y = x @ w
        return y.relu()

    (nodes,) = hints_of(step, torch.ones(4, 8, device="spyre"), torch.ones(8, 4, device="spyre"))
    assert nodes["aten.mm.default"] == {"work_div": {"rows": 4}, "tiles": {"rows": 2}}
    assert nodes["aten.relu.default"] == {}


def test_gradients_have_the_hints_of_the_forward():
    def step(x):
        with spyre_hint(named_dims=["rows", "columns"]):
            return x.exp()

    forward, backward = hints_of(step, torch.ones(4, 8, device="spyre", requires_grad=True), train=True)
    assert forward["aten.exp.default"] == {"named_dims": ["rows", "columns"]}
    assert {"named_dims": ["rows", "columns"]} in backward.values()


def test_scopes_add_to_each_other():
    def step(x):
        with spyre_hint(work_div={"rows": 4}):
            with spyre_hint(slices={"rows": 2}):
                x = x + 1
            return x * 2

    (nodes,) = hints_of(step, torch.ones(4, 8, device="spyre"))
    assert nodes["aten.add.Tensor"] == {"work_div": {"rows": 4}, "slices": {"rows": 2}}
    assert nodes["aten.mul.Tensor"] == {"work_div": {"rows": 4}}


def test_a_scope_around_a_call_is_one_around_its_graph():
    with spyre_hint(num_tiles_per_dim={"rows": 2}):
        (nodes,) = hints_of(lambda x: x + 1, torch.ones(4, 8, device="spyre"))
    assert nodes["aten.add.Tensor"] == {"num_tiles_per_dim": {"rows": 2}}
    (after,) = hints_of(lambda x: x + 2, torch.ones(4, 8, device="spyre"))
    assert after["aten.add.Tensor"] == {}


def test_numbers_are_the_same_in_a_scope():
    def step(x):
        with spyre_hint(work_div={"rows": 4}):
            return torch.softmax(x, -1)

    x = torch.randn(4, 8, device="spyre")
    torch.testing.assert_close(torch.compile(step, fullgraph=True)(x).cpu(), step(x).cpu())


def test_a_graph_break_in_a_scope_changes_no_numbers():
    def inner(x):
        return x * 3

    def step(x):
        with spyre_hint(work_div={"rows": 4}):
            y = x + 1
            torch._dynamo.graph_break()
            return inner(y) + 2

    x = torch.ones(4, 8, device="spyre")
    assert torch.equal(torch.compile(step)(x).cpu(), step(x).cpu())


def test_a_keyword_that_is_none_is_refused_by_name():
    with pytest.raises(TypeError, match="'work_dib'"):
        spyre_hint(work_dib={"rows": 4})


REFUSED = {
    "must be positive": {"rows": 0},
    "exceeds SENCORES": {"rows": 8, "columns": 8},
    "not evenly divisible": {"rows": 5},
}


@pytest.mark.parametrize("text", REFUSED)
def test_work_that_cannot_be_divided_is_refused(text):
    declare_tensor_dim("rows", 64)
    with pytest.raises(Unsupported, match=f"Spyre backend does not support: .*{text}"):
        spyre_hint(work_div=REFUSED[text])

    def step(x):
        with spyre_hint(work_div=REFUSED[text]):
            return x + 1

    with pytest.raises(Exception, match=text):
        torch.compile(step)(torch.ones(64, 2, device="spyre"))


def test_reduction_dimensions_are_not_divided():
    x = name_tensor_dims(torch.ones(64, 32, device="spyre"), ["rows", "columns"])

    def step(x, dim):
        with spyre_hint(work_div={"columns": 4}):
            return (x * 2).sum(dim)

    torch.compile(step)(x, 0)
    with pytest.raises(Exception, match="work_div of 4 along 'columns': it is one of the reduction dimensions"):
        torch.compile(step)(x, 1)
    with config.patch(ignore_work_division_hints=True):
        torch.compile(step)(x, 1)


def test_names_are_handed_on_from_kernel_to_kernel():
    x = name_tensor_dims(torch.ones(64, 32, device="spyre"), ["rows", "columns"])

    def step(x):
        y = torch.sort(x * 2 + x.sum(1, keepdim=True), stable=True)[0] + (x.t() @ x)[:1, :1] + x
        with spyre_hint(work_div={"rows": 2}):
            return (y * x).sum(0)

    with pytest.raises(Exception, match="'rows': it is one of the reduction dimensions"):
        torch.compile(step)(x)


def test_results_of_a_scope_may_be_named():
    def step(x):
        with spyre_hint(named_dims=["a", "b"]):
            y = x + 1
        with spyre_hint(work_div={"b": 5}):
            return torch.mode(y)[0], y * 2

    with pytest.raises(Exception, match="along 'b', which has 32 elements: they are not evenly divisible"):
        torch.compile(step)(torch.ones(64, 32, device="spyre"))


def test_names_belong_to_one_view():
    x = name_tensor_dims(torch.ones(64, 32, device="spyre"), ["rows", "columns"])

    def step(x):
        with spyre_hint(work_div={"columns": 4}):
            return x.sum(1)

    torch.compile(step)(x.t())  # dims of another tensor, which have no names


def test_names_have_one_size_until_they_are_forgotten():
    declare_tensor_dim("rows", 64)
    with pytest.raises(ValueError, match="'rows' has 64 elements, not 8"):
        name_tensor_dims(torch.ones(8, device="spyre"), ["rows"])
    with pytest.raises(ValueError, match="2 names for a tensor of 1 dims"):
        name_tensor_dims(torch.ones(8, device="spyre"), ["rows", "columns"])
    with pytest.raises(ValueError, match="two dims have one name"):
        name_tensor_dims(torch.ones(8, 8, device="spyre"), ["a", "a"])
    reset()
    name_tensor_dims(torch.ones(8, device="spyre"), ["rows"])


def test_more_cores_than_a_card_has_are_refused(python):
    with config.patch(sencores=64), pytest.raises(Unsupported, match="invalid SENCORES value 64"):
        check_core_count()
    code = "import torch; torch.compile(lambda x: x + 1)(torch.ones(4, device='spyre'))"
    made = python(code, check=False, SENCORES="64")
    assert made.returncode != 0
    assert "Spyre backend does not support: invalid SENCORES value 64" in made.stderr
