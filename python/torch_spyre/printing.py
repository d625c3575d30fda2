"""Printing of the device's tensors: as the CPU prints them, with the device at the end.

    >>> torch.tensor([1.0, 2.0], dtype=torch.float16, device="spyre")
    tensor([1., 2.], dtype=torch.float16, device='spyre:0')

PyTorch works out widths and digits with some twenty operations. Here they are done on a copy: of the elements
that are shown, where there are too many for all to be.
"""

from __future__ import annotations

import torch
from torch import _tensor_str as printer

from .constants import DEVICE_NAME

__all__ = ["install"]

NO_RESULT = "holds no result"
"""Text for a tensor that cancelled work was to write."""

_original = printer._str_intern


def install() -> None:
    """Has PyTorch print tensors this way, from now on."""
    printer._str_intern = _str_intern


def _str_intern(tensor: torch.Tensor, *, tensor_contents: str | None = None) -> str:
    if tensor_contents is not None or not _is_ours(tensor):
        return _original(tensor, tensor_contents=tensor_contents)
    if tensor.numel() == 0:
        return _device_last(_original(tensor), tensor)
    return _device_last(_original(tensor, tensor_contents=_contents(tensor)), tensor)


def _is_ours(tensor: torch.Tensor) -> bool:
    is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    if not is_plain or is_wrapped or tensor.device.type != DEVICE_NAME:
        return False
    # Of sparse and nested tensors PyTorch prints the parts, which come here one by one.
    return tensor.layout == torch.strided and not tensor.is_nested


def _contents(tensor: torch.Tensor) -> str:
    """The values; of a tensor that a lost device took away, why there are none. A result that never came raises."""
    indent = len("tensor(")
    try:
        with torch.no_grad():
            if tensor.numel() <= printer.PRINT_OPTS.threshold:
                return printer._tensor_str(tensor.detach().cpu(), indent)
            with printer.printoptions(threshold=0):
                return printer._tensor_str(_edges(tensor.detach()), indent)
    except RuntimeError as error:
        if NO_RESULT in str(error):
            raise
        return f"<{str(error).splitlines()[0]}>"


def _edges(tensor: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """Returns the elements that are shown of a large tensor, and one more along a cut dim, for its dots."""
    if dim == tensor.dim():
        return tensor.cpu()
    edge, extent = printer.PRINT_OPTS.edgeitems, tensor.size(dim)
    if extent <= 2 * edge + 1:
        return _edges(tensor, dim + 1)
    first = _edges(tensor.narrow(dim, 0, edge + 1), dim + 1)
    last = _edges(tensor.narrow(dim, extent - edge, edge), dim + 1)
    return torch.cat([first, last], dim)


def _device_last(text: str, tensor: torch.Tensor) -> str:
    suffix = f"device='{tensor.device}'"
    before, found, after = text.rpartition(suffix + ", ")
    return f"{before}{after[:-1]}, {suffix})" if found else text

