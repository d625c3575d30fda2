"""Cells of recurrent networks: PyTorch has them fused for accelerators, and in parts for the CPU."""

from __future__ import annotations

import torch
from torch import Tensor

from .table import composite


def _side_by_side(gates: Tensor, count: int) -> tuple[Tensor, ...]:
    """Parts of one width: a caller may give anything."""
    if gates.dim() != 2 or gates.size(1) % count != 0:
        sizes = list(gates.shape)
        raise RuntimeError(f"expected a matrix of {count} parts side by side, but got sizes {sizes}")
    return gates.chunk(count, 1)


def _biased(gates: Tensor, *biases: Tensor | None) -> Tensor:
    for bias in biases:
        gates = gates if bias is None else gates + bias
    return gates


@composite("_thnn_fused_lstm_cell")
def lstm_cell(
    input_gates: Tensor, hidden_gates: Tensor, cell: Tensor, input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    i, f, g, o = _side_by_side(_biased(input_gates + hidden_gates, input_bias, hidden_bias), 4)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new_cell = f * cell + i * g
    return o * new_cell.tanh(), new_cell, torch.cat([i, f, g, o], 1)


@composite("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(
    grad_hidden: Tensor | None, grad_cell: Tensor | None, cell: Tensor, new_cell: Tensor, workspace: Tensor,
    has_bias: bool,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    i, f, g, o = _side_by_side(workspace, 4)
    if grad_hidden is None and grad_cell is None:
        return None, None, None
    squashed = new_cell.tanh()
    from_hidden = torch.zeros_like(new_cell) if grad_hidden is None else grad_hidden
    to_cell = _biased(from_hidden * o * (1 - squashed * squashed), grad_cell)
    to_gates = [to_cell * g * i * (1 - i), to_cell * cell * f * (1 - f), to_cell * i * (1 - g * g)]
    grad_gates = torch.cat([*to_gates, from_hidden * squashed * o * (1 - o)], 1)
    return grad_gates, to_cell * f, grad_gates.sum(0) if has_bias else None


@composite("_thnn_fused_gru_cell")
def gru_cell(
    input_gates: Tensor, hidden_gates: Tensor, hidden: Tensor, input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    of_input = _side_by_side(_biased(input_gates, input_bias), 3)
    gates = _side_by_side(_biased(hidden_gates, hidden_bias), 3)
    reset, update = (of_input[0] + gates[0]).sigmoid(), (of_input[1] + gates[1]).sigmoid()
    new = (of_input[2] + reset * gates[2]).tanh()
    return new + update * (hidden - new), torch.cat([reset, update, new, hidden, gates[2]], 1)


@composite("_thnn_fused_gru_cell_backward")
def gru_cell_backward(grad: Tensor, workspace: Tensor, has_bias: bool) -> tuple[Tensor | None, ...]:
    reset, update, new, hidden, gate = _side_by_side(workspace, 5)
    to_update = grad * (hidden - new) * (1 - update) * update
    to_new = grad * (1 - update) * (1 - new * new)
    to_reset = to_new * gate * (1 - reset) * reset
    to_input, to_hidden = (torch.cat([to_reset, to_update, last], 1) for last in (to_new, to_new * reset))
    biases = (to_input.sum(0), to_hidden.sum(0)) if has_bias else (None, None)
    return to_input, to_hidden, grad * update, *biases
