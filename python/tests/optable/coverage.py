"""Lists operators that have kernels and that no case reaches: python -m optable.coverage (from python/tests)."""

from __future__ import annotations

import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch_spyre import _C

from .case import Case, Make
from .catalogue import catalogue
from .judge import called

DTYPES = (torch.float32, torch.int32, torch.bool)
SPELLED = {
    "__ilshift__": "bitwise_left_shift",
    "__lshift__": "bitwise_left_shift",
    "__irshift__": "bitwise_right_shift",
    "__rshift__": "bitwise_right_shift",
    "_index_put_impl_": "index_put_",
    "convolution_overrideable": "convolution",
    "convolution_backward_overrideable": "convolution_backward",
    "_cummax_helper": "cummax",
    "_cummin_helper": "cummin",
    "_logcumsumexp": "logcumsumexp",
    "adaptive_avg_pool2d": "_adaptive_avg_pool2d",
    "adaptive_avg_pool3d": "_adaptive_avg_pool3d",
    "adaptive_avg_pool3d_backward": "_adaptive_avg_pool3d_backward",
    "spyre::cast": "_to_copy",
    "spyre::attention": "_scaled_dot_product_fused_attention_overrideable",
    "spyre::attention_backward": "_scaled_dot_product_fused_attention_overrideable_backward",
}
"""Operators that are reached by another name: a step inside it, or a spelling of Python's."""

NOT_IN_THE_TABLE = {
    "_amp_foreach_non_finite_check_and_unscale_",
    "_amp_update_scale_",
    "_thnn_fused_gru_cell",
    "_thnn_fused_gru_cell_backward",
    "_thnn_fused_lstm_cell",
    "_thnn_fused_lstm_cell_backward_impl",
}
"""Operators of gradient scaling, and of recurrent cells, which PyTorch does not differentiate for complex numbers:
`test_optimisers.py` and `test_recurrent.py` compare them."""


class Seen(TorchDispatchMode):
    """Takes note of the operators that are called, without their overloads."""

    def __init__(self):
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(function.name().removeprefix("aten::").partition(".")[0])
        return function(*args, **(kwargs or {}))


def unreached(device: torch.device) -> list[str]:
    """The operators that have kernels, less those that a case calls."""
    seen = Seen()
    with seen:
        for case in (case for cases in catalogue().values() for case in cases):
            call(case, device)
    named = {name.removeprefix("spyre::").strip("_") for name in seen.names}
    known = {name.partition(".")[0] for name in _C.native_ops()} - NOT_IN_THE_TABLE
    return sorted(name for name in known if SPELLED.get(name, name).removeprefix("spyre::").strip("_") not in named)


def call(case: Case, device: torch.device) -> None:
    """Calls a case in the first real dtype that it takes, and with complex numbers."""
    size = 65 if 65 in case.sizes else case.sizes[-1]
    any(takes(case, device, dtype, size) for dtype in DTYPES)
    takes(case, device, torch.complex64, size)


def takes(case: Case, device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Calls a case in a dtype; returns false if it is refused."""
    try:
        called(case, [value.to(device) for value in case.operands(Make(dtype, 1), size)])
    except Exception:  # noqa: BLE001 (the next dtype, then)
        return False
    return True


def main() -> int:
    missing = unreached(torch.device("spyre"))
    print("\n".join(missing) or "every one is reached")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
