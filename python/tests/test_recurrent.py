"""Recurrent layers and their cells: as the CPU computes them, forward and backward, by kernels and by composites."""

import copy

import pytest
import torch

from conftest import needs_spyre

pytestmark = needs_spyre
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 5e-2, torch.float16: 5e-3}
LAYERS = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
CELLS = {
    "aten::_thnn_fused_lstm_cell",
    "aten::_thnn_fused_lstm_cell_backward_impl",
    "aten::_thnn_fused_gru_cell",
    "aten::_thnn_fused_gru_cell_backward",
}


def run(layer, x):
    """The result, the last states, and the gradients of the input and of all weights."""
    x = x.detach().requires_grad_()
    y, states = layer(x)
    states = states if isinstance(states, tuple) else (states,)
    sum((part.float() * part.float()).sum() for part in (y, *states)).backward()
    return [y.detach(), *(state.detach() for state in states), x.grad, *(weight.grad for weight in layer.parameters())]


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("bias", [True, False], ids=["biased", "plain"])
@pytest.mark.parametrize("kind", LAYERS)
def test_layers_are_the_cpus(kind, bias, dtype, no_fallback):
    torch.manual_seed(5)
    layer = LAYERS[kind](7, 5, num_layers=2, bias=bias, bidirectional=True).to(dtype)
    x = torch.randn(4, 3, 7).to(dtype)

    ours = run(copy.deepcopy(layer).to("spyre"), x.to("spyre"))
    theirs = run(layer.double(), x.double())

    for one, other in zip(ours, theirs, strict=True):
        assert (one.device.type, one.dtype) == ("spyre", dtype)
        torch.testing.assert_close(one.cpu().double(), other, atol=10 * TOLERANCE[dtype], rtol=10 * TOLERANCE[dtype])


def test_a_biased_cell_is_a_kernel(no_fallback):
    from torch_spyre.ops.decompositions import decomposition_stats

    before = decomposition_stats()
    for layer in (torch.nn.LSTM(7, 5), torch.nn.GRU(7, 5)):
        run(layer.to("spyre"), torch.randn(2, 3, 7, device="spyre"))

    assert all(decomposition_stats().get(name) == before.get(name) for name in CELLS)


def test_gates_need_not_be_in_rows(no_fallback):
    torch.manual_seed(6)
    given = [torch.randn(20, 3).t(), torch.randn(3, 40)[:, ::2], torch.randn(5, 3).t(), *torch.randn(2, 20)]
    expected = torch.nn.functional.linear(torch.eye(3), (given[0] + given[1] + given[3] + given[4]).t())
    enter, forget, new, leave = expected.chunk(4, 1)
    cell = forget.sigmoid() * given[2] + enter.sigmoid() * new.tanh()

    hidden, state, _ = torch.ops.aten._thnn_fused_lstm_cell(*(tensor.to("spyre") for tensor in given))

    torch.testing.assert_close(state.cpu(), cell)
    torch.testing.assert_close(hidden.cpu(), leave.sigmoid() * cell.tanh())


def test_a_cell_without_gradients_has_none():
    cell, gates = torch.ones(2, 3, device="spyre"), torch.ones(2, 12, device="spyre")
    assert torch.ops.aten._thnn_fused_lstm_cell_backward_impl(None, None, cell, cell, gates, True) == (None, None, None)


def test_layers_run_without_kernels(python):
    code = """
        import torch
        torch.manual_seed(3)
        layer, x = torch.nn.LSTM(4, 5), torch.randn(3, 2, 4)
        expected = layer(x)[0]
        found = layer.to("spyre")(x.to("spyre"))[0]
        found.sum().backward()
        print(torch.allclose(found.cpu(), expected, atol=1e-6), layer.weight_hh_l0.grad.device.type)
        q = torch.randn(1, 2, 4, 8)
        attend = torch.nn.functional.scaled_dot_product_attention
        print(torch.allclose(attend(*[q.to("spyre")] * 3).cpu(), attend(q, q, q), atol=1e-6))
    """
    run = python(code, EAGER_MODE="0", SPYRE_FALLBACK="silent")
    assert run.stdout.split("\n")[:2] == ["True spyre", "True"]
