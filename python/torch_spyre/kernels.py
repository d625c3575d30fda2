"""Kernels that were compiled before: prepared from a folder, and launched on tensors.

>>> launch_kernel("plans/matmul", [a, b, c])

A folder holds a plan that a compiler saved, or a SpyreCode directory. Launches are queued on the current
stream and return at once. What goes wrong later is raised by the next call that waits, with the name of the
kernel and the line that launched it; with ``SPYRE_LAUNCH_BLOCKING=1`` each launch waits, and raises itself.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Sequence

import torch

from . import _C
from ._C import JobPlan

__all__ = ["JobPlan", "launch_jobplan", "launch_kernel", "prepare_kernel"]

_launch = torch.ops.spyre._launch


def prepare_kernel(code_dir: str | os.PathLike[str], stream: torch.Stream | None = None) -> JobPlan:
    """Reads a kernel from a folder and copies its programs to the device of ``stream``, or to the current one."""
    device, number = (-1, -1) if stream is None else (stream.device_index, stream.stream_id)
    return _C._prepare_kernel(os.fspath(code_dir), device, number)


def launch_kernel(
    code_dir: str | os.PathLike[str], args: Sequence[torch.Tensor], scalars: Sequence[int | float] = ()
) -> None:
    """Launches the kernel in a folder on tensors. It is prepared when it is first launched on a device."""
    caller = sys._getframe(1)
    folder = os.fspath(code_dir)
    _launch(folder, 0, args, _words(scalars), caller.f_code.co_filename, caller.f_lineno)


def launch_jobplan(
    plan: JobPlan, args: Sequence[torch.Tensor], scalars: Sequence[int | float] = ()
) -> None:
    """Launches a kernel that was prepared."""
    caller = sys._getframe(1)
    _launch("", plan._number, args, _words(scalars), caller.f_code.co_filename, caller.f_lineno)


def install() -> None:
    """Puts the functions where users of the extension look for them."""
    for name in __all__:
        setattr(_C, name, globals()[name])


def _words(scalars: Sequence[int | float]) -> list[int]:
    """Scalars as programs are given them: integers as they are, floats as the bits of a double."""
    return [_bits(scalar) if isinstance(scalar, float) else int(scalar) for scalar in scalars]


def _bits(scalar: float) -> int:
    return struct.unpack("<q", struct.pack("<d", scalar))[0]
