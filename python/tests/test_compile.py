"""torch.compile on the device, beside the same program run eagerly."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo.testing
import torch._inductor.metrics
import torch.nn.functional as F
from compiled import random_graphs, strides
from compiled.programs import PROGRAMS
from conftest import needs_spyre
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

pytestmark = needs_spyre


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()


@pytest.fixture
def no_cache():
    """Graphs are compiled, even if a process before this one did so."""
    with torch._inductor.config.patch(force_disable_caches=True):
        yield


def on_device(values):
    return tree_map(lambda value: value.to("spyre") if isinstance(value, torch.Tensor) else value, values)


def compare(compiled, eager):
    for one, other in zip(tree_leaves(compiled), tree_leaves(eager), strict=True):
        if isinstance(one, torch.Tensor):
            assert one.device == other.device
            assert one.stride() == other.stride()
            torch.testing.assert_close(one.cpu(), other.cpu())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_it_gives_eagerly(name):
    program = PROGRAMS[name]
    inputs = program.inputs()
    eager_inputs = on_device(inputs)
    inputs = on_device(inputs)
    eager = program.run(*eager_inputs)
    with torch._inductor.config.patch(emulate_precision_casts=True):
        compiled = torch.compile(program.run, fullgraph=True)(*inputs)
    compare(compiled, eager)
    compare(inputs, eager_inputs)  # those that it wrote to


@pytest.mark.parametrize("name", ["chain", "softmax", "mm", "layer_norm", "embedding", "attention", "cat", "rope", "slice"])
def test_sizes_may_be_numbers_of_the_launch(name):
    program = PROGRAMS[name]
    inputs = on_device(program.inputs())
    compare(torch.compile(program.run, dynamic=True)(*inputs), program.run(*inputs))


def test_sequence_lengths_share_one_graph():
    def step(x, w):
        return torch.softmax(F.silu(x @ w) * 0.5, -1).sum(0)

    counter = torch._dynamo.testing.CompileCounterWithBackend("inductor")
    compiled = torch.compile(step, backend=counter)
    w = torch.randn(16, 24, device="spyre")
    for length in (2, 3, 7, 64, 65, 128):
        x = torch.randn(length, 16, device="spyre")
        torch._dynamo.mark_dynamic(x, 0, min=2, max=128)
        torch.testing.assert_close(compiled(x, w).cpu(), step(x, w).cpu())
    assert counter.frame_count == 1


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"enable_gqa": True}], ids=str)
def test_attention_of_any_length_is_compiled_once(options):
    """Each length was a graph of its own when the choice of a way to compute it asked for the number."""

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q * 2, k, v, **options)

    counter = torch._dynamo.testing.CompileCounterWithBackend("inductor")
    compiled = torch.compile(attend, backend=counter, fullgraph=True)
    heads = (4, 2, 2) if "enable_gqa" in options else (4, 4, 4)
    for length in (2, 3, 7, 64, 65, 128):
        given = [torch.randn(2, count, length, 16, device="spyre") for count in heads]
        for tensor in given:
            torch._dynamo.mark_dynamic(tensor, 2, min=2, max=128)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            made = compiled(*given)
        names = {event.name for event in profile.events()}
        assert "aten::_scaled_dot_product_fused_attention_overrideable" in names
        torch.testing.assert_close(made.cpu(), attend(*given).cpu())
    assert counter.frame_count == 1


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.up = torch.nn.Linear(32, 64)
        self.down = torch.nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def test_gradients_are_those_of_the_eager_model():
    model = Block().to("spyre")
    x = torch.randn(4, 7, 32, device="spyre", requires_grad=True)

    def gradients(function):
        loss = F.cross_entropy(function(x).flatten(0, 1), torch.arange(28, device="spyre"))
        return torch.autograd.grad(loss, [x, *model.parameters()])

    compare(gradients(torch.compile(model, fullgraph=True)), gradients(model))


def test_training_makes_the_same_steps():
    def trained(compile_it):
        torch.manual_seed(3)
        model = Block().to("spyre")
        step = torch.compile(model) if compile_it else model
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(4):
            optimizer.zero_grad()
            step(torch.ones(2, 5, 32, device="spyre")).square().mean().backward()
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    compare(trained(True), trained(False))


@pytest.mark.parametrize(
    ("name", "kernels"), [("chain", 1), ("softmax", 1), ("mm", 1), ("linear_gelu", 1), ("layer_norm", 1), ("rms_norm", 1)]
)
def test_nodes_are_joined_in_one_kernel(name, kernels, no_cache):
    program = PROGRAMS[name]
    torch._inductor.metrics.reset()
    torch.compile(program.run)(*on_device(program.inputs()))
    assert torch._inductor.metrics.generated_kernel_count == kernels


def test_dropout_draws_from_the_devices_generator():
    compiled = torch.compile(lambda x: F.dropout(x, 0.25))
    x = torch.ones(4000, device="spyre")
    torch.manual_seed(5)
    first = compiled(x).cpu()
    torch.manual_seed(5)
    assert torch.equal(compiled(x).cpu(), first)
    assert not torch.equal(compiled(x).cpu(), first)
    assert abs((first == 0).float().mean().item() - 0.25) < 0.05
    torch.testing.assert_close(first.unique(), torch.tensor([0, 4 / 3]))


def test_random_numbers_can_be_those_of_eager():
    compiled = torch.compile(lambda x: x + torch.rand_like(x))
    x = torch.zeros(100, device="spyre")
    with torch._inductor.config.patch(fallback_random=True):
        torch.manual_seed(1)
        given = compiled(x).cpu()
    torch.manual_seed(1)
    assert torch.equal(given, (x + torch.rand_like(x)).cpu())


def test_a_branch_is_a_part_of_the_graph():
    def choose(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos() - 1, (x,))

    compiled = torch.compile(choose, fullgraph=True)
    for x in (torch.ones(5, device="spyre"), -torch.ones(5, device="spyre")):
        torch.testing.assert_close(compiled(x).cpu(), choose(x).cpu())


def test_an_index_out_of_range_is_reported():
    compiled = torch.compile(lambda table, at: table[at] + 1)
    table = torch.randn(8, 64, device="spyre")
    compiled(table, torch.tensor([7], device="spyre"))
    with pytest.raises(IndexError, match="out of"):
        compiled(table, torch.tensor([8], device="spyre")).cpu()
    assert compiled(table, torch.tensor([0], device="spyre")).shape == (1, 64)


def test_to_import_torch_imports_no_compiler(python):
    python("""
        import sys
        import torch
        torch.ones(2, device="spyre") + 1
        assert "torch._dynamo" not in sys.modules
        assert "torch._inductor" not in sys.modules
    """)


def test_a_second_process_compiles_nothing(python, tmp_path):
    code = """
        import torch
        from torch._dynamo.utils import counters

        def f(x, w):
            return torch.softmax(x @ w, -1)

        x = torch.randn(4, 8, device="spyre", requires_grad=True)
        torch.compile(f)(x, torch.randn(8, 16, device="spyre")).sum().backward()
        print(counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"])
    """
    runs = [python(code, TORCHINDUCTOR_CACHE_DIR=str(tmp_path)).stdout.split() for _ in range(2)]
    assert runs[0] == ["0", "2"]
    assert runs[1][1] == "0"


def test_another_profile_is_another_graph(python, tmp_path):
    code = """
        import torch
        from torch._dynamo.utils import counters

        torch.compile(lambda x: x * 2 + 1)(torch.randn(4, 64, dtype=torch.float16, device="spyre"))
        print(counters["inductor"]["fxgraph_cache_miss"])
    """
    for profile in ("open", "card"):
        found = python(code, TORCHINDUCTOR_CACHE_DIR=str(tmp_path), SPYRE_PROFILE=profile)
        assert found.stdout.split() == ["1"]


def test_the_generated_module_shows_its_kernels():
    from torch._inductor.utils import run_and_get_code

    with torch._inductor.config.patch(force_disable_caches=True):
        _, (code,) = run_and_get_code(torch.compile(lambda x: (x * 2).sum(-1)), torch.ones(3, 4, device="spyre"))
    assert "sum<" in code
    assert "spyre_kernel('''" in code


def test_a_tensor_of_another_layout_needs_no_compilation():
    counter = torch._dynamo.testing.CompileCounterWithBackend("inductor")
    compiled = torch.compile(lambda x: (x * 2).sum(0), backend=counter)
    x = torch.randn(70, 66)
    first = compiled(x.to("spyre"))
    second = compiled(x.to("spyre", stick_dims=[0]))
    torch.testing.assert_close(first.cpu(), second.cpu())
    assert counter.frame_count == 1


def test_a_large_product_is_launched_tile_by_tile():
    """Workflow 5 of the first seed: four rounds of three blocks."""
    from torch_spyre._inductor import config

    a = torch.randn(4096, 64).to("spyre")
    b = torch.randn(64, 64).to("spyre")
    with config.patch(max_tile=1024):
        compiled = torch.compile(lambda a, b: a @ b)
        compiled(a, b)  # copies the programs to the device, too
        torch.spyre.synchronize()
        with torch.spyre.trace() as trace:
            c = compiled(a, b)
            torch.spyre.synchronize()
    torch.testing.assert_close(c.cpu(), (a @ b).cpu())
    assert (trace.kernels, trace.blocks) == (4, 12)


def test_on_another_stream():
    stream = torch.spyre.Stream()
    x = torch.randn(64, 64, device="spyre")
    torch.spyre.synchronize()
    compiled = torch.compile(lambda x: torch.softmax(x, -1))
    with torch.spyre.stream(stream):
        made = compiled(x)
    stream.synchronize()
    torch.testing.assert_close(made.cpu(), torch.softmax(x, -1).cpu())


COLD = {
    "behind a fault": """
        x.index_select(0, torch.tensor([99], device="spyre"))
        with pytest.raises(IndexError, match="99"):
            compiled(x).cpu()
    """,
    "on another stream": """
        with torch.spyre.stream(torch.spyre.Stream()):
            assert compiled(x).tolist() == [16.0] * 4
    """,
    "in a thread": """
        import threading
        made = []
        thread = threading.Thread(target=lambda: made.append(compiled(x).tolist()))
        thread.start()
        thread.join()
        assert made == [[16.0] * 4]
    """,
    "behind a fault, in a thread": """
        import threading
        x.index_select(0, torch.tensor([99], device="spyre"))
        raised = []
        def run():
            with pytest.raises(IndexError, match="99") as error:
                compiled(x).cpu()
            raised.append(error)
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert len(raised) == 1
    """,
}


@pytest.mark.parametrize("first", COLD)
def test_a_first_call(first, python, tmp_path):
    """The first use of a compiled function in a process, and the call after it."""
    python(
        """
        import pytest, torch
        compiled = torch.compile(lambda x: (x * 2).sum(-1))
        x = torch.ones(4, 8, device="spyre")
        torch.spyre.synchronize()
        """
        + COLD[first]
        + """
        assert compiled(x).tolist() == [16.0] * 4
        assert x.sum().item() == 32
        """,
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path),
    )


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_random_programs(first):
    """`python -m compiled.random_graphs` runs as many as it is asked for."""
    found = [random_graphs.compare(seed) for seed in range(first, first + 10)]
    assert not [line for line in found if line is not None]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", """mm softmax sort gather cat cholesky_solve fft.fft2 fft.hfft2 fft.rfftn max_pool2d
    max_unpool2d native_batch_norm nonzero_static""".split())
def test_results_lie_as_fake_tensors_promise(name):
    """`python -m compiled.strides` goes through all operators."""
    named = [op for op in op_db if op.name.removeprefix("nn.functional.") == name]
    assert named
    assert not [line for op in named for line in strides.differences(op)]


@pytest.mark.parametrize(("left", "right"), [((1, 64), (64, 96)), ((96, 64), (64, 1))])
def test_the_dim_of_one_row_or_column_is_the_outermost_loop(no_cache, left, right):
    from torch._inductor.utils import run_and_get_code

    sides = [torch.ones(size, device="spyre") for size in (left, right)]
    _, (code,) = run_and_get_code(torch.compile(lambda x, y: x @ y), *sides)
    assert "(d2, d0, d1) {" in code
