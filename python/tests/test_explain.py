"""`torch_spyre.explain`, and files of `TORCH_COMPILE_DEBUG=1`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch_spyre
from conftest import needs_spyre

pytestmark = needs_spyre

HERE = Path(__file__).name


def tensors(*shapes):
    return [torch.randn(shape).to("spyre") for shape in shapes]


def mlp(x, up, down):
    return torch.softmax(torch.relu(x @ up) @ down, -1)


def test_kernels_say_what_is_fused_in_them():
    (graph,) = torch_spyre.explain(mlp, *tensors((8, 64), (64, 96), (96, 32))).graphs
    first, _, last = graph.kernels
    assert (first.operators, last.operators, last.loops) == (["mm", "relu"], ["_softmax"], 3)
    assert graph.fusions == graph.kernels and not graph.extern_calls and not graph.is_backward
    assert sorted(first.dims.values()) == [8, 64, 96]
    assert {operand.role for operand in first.operands} == {"in", "out"}
    assert first.not_stored == ["buf0"]
    assert torch.spyre.compile(first.text).operand_names == [operand.name for operand in first.operands]
    assert {(Path(line.file).name, line.function) for line in first.lines} == {(HERE, "mlp")}
    assert first.lines[0].text == "return torch.softmax(torch.relu(x @ up) @ down, -1)"


def test_modelled_times_are_those_of_a_trace():
    inputs = tensors((64, 256), (256, 256), (256, 128))
    explanation = torch_spyre.explain(mlp, *inputs)
    compiled = torch.compile(mlp)
    compiled(*inputs)
    with torch.spyre.trace() as trace:
        compiled(*inputs)
    assert explanation.seconds == pytest.approx(trace.modelled_seconds, abs=1e-8)
    assert explanation.kernel_seconds == pytest.approx(trace.modelled_kernel_seconds, abs=1e-8)
    assert all(kernel.runs == 1 and kernel.kernel_seconds > 0 for kernel in explanation.graphs[0].kernels)


def test_extern_calls_have_reasons_and_times():
    def step(x, weight):
        y = x - torch.median(x.cumsum(-1) + 1, -1, keepdim=True)[0]
        z = torch.nn.functional.conv1d(y[None], weight)
        return z * 2

    (graph,) = torch_spyre.explain(step, *tensors((4, 64), (2, 4, 3))).graphs
    reasons = {call.operator.removeprefix("aten::"): call.reason for call in graph.extern_calls}
    assert reasons == {
        "median": "the eager operator has its own rules for NaN and for equals",
        "convolution": "the windows of a convolution are no loops: the eager kernel has them",
    }
    assert all(call.runs == 1 and call.seconds > 0 and call.lines for call in graph.extern_calls)
    places = [call.name for call in graph.calls]
    assert places.index("median") < places.index("convolution")


def test_graph_breaks_have_reasons_and_lines():
    def step(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    explanation = torch_spyre.explain(step, *tensors((4, 8)))
    (graph_break,) = explanation.breaks
    assert "graph_break" in graph_break.reason
    assert graph_break.lines[-1].text == "torch._dynamo.graph_break()"
    assert len(explanation.graphs) == 2
    assert "graph breaks 1" in str(explanation)


def test_functions_that_dynamo_skips_are_graph_breaks():
    def inner(x):
        return torch.softmax(x, -1)

    def step(x):
        for _ in range(3):
            x = inner(x)
            torch._dynamo.graph_break()
        return x

    explanation = torch_spyre.explain(step, *tensors((4, 8)))
    (graph_break,) = explanation.breaks
    assert graph_break.is_skipped and "graph break in loop" in graph_break.reason
    assert (graph_break.lines[-1].function, graph_break.lines[-1].text) == ("step", "def step(x):")
    (graph,) = explanation.graphs
    assert graph.kernels[0].runs == 3
    assert ", 3 runs" in str(graph)


def test_calls_on_the_host_and_copies_from_it_are_told_apart():
    def step(x, h):
        return x * 2 + h.mul(3).sum().to("spyre")

    (graph,) = torch_spyre.explain(step, *tensors((4, 8)), torch.randn(5)).graphs
    host, copy = graph.extern_calls
    assert host.reason == "it runs on cpu, where its tensors are"
    assert (copy.reason, copy.runs) == ("it copies between two devices", 1)
    assert copy.seconds > copy.kernel_seconds == 0
    assert "did not run" not in str(graph)


def test_lines_behind_a_graph_break_are_of_the_function_itself():
    def step(x):
        torch._dynamo.graph_break()
        return x + 1

    explanation = torch_spyre.explain(step, *tensors((4, 8)))
    assert [line.function for graph in explanation.graphs for line in graph.kernels[0].lines] == ["step"]


def test_an_error_of_the_program_leaves_nothing_behind():
    from torch_spyre.graph_reports import recorder

    def step(x):
        torch._dynamo.graph_break()
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing"):
        torch_spyre.explain(step, *tensors((4,)))
    assert not recorder._listeners and not recorder._recorders
    assert not torch._inductor.config.force_disable_caches


def test_intermediates_live_from_call_to_call():
    def step(x, weight):
        called = torch.nn.functional.conv1d
        a = called(x, weight)  # 8 KiB
        b = called(a + 1, weight)  # two more, and then a is not used again
        return called(b * 2, weight)

    (graph,) = torch_spyre.explain(step, *tensors((1, 16, 128), (16, 16, 1))).graphs
    own = {buffer.name: buffer for buffer in graph.buffers}
    made = [own[operand.buffer] for kernel in graph.kernels for operand in kernel.operands if operand.role == "out"]
    assert [buffer.bytes for buffer in made] == [8192] * 2
    assert all(buffer.last_used_by == buffer.made_by + 1 and not buffer.is_output for buffer in made)
    assert graph.intermediate_bytes > graph.peak_intermediate_bytes >= 2 * 8192
    assert [buffer.bytes for buffer in graph.buffers if buffer.is_output] == [8192]


def test_layouts_that_the_program_chose_are_restickifies():
    (graph,) = torch_spyre.explain(lambda x: (x + 1).restickify([0]) * 2, *tensors((64, 96))).graphs
    (restickify,) = graph.restickifies
    assert restickify.endswith("is made with stick_dims=[0]")


def test_a_card_restickifies_what_a_kernel_needs(python):
    python(
        """
        import torch, torch_spyre
        x = torch.randn(64, 128, dtype=torch.float16).to("spyre")
        y = torch.randn(128, 64, dtype=torch.float16).to("spyre")
        (graph,) = torch_spyre.explain(lambda x, y: x + y.t(), x, y).graphs
        assert graph.kernels[0].restickifies == 1, graph
        assert graph.restickifies == [f"1 before {graph.kernels[0].name}"]
        """,
        SPYRE_PROFILE="card",
    )


def test_gradients_are_graphs_of_their_own():
    model = torch.nn.Linear(16, 8).to("spyre")

    def train(x):
        torch.nn.functional.gelu(model(x)).sum().backward()

    graphs = torch_spyre.explain(train, *tensors((4, 16))).graphs
    assert {graph.is_backward for graph in graphs} == {False, True}
    assert all(kernel.runs == 1 for graph in graphs for kernel in graph.kernels)


def test_a_branch_that_is_not_taken_does_not_run():
    def choose(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos() - 1, (x,))

    (graph,) = torch_spyre.explain(choose, torch.ones(5, device="spyre")).graphs
    runs = {tuple(kernel.operators): kernel.runs for kernel in graph.kernels}
    assert sorted(runs.values()) == [0, 1, 1], runs
    assert "did not run" in str(graph)


def test_the_text_has_all_of_it():
    explanation = torch_spyre.explain(lambda x: torch.mode(torch.softmax(x, -1))[0], *tensors((4, 8)))
    text = str(explanation)
    for part in (
        "graphs 1, kernels 1, extern calls 1, graph breaks 0",
        "on a real card: ",
        "kernel spyre_fused__softmax_0",
        "dims d0=4, d1=8",
        "in x0: float32[d0, d1] of arg0_1",
        "extern mode",
        "no loop: the eager operator has its own rules for NaN and for equals",
        f"{HERE}:",
        "intermediates ",
        "restickifies: none",
    ):
        assert part in text, text


def test_what_was_compiled_runs_as_before_afterwards():
    x, up, down = tensors((8, 64), (64, 96), (96, 32))
    compiled = torch.compile(mlp)
    expected = compiled(x, up, down).cpu()
    explanation = torch_spyre.explain(mlp, x, up, down)
    before = [call.runs for call in explanation.graphs[0].calls]
    torch.testing.assert_close(compiled(x, up, down).cpu(), expected)
    torch.testing.assert_close(torch.compile(mlp)(x, up, down).cpu(), expected)
    assert [call.runs for call in explanation.graphs[0].calls] == before


def test_sizes_may_be_symbols():
    x = torch.randn(7, 40, device="spyre")
    torch._dynamo.mark_dynamic(x, 0)
    (graph,) = torch_spyre.explain(lambda x: torch.mode(x * 2, keepdim=True)[0] + x, x).graphs
    assert any(isinstance(size, str) for kernel in graph.kernels for size in kernel.dims.values())
    assert graph.intermediate_bytes >= 7 * 40 * 4


def test_a_model_on_the_host_has_no_graph_here():
    explanation = torch_spyre.explain(lambda x: x.add(1).cos(), torch.ones(4))
    assert explanation.graphs == [] and "graphs 0" in str(explanation)


def test_inductors_folder_has_kernels_plans_and_buffers(python, tmp_path):
    python(
        """
        import torch

        @torch.compile
        def step(x, w, weight):
            return torch.softmax(torch.nn.functional.conv1d(x @ w, weight), -1)

        step(*(torch.ones(size, device="spyre") for size in ((4, 8), (8, 16), (4, 4, 1))))
        """,
        TORCH_COMPILE_DEBUG="1",
        TORCH_COMPILE_DEBUG_DIR=str(tmp_path),
        TORCHINDUCTOR_FORCE_DISABLE_CACHES="1",
    )
    (code,) = tmp_path.rglob("output_code.py")
    kernels = {path.stem: path.read_text() for path in code.parent.glob("*.ir")}
    assert set(kernels) == {"spyre_fused_mm_0", "spyre_fused__softmax_squeeze_1"}
    assert all(text.strip() in code.read_text() for text in kernels.values())
    plans = (code.parent / "spyre_plans.txt").read_text()
    assert plans.count("plan of ") == 2 and "Operation " in plans and "input x0: float32 d0=any" in plans
    buffers = (code.parent / "spyre_buffers.txt").read_text()
    assert "0 spyre_fused_mm_0\n    makes buf0, until 1: " in buffers
    assert "device_layout=" in buffers and "last use of buf0" in buffers and ", result: " in buffers
