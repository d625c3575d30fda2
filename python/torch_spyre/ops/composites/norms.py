"""Norms of shapes that kernels do not take."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from .table import Declined, composite


@composite("native_layer_norm")
def native_layer_norm(
    x: Tensor, normalized_shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    if not normalized_shape:
        raise Declined("the CPU says what is wrong")
    function = decomposition_table[torch.ops.aten.native_layer_norm.default]
    return function(x, normalized_shape, weight, bias, eps)
