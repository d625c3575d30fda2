"""Kernels: compiled from their text, or saved to a folder before; and launched on tensors.

>>> double = torch.spyre.compile(text)
>>> y = double(x)
>>> launch_kernel("plans/matmul", [a, b, c])

A folder holds a plan that a compiler saved, or a SpyreCode directory. Launches are queued on the current
stream and return at once. What goes wrong later is raised by the next call that waits, with the name of the
kernel and the line that launched it; with ``SPYRE_LAUNCH_BLOCKING=1`` each launch waits, and raises itself.
"""

from __future__ import annotations

import functools
import operator
import os
import struct
import sys
from collections.abc import Sequence

import torch

from . import _C
from ._C import JobPlan

__all__ = ["JobPlan", "Kernel", "compile", "launch_jobplan", "launch_kernel", "prepare_kernel"]

_launch = torch.ops.spyre._launch


@functools.lru_cache(maxsize=1024)
def compile(text: str) -> Kernel:  # noqa: A001  as torch.compile
    """Compiles a kernel from its text; docs/kernels.md is the guide to it.

    What is no kernel is a :class:`ValueError`, with the line and the column. The same text gives the same
    kernel, and its plan is kept in memory and on disk as those of PyTorch's operators are.
    """
    return Kernel(_C._compile_kernel(text))


class Kernel:
    """A kernel that :func:`compile` made: a function of tensors on the device.

    Tensors are given in the order of the kernel's operands or by their names, scalars by their names. Outputs
    that are not given are made, and returned: one as it is, several as a tuple.
    """

    def __init__(self, compiled: _C.CompiledKernel) -> None:
        self._compiled = compiled
        self._operands = compiled.operands()
        self._scalars = compiled.scalars()
        self._names = [name for name, *_ in self._operands]
        self.__name__ = compiled.name

    @property
    def text(self) -> str:
        """The kernel's text, as the compiler spells it."""
        return self._compiled.text

    def __call__(
        self, *tensors: torch.Tensor, **named: torch.Tensor | int | float
    ) -> torch.Tensor | tuple[torch.Tensor, ...] | None:
        """Launches it on the current stream of the tensors' device."""
        caller = sys._getframe(1)
        scalars = [self._scalar(name, kind, named) for name, kind in self._scalars]
        given = self._given(tensors, named)
        made = self._make_outputs(given)
        args = [given[name] for name in self._names]
        device = next((tensor.device for tensor in args if tensor.device.type == "spyre"), None)
        index = torch.spyre.current_device() if device is None else device.index
        number = self._compiled._number(index)
        _launch("", number, args, scalars, caller.f_code.co_filename, caller.f_lineno)
        return made[0] if len(made) == 1 else tuple(made) or None

    def __repr__(self) -> str:
        return f"<Kernel {self.signature}>"

    @property
    def signature(self) -> str:
        """The name, and what a launch is given."""
        operands = [f"{role} {name}: {dtype}[{', '.join(dims)}]" for name, dtype, dims, role in self._operands]
        return f"{self.__name__}({', '.join(operands + [f'{kind} {name}' for name, kind in self._scalars])})"

    def _given(self, tensors: Sequence[torch.Tensor], named: dict) -> dict[str, torch.Tensor]:
        if len(tensors) > len(self._names):
            raise TypeError(f"{self.signature} takes {len(self._names)} tensors, and {len(tensors)} were given")
        given = dict(zip(self._names, tensors))
        for name, tensor in named.items():
            if name not in self._names:
                raise TypeError(f"{self.signature} has no operand or scalar {name!r}")
            if name in given:
                raise TypeError(f"{self.signature} was given {name!r} twice")
            given[name] = tensor
        for name, tensor in given.items():
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(f"{self.signature}: {name!r} is a {type(tensor).__name__}, not a tensor")
        missing = [name for name, _, _, role in self._operands if role != "out" and name not in given]
        if missing:
            raise TypeError(f"{self.signature} was not given {', '.join(map(repr, missing))}")
        return given

    def _make_outputs(self, given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """Outputs that were not given; their sizes are those of the dims in what was."""
        missing = [operand for operand in self._operands if operand[0] not in given]
        if not missing:
            return []
        sizes = {
            dim: size
            for name, _, dims, _ in self._operands
            if name in given
            for dim, size in zip(dims, given[name].shape)
        }
        device = next((tensor.device for tensor in given.values()), torch.device("spyre"))
        made = []
        for name, dtype, dims, _ in missing:
            unknown = [dim for dim in dims if dim not in sizes]
            if unknown:
                raise TypeError(f"{self.signature}: no tensor says how long {unknown[0]!r} is, so give {name!r} too")
            given[name] = torch.empty([sizes[dim] for dim in dims], dtype=getattr(torch, dtype), device=device)
            made.append(given[name])
        return made

    def _scalar(self, name: str, kind: str, named: dict) -> int:
        """Takes a scalar out of what was given by name: as programs are given it."""
        if name not in named:
            raise TypeError(f"{self.signature} was not given {name!r}")
        value = named.pop(name)
        try:
            return _bits(float(value)) if kind == "float" else _whole(value, kind)
        except (TypeError, ValueError):
            raise TypeError(f"{self.signature}: {name!r} is {value!r}, which is no {kind}") from None


def _whole(value: int, kind: str) -> int:
    whole = operator.index(value)
    return int(bool(whole)) if kind == "bool" else whole


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
    """Puts the names where users of the extension look for them."""
    for name in __all__:
        setattr(_C, name, globals()[name])


def _words(scalars: Sequence[int | float]) -> list[int]:
    """Scalars as programs are given them: integers as they are, floats as the bits of a double."""
    return [_bits(scalar) if isinstance(scalar, float) else int(scalar) for scalar in scalars]


def _bits(scalar: float) -> int:
    return struct.unpack("<q", struct.pack("<d", scalar))[0]
