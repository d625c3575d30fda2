"""flex_attention: the device is one of those that it takes, and graphs have its products and its softmax.

The dense form that PyTorch itself runs eagerly is traced into the graph, where scores are loops of kernels as any others.
All scores are computed, those of blocks that a mask leaves out among them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from ..constants import DEVICE_NAME

__all__ = ["change_checks", "change_operators"]


def change_checks(module: ModuleType) -> None:
    """Adds the device to those that may be asked."""
    known = module._validate_device

    @functools.wraps(known)
    def validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != DEVICE_NAME:
            known(query, key, value)

    module._validate_device = validate_device


def change_operators(module: ModuleType) -> None:
    """Has graphs on the device trace the dense form, forward and backward."""
    _trace(module.flex_attention, module.sdpa_dense)
    _trace(module.flex_attention_backward, module.sdpa_dense_backward)


def _trace(operator: Any, dense: Callable[..., Any]) -> None:
    from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

    known = operator.python_key_table[ProxyTorchDispatchMode]

    @functools.wraps(known)
    def traced(mode: Any, query: torch.Tensor, *args: Any, **named: Any) -> Any:
        if query.device.type != DEVICE_NAME:
            return known(mode, query, *args, **named)
        with mode:
            return dense(query, *args, **named)

    operator.python_key_table[ProxyTorchDispatchMode] = traced
