"""Layouts in compiled graphs: fake tensors know them, buffers have them, and programs choose them."""

import logging

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from torch_spyre._C import SpyreTensorLayout
from torch_spyre._inductor.ir_layouts import FixedTiledLayout, SpyreFixedLayout


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(function, fullgraph=True, **options)


def columns(*size, **options):
    """Random numbers whose first dim lies in sticks."""
    return torch.randn(*size, **options).to("spyre", stick_dims=[0])


def meta_of(function, *inputs):
    """The nodes of a function's graph after AOTAutograd, by name."""
    graphs = []

    def keep(module, _):
        graphs.append(module)
        return module.forward

    torch.compile(function, backend=aot_autograd(fw_compiler=keep), fullgraph=True)(*inputs)
    return {node.name: node.meta["val"] for node in graphs[0].graph.nodes if "val" in node.meta}


# Fake tensors.


@pytest.mark.parametrize("requires_grad", [False, True])
def test_nodes_know_how_inputs_lie(requires_grad):
    x = columns(64, 96).requires_grad_(requires_grad)
    y = torch.randn(64, 96, device="spyre")
    seen = meta_of(lambda x, y: (x * y).relu(), x, y)
    first, second = [value.device_tensor_layout() for name, value in seen.items() if name.startswith(("arg", "prim"))]
    assert first == x.device_tensor_layout() != second
    assert second == y.device_tensor_layout()
    assert first.stick_dims() == [0]


def test_views_have_the_layout_of_their_storage():
    x = columns(64, 96)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        for view in (fake, fake.detach(), fake.t(), fake[3:], fake.view(-1)):
            assert view.device_tensor_layout() == x.device_tensor_layout()
        assert fake.get_stick_dims() == [0]
        assert fake.t().get_stick_dims() == [1]


def test_results_have_the_layout_of_eager_results():
    x = columns(40, 96)

    def steps(x):
        return [x + 1, x.sum(0), x.t().contiguous(), x @ x.t(), torch.ones(3, 4, device=x.device), x.to(torch.float16)]

    eager = [made.device_tensor_layout() for made in steps(x)]
    with FakeTensorMode() as mode:
        assert [made.device_tensor_layout() for made in steps(mode.from_tensor(x))] == eager


def test_asked_for_layouts_are_known():
    x = torch.randn(64, 96, device="spyre")
    layout = SpyreTensorLayout([64, 96], [96, 1], torch.float32, [1, 0])

    def steps(x):
        return [
            x.restickify([0]),
            x.to(stick_dims=[0, 1]),
            x.to(torch.float16, stick_dims=[0]),
            x.to(device_layout=layout),
            torch.zeros(8, 200, device="spyre", stick_dims=[0]),
            torch.randn(8, 200, device="spyre", stick_dims=[0]),
            torch.empty_like(x, stick_dims=[0]),
            x.new_full((4, 5), 2.0, stick_dims=[0]),
        ]

    eager = [made.device_tensor_layout() for made in steps(x)]
    with FakeTensorMode() as mode:
        assert [made.device_tensor_layout() for made in steps(mode.from_tensor(x))] == eager


def test_sizes_that_are_symbols():
    x = columns(64, 96)
    graph = make_fx(lambda x: (x.t(), x + 1), tracing_mode="symbolic")(x)
    values = [node.meta["val"] for node in graph.graph.nodes if "val" in node.meta]
    layouts = {str(value.device_tensor_layout()) for value in values if isinstance(value, torch.Tensor)}
    rows, columns_ = values[0].size()
    shape = f"size=[{rows}, {columns_}], stride=[{columns_}, 1]"
    assert layouts == {f"SymbolicLayout({shape}, stick_dims=[{dim}])" for dim in (0, 1)}


def test_layouts_that_no_dims_describe_are_not_known_for_symbols():
    layout = SpyreTensorLayout([3, 64, 32], [32, 96, 1], torch.float32, [0, 1, 2])
    x = torch.randn(3, 64, 32).to("spyre", device_layout=layout)
    whole = SpyreTensorLayout(layout.device_size, layout.stride_map, layout.device_dtype)
    y = torch.randn(3, 64, 32).to("spyre", device_layout=whole)
    with FakeTensorMode() as mode:
        assert mode.from_tensor(x).device_tensor_layout() == layout
    for given in (x, y):
        made = torch.compile(lambda x: x * 2, dynamic=True)(given)
        assert torch.equal(made.cpu(), given.cpu() * 2)


def test_other_kinds_of_tensors():
    values = torch.randn(4, 4).relu().to_sparse()
    sparse = torch.sparse_coo_tensor(values.indices().to("spyre"), values.values().to("spyre"), (4, 4))
    with FakeTensorMode() as mode:
        assert mode.from_tensor(sparse).device.type == "spyre"


def test_tensors_of_the_host_have_none():
    with FakeTensorMode() as mode:
        assert mode.from_tensor(torch.ones(3)).device_tensor_layout() is None


# Buffers.


def test_the_log_shows_layouts(caplog):
    x = columns(64, 96)
    torch._logging.set_logs(ir_post_fusion=True)
    try:
        with caplog.at_level(logging.DEBUG):
            logging.getLogger("torch._inductor").propagate = True
            compiled(lambda x: (x + 1).sum(1))(x)
    finally:
        torch._logging.set_logs()
    text = caplog.text
    assert f"SpyreFixedLayout('spyre:0', torch.float32, size=[64, 96], stride=[96, 1], device_layout={x.device_tensor_layout()})" in text
    assert "buf0.layout = SpyreFixedLayout('spyre:0', torch.float32, size=[64], stride=[1], device_layout=" in text


def test_layouts_are_equal_if_all_of_them_is():
    plain = (torch.device("spyre:0"), torch.float32, [64, 96], [96, 1])
    of = SpyreFixedLayout.with_sticks
    assert FixedTiledLayout is SpyreFixedLayout
    assert of(SpyreFixedLayout(*plain), [0]) == of(SpyreFixedLayout(*plain), [0])
    assert of(SpyreFixedLayout(*plain), [0]) != of(SpyreFixedLayout(*plain), [1])
    assert of(SpyreFixedLayout(*plain), [1]) == of(SpyreFixedLayout(*plain), None)


# Programs.

CHOICES = {
    "restickify": lambda x: (x + 1).restickify([0]),
    "the operator": lambda x: torch.ops.spyre.restickify(x * 2, [0]),
    "to": lambda x: (x * 2).to("spyre", stick_dims=[0]),
    "to, and another dtype": lambda x: x.to("spyre", torch.float16, stick_dims=[0]),
    "two dims": lambda x: (x - 1).to(stick_dims=[0, 1]),
    "two dims, the other way": lambda x: (x - 1).to(stick_dims=[1, 0]),
    "sparse": lambda x: (x - 1).to(stick_dims=[]),
    "negative dims": lambda x: x.to(stick_dims=[-2]),
    "a view": lambda x: x.t().to(stick_dims=[0]),
    "zeros": lambda x: torch.zeros(33, 70, device="spyre", stick_dims=[0]) + x[0, 0],
    "zeros as they are": lambda x: torch.zeros(33, 70, device="spyre", stick_dims=[0]),
    "ones_like": lambda x: torch.ones_like(x, stick_dims=[0]),
    "full": lambda x: torch.full((4, 40), 3.0, device="spyre", stick_dims=[0]),
    "new_zeros": lambda x: x.new_zeros((4, 40), stick_dims=[0]),
    "after a choice": lambda x: (x + 1).to(stick_dims=[0]) * 2,
    "an intermediate": lambda x: (x + 1).to(stick_dims=[0]) @ x.t(),
    "an input of a sum": lambda x: (x + 1).to(stick_dims=[0]).sum(0),
}


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_layouts_are_chosen_as_in_eager_mode(name, dynamic):
    x = torch.randn(50, 70, device="spyre")
    eager = CHOICES[name](x)
    function = compiled(CHOICES[name], dynamic=dynamic)
    for _ in range(2):
        made = function(x)
        assert made.device_tensor_layout() == eager.device_tensor_layout()
        assert (made.dtype, made.stride()) == (eager.dtype, eager.stride())
        torch.testing.assert_close(made.cpu(), eager.cpu())


def test_an_intermediate_lies_as_it_was_chosen():
    """It is stored, though one kernel could compute all of it."""
    from torch._inductor.utils import run_and_get_code

    x = torch.randn(50, 70, device="spyre")
    _, (code,) = run_and_get_code(compiled(lambda x: (x + 1).to(stick_dims=[0]).exp() * 2), x)
    assert code.count("spyre_kernel('''") == 2
    assert "(torch.float32, (50, 70), (70, 1), [0])" in code


def test_a_whole_layout_is_chosen():
    x = torch.randn(64, 96, device="spyre")
    layout = SpyreTensorLayout([64, 96], [96, 1], torch.float32, [1, 0])
    made = compiled(lambda x: (x + 1).to(device_layout=layout))(x)
    assert made.device_tensor_layout() == layout
    assert torch.equal(made.cpu(), x.cpu() + 1)


def test_a_whole_layout_that_is_too_small_is_refused():
    x = torch.randn(64, 96, device="spyre")
    layout = SpyreTensorLayout([8, 8], [8, 1], torch.float32, [0, 1])
    with pytest.raises(Exception, match="the tensor needs 768"):
        compiled(lambda x: (x + 1).to(device_layout=layout))(x)
    assert torch.equal(compiled(lambda x: x + 1)(x).cpu(), x.cpu() + 1)


def test_dims_that_are_not_there_are_refused():
    x = torch.randn(4, 8, device="spyre")
    with pytest.raises(Exception, match="[Dd]im"):
        compiled(lambda x: x.to(stick_dims=[2]))(x)


@pytest.mark.parametrize("dims", [[5], [-5], [0, 0]])
@pytest.mark.parametrize("dynamic", [False, True])
def test_bad_dims_are_refused(dims, dynamic):
    x = torch.randn(8, 40, device="spyre")
    for choose in (lambda x: x.to(stick_dims=dims), lambda x: x.restickify(dims)):
        with pytest.raises(Exception, match="(?s)range|twice"):
            compiled(choose, dynamic=dynamic)(x)


def test_a_factory_may_break_the_graph():
    x = torch.randn(8, 40, device="spyre")

    def function(x):
        made = torch.zeros(8, 40, device="spyre", stick_dims=[0], requires_grad=True)
        return made, (made + x).sum()

    made, total = torch.compile(function)(x)
    total.backward()
    assert made.get_stick_dims() == [0]
    assert torch.equal(made.grad.cpu(), torch.ones(8, 40))


@pytest.mark.parametrize("dynamic", [False, True])
def test_to_read_a_layout_breaks_the_graph(dynamic):
    x = torch.randn(8, 40, device="spyre")

    def by_dims(x):
        return x * 2 if x.get_stick_dims() == [0] else x * 3

    def by_layout(x):
        return x * 2 if x.device_tensor_layout().stick_dims() == [0] else x * 3

    for function in (by_dims, by_layout):
        made = torch.compile(function, dynamic=dynamic)
        for given in (x, x.to(stick_dims=[0]), x):
            assert torch.equal(made(given).cpu(), function(given).cpu())


def test_to_set_a_layout_breaks_the_graph():
    def function(x):
        y = x + 1
        y.set_stick_dims([0])
        return y * 1, y

    _, made = torch.compile(function)(torch.randn(8, 40, device="spyre"))
    assert made.get_stick_dims() == [0]
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.randn(8, 40, device="spyre"))
        assert fake.set_stick_dims([0]).get_stick_dims() == [0]


def test_transforms_of_functions():
    x = torch.randn(8, 40, device="spyre")
    made = compiled(lambda x: torch.func.grad(lambda x: (x**2).sum())(x))(x)
    torch.testing.assert_close(made.cpu(), 2 * x.cpu())


def test_complex_numbers():
    x = torch.randn(8, 40, device="spyre")
    for function in (lambda x: torch.complex(x, x).to(stick_dims=[0]), lambda x: torch.complex(x, x).restickify([0])):
        made = compiled(function)(x)
        assert made.get_stick_dims() == [0]
        assert torch.equal(made.cpu(), torch.complex(x.cpu(), x.cpu()))


def test_one_graph_for_all_sizes():
    counters.clear()
    function = compiled(lambda x: (x * 2).to(stick_dims=[0]), dynamic=True)
    for rows in (2, 33, 128, 7):
        x = torch.randn(rows, 40, device="spyre")
        made = function(x)
        assert made.device_tensor_layout() == x.to(stick_dims=[0]).device_tensor_layout()
        assert torch.equal(made.cpu(), x.cpu() * 2)
    assert counters["stats"]["unique_graphs"] == 1


def test_another_layout_of_an_argument_needs_no_other_graph():
    counters.clear()
    function = compiled(lambda x, y: (x @ y).relu() + 1)
    x = torch.randn(48, 72)
    y = torch.randn(72, 40)
    expected = (x @ y).relu() + 1
    for left in ([0], [1], [0, 1], []):
        for right in ([0], [1], [1, 0]):
            made = function(x.to("spyre", stick_dims=left), y.to("spyre", stick_dims=right))
            torch.testing.assert_close(made.cpu(), expected)
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("choose", [lambda x: x.restickify([0]), lambda x: x.to(stick_dims=[0])])
def test_gradients_flow_through_a_choice(choose):
    def function(x):
        return (choose(x * 2) * x).sum()

    x = torch.randn(5, 40, device="spyre", requires_grad=True)
    function(x).backward()
    eager = x.grad.cpu()
    x.grad = None
    compiled(function)(x).backward()
    torch.testing.assert_close(x.grad.cpu(), eager)
    torch.testing.assert_close(eager, 4 * x.detach().cpu())


def test_restickify_has_all_gradients():
    x = torch.randn(5, 6, device="spyre", requires_grad=True)
    (grad,) = torch.autograd.grad((x.restickify([0]) ** 3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    torch.testing.assert_close(second.cpu(), 6 * x.detach().cpu())
    _, tangent = torch.func.jvp(lambda x: x.restickify([0]) * 2, (x.detach(),), (torch.ones_like(x),))
    assert torch.equal(tangent.cpu(), torch.full((5, 6), 2.0))


def test_a_second_process_needs_no_compilation_for_layouts(python, tmp_path):
    program = """
        import torch
        from torch._dynamo.utils import counters

        f = torch.compile(lambda x: (x + 1).to(stick_dims=[0]), fullgraph=True)
        y = f(torch.ones(40, 70, device="spyre"))
        print(y.get_stick_dims(), counters["inductor"]["fxgraph_cache_miss"])
    """
    first, second = (python(program, TORCHINDUCTOR_CACHE_DIR=str(tmp_path)).stdout.split() for _ in range(2))
    assert (first, second) == (["[0]", "1"], ["[0]", "0"])


# The card.


def test_results_lie_on_a_card_as_in_eager_mode(python):
    python(
        """
        import torch

        half = dict(dtype=torch.float16, device="spyre")
        x = torch.randn(64, 128, **half)
        turned = x.to(stick_dims=[0])
        w = torch.randn(128, 192, **half)
        programs = {
            "as it is": (lambda x: x * 2 + 1, x),
            "other sticks": (lambda x: x * 2 + 1, turned),
            "a sum along sticks": (lambda x: (x * 2).sum(-1), x),
            "a sum across sticks": (lambda x: (x * 2).sum(0), x),
            "a sum along other sticks": (lambda x: (x * 2).sum(0), turned),
            "a norm": (lambda x: x - x.amax(-1, keepdim=True), x),
            "two that differ": (lambda x, y: x + y, x, turned),
            "a product": (lambda x, w: x @ w, x, w),
            "a product, and what follows": (lambda x, w: (x @ w).relu() + 1, turned, w),
            "chosen": (lambda x: (x + 1).to(stick_dims=[0]), x),
            "chosen, and the default": (lambda x: (x + 1).to(stick_dims=[1]), turned),
            "chosen, and summed": (lambda x: (x + 1).to(stick_dims=[0]).sum(1), x),
        }
        for name, (program, *inputs) in programs.items():
            eager = program(*inputs)
            compiled = torch.compile(program, fullgraph=True)
            for _ in range(3):
                made = compiled(*inputs)
                assert made.device_tensor_layout() == eager.device_tensor_layout(), (
                    name, made.device_tensor_layout(), eager.device_tensor_layout()
                )
                torch.testing.assert_close(made.cpu(), eager.cpu(), rtol=2e-2, atol=2e-2, msg=lambda m: name + m)
        """,
        SPYRE_PROFILE="card",
    )


def test_memory_of_the_caller_keeps_its_layout_on_a_card(python):
    python(
        """
        import torch

        y = torch.randn(64, 128, dtype=torch.float16, device="spyre").to(stick_dims=[0])
        programs = [lambda b, y: b.copy_(y * 2), lambda b, y: b.copy_((y * 2).sum(0, keepdim=True)), lambda b, y: b.add_(y)]
        for program in programs:
            both = [torch.zeros(64, 128, dtype=torch.float16, device="spyre") for _ in range(2)]
            before = torch.spyre.memory_allocated()
            torch.compile(program)(both[0], y)
            program(both[1], y)
            torch.spyre.synchronize()
            assert both[0].device_tensor_layout() == both[1].device_tensor_layout()
            assert torch.spyre.memory_allocated() == before
            torch.testing.assert_close(both[0].cpu(), both[1].cpu(), rtol=2e-2, atol=2e-2)
        """,
        SPYRE_PROFILE="card",
    )


def test_what_lies_otherwise_is_restickified_on_a_card(python):
    found = python(
        """
        import torch

        x = torch.randn(64, 128, dtype=torch.float16, device="spyre")
        y = torch.randn(64, 128, dtype=torch.float16).to("spyre", stick_dims=[0])
        compiled = torch.compile(lambda x, y: x * y)
        assert compiled(x, x).device_tensor_layout() == x.device_tensor_layout()
        for other in (x, y):
            with torch.spyre.trace() as trace:
                compiled(x, other)
                torch.spyre.synchronize()
            print(trace)
        """,
        SPYRE_PROFILE="card",
    )
    alike, otherwise = found.stdout.splitlines()
    assert "1 kernels, 0 copies" in alike
    assert "1 kernels, 1 copies" in otherwise
