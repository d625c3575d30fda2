"""Models on the device.

``model.to("spyre")`` puts the weights of linear layers into sticks along their output features, which is how
matrix products read them; everything else lies as usual.
"""

from __future__ import annotations

import functools

import torch
from torch import nn

from .constants import DEVICE_NAME
from .layouts import DataFormats, SpyreTensorLayout, get_device_dtype

__all__ = ["load_model_to_spyre", "patch_module_to_for_spyre"]


def load_model_to_spyre(model: nn.Module, dtype: torch.dtype | None = None) -> nn.Module:
    """Moves a model to the device, in place. What is there already, with this dtype, stays as it is."""
    if dtype is not None and not (dtype.is_floating_point and _is_kept(dtype)):
        raise ValueError(f"the device does not keep models as {dtype}: give a floating-point dtype that it has")
    return _load(model, torch.device(DEVICE_NAME), dtype, False, None)


def patch_module_to_for_spyre() -> None:
    """Has ``nn.Module.to`` and ``nn.Module.spyre`` load models as :func:`load_model_to_spyre` does.

    Other devices see no change.
    """
    original = nn.Module.to
    if getattr(original, "_spyre_patched", False):
        return

    @functools.wraps(original)
    def to(self, *args, **kwargs):
        device, dtype, non_blocking, memory_format = torch._C._nn._parse_to(*args, **kwargs)
        if device is None or device.type != DEVICE_NAME or not _is_for_modules(dtype):
            return original(self, *args, **kwargs)
        return _load(self, device, dtype, non_blocking, memory_format)

    to._spyre_patched = True
    nn.Module.to = to
    nn.Module.spyre = _spyre


def _spyre(self: nn.Module, device: torch.device | str | int | None = None) -> nn.Module:
    """Moves all parameters and buffers to the device, in place."""
    if device is None or isinstance(device, int):
        device = torch.device(DEVICE_NAME if device is None else f"{DEVICE_NAME}:{device}")
    return self.to(device)


def _load(
    model: nn.Module,
    device: torch.device,
    dtype: torch.dtype | None,
    non_blocking: bool,
    memory_format: torch.memory_format | None,
) -> nn.Module:
    weights = {id(weight) for weight in _linear_weights(model)}

    def move(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_meta:
            raise NotImplementedError(_NO_DATA)
        own = dtype if tensor.is_floating_point() or tensor.is_complex() else None
        own = tensor.dtype if own is None else own
        is_there = tensor.device.type == DEVICE_NAME and device.index in (None, tensor.device.index)
        if is_there and tensor.dtype == own:
            return tensor
        if id(tensor) in weights:
            return _dma_to_spyre_dim_order_swapped(tensor, own, device, non_blocking)
        if memory_format is not None and tensor.dim() in (4, 5):
            return tensor.to(device, own, non_blocking, memory_format=memory_format)
        return tensor.to(device, own, non_blocking)

    return model._apply(move)


def _dma_to_spyre_dim_order_swapped(
    weight: torch.Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str = DEVICE_NAME,
    non_blocking: bool = False,
) -> torch.Tensor:
    """A matrix on the device with its first dimension along the sticks."""
    assert weight.ndim == 2, f"expected a matrix, not {weight.ndim} dimensions"
    dtype = weight.dtype if dtype is None else dtype
    size, stride = weight.size(), torch.empty_like(weight, device="meta").stride()
    layout = SpyreTensorLayout(size, stride, dtype, [1, 0])
    return weight.to(device, dtype, non_blocking, device_layout=layout)


def _linear_weights(model: nn.Module) -> list[torch.Tensor]:
    """Returns the weights that are worth other sticks: matrices of linear layers, without placeholders."""
    layers = (module for module in model.modules() if isinstance(module, nn.Linear))
    weights = (layer._parameters.get("weight") for layer in layers)
    return [weight for weight in weights if weight is not None and _is_matrix(weight)]


def _is_matrix(weight: torch.Tensor) -> bool:
    is_plain = type(weight) in (nn.Parameter, torch.Tensor) and weight.layout == torch.strided
    return is_plain and weight.ndim == 2 and weight.device.type != "meta"


def _is_kept(dtype: torch.dtype) -> bool:
    return get_device_dtype(dtype) != DataFormats.INVALID


def _is_for_modules(dtype: torch.dtype | None) -> bool:
    """Returns True for a dtype that ``nn.Module.to`` takes; it has its own error for the rest."""
    return dtype is None or dtype.is_floating_point or dtype.is_complex


_NO_DATA = (
    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() "
    "when moving module from meta to a different device."
)
