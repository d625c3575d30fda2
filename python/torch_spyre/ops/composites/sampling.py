"""Samples at places between elements, and their gradients."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._C import DispatchKey

from .table import Declined, composite


@composite("grid_sampler_2d")
def grid_sampler_2d(x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """PyTorch's decomposition, in rows: its result would lie as the grid does."""
    from torch._decomp import decomposition_table

    if x.numel() == 0:
        raise Declined("there is nothing to take samples of")
    forward = decomposition_table[torch.ops.aten.grid_sampler_2d.default]
    return forward(x, grid, interpolation_mode, padding_mode, align_corners).contiguous()


@composite("grid_sampler_2d_backward")
def grid_sampler_2d_backward(
    grad: Tensor, x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool,
    output_mask: list[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Differentiates the parts that the forward operation is made of: they have gradients."""
    from torch._decomp import decomposition_table

    forward = decomposition_table[torch.ops.aten.grid_sampler_2d.default]
    exclude = torch._C._SetExcludeDispatchKeyGuard
    # Kernels run below autograd, which is to look on here.
    with (
        exclude(DispatchKey.AutogradPrivateUse1, False),
        exclude(DispatchKey.AutogradFunctionality, False),
        torch.enable_grad(),
    ):
        inputs = [x.detach().requires_grad_(output_mask[0]), grid.detach().requires_grad_(output_mask[1])]
        y = forward(*inputs, interpolation_mode, padding_mode, align_corners)
        wanted = [tensor for tensor in inputs if tensor.requires_grad]
        found = iter(torch.autograd.grad(y, wanted, grad, materialize_grads=True))
    return tuple(next(found) if asked else None for asked in output_mask)
