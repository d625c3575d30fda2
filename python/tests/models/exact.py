"""Results of a model in float64, as if nothing were rounded."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Exactly(TorchFunctionMode):
    """Computes in float64 throughout: models ask for float32 here and there, whatever their own dtype is."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        keywords = {key: _wider(value) for key, value in (kwargs or {}).items()}
        return function(*map(_wider, args), **keywords)


def _wider(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value
