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
from typing import TYPE_CHECKING, Any, overload

import torch

from . import _C, kernel_gradients
from ._C import JobPlan

if TYPE_CHECKING:
    from .runtime.plans import ExecutionPlan

__all__ = ["JobPlan", "Kernel", "compile", "launch_jobplan", "launch_kernel", "prepare_kernel"]

_launch = torch.ops.spyre._launch
_OWN_FUNCTION = "launch it in a torch.autograd.Function"


@functools.lru_cache(maxsize=1024)
def compile(  # noqa: A001  as torch.compile
    text: str, *, backward: kernel_gradients.Backward | None = None, max_tile: int | None = None
) -> Kernel:
    """Compiles a kernel from its text; docs/kernels.md is the guide to it.

    What is no kernel is a :class:`ValueError`, with the line and the column. The same text gives the same
    kernel, and its plan is kept in memory and on disk as those of PyTorch's operators are.

    A kernel whose inputs may require grad needs ``backward``, a kernel or a function that computes their gradients.

    With ``max_tile``, its program is made for so many elements of each dim, and larger tensors are launched tile by
    tile. Without, ``SPYRE_MAX_TILE`` counts; the ``card`` profile has a card's limits.
    """
    return Kernel(_C._compile_kernel(text, max_tile), backward)


class Kernel:
    """A kernel that :func:`compile` made: a function of tensors on the device.

    Tensors are given in the order of the kernel's operands or by their names, scalars by their names. Outputs
    that are not given are made, and returned: one as it is, several as a tuple.
    """

    def __init__(self, compiled: _C.CompiledKernel, backward: kernel_gradients.Backward | None = None) -> None:
        self._compiled = compiled
        self._operands = compiled.operands()
        self._scalars = compiled.scalars()
        self._names = [name for name, *_ in self._operands]
        self.__name__ = compiled.name
        self.backward = backward
        self.backward_names = None if backward is None else kernel_gradients.asked_for(self, backward)

    @property
    def text(self) -> str:
        """The kernel's text, as the compiler spells it."""
        return self._compiled.text

    @property
    def operand_names(self) -> list[str]:
        """The names of its tensors, in the order that a launch takes."""
        return list(self._names)

    @property
    def input_names(self) -> list[str]:
        """The names of the tensors that it reads."""
        return [name for name, _, _, role in self._operands if role != "out"]

    @property
    def output_names(self) -> list[str]:
        """The names of the tensors that it writes and does not read."""
        return [name for name, _, _, role in self._operands if role == "out"]

    @property
    def scalar_names(self) -> list[str]:
        """The names of its scalars."""
        return [name for name, _ in self._scalars]

    def __call__(
        self, *tensors: torch.Tensor, **named: torch.Tensor | int | float
    ) -> torch.Tensor | tuple[torch.Tensor, ...] | None:
        """Launches it on the current stream of the tensors' device."""
        caller = sys._getframe(1)
        site = (caller.f_code.co_filename, caller.f_lineno)
        scalars = {name: self._taken(name, named) for name in self.scalar_names}
        given = self._given(tensors, named)
        if kernel_gradients.records(list(given.values())):
            self._check_differentiable(given)
            return kernel_gradients.apply(self, given, scalars, site)
        made = self._launch_on(given, scalars, site)
        return made[0] if len(made) == 1 else tuple(made) or None

    def _launch_on(
        self, given: dict[str, torch.Tensor], scalars: dict[str, int | float], site: tuple[str, int]
    ) -> list[torch.Tensor]:
        """Launches it, and gives the outputs that were not given."""
        words = [self._scalar(name, kind, scalars[name]) for name, kind in self._scalars]
        given = dict(given)
        made = self._make_outputs(given)
        args = [given[name] for name in self._names]
        device = next((tensor.device for tensor in args if tensor.device.type == "spyre"), None)
        index = torch.spyre.current_device() if device is None else device.index
        number = self._compiled._number(index)
        _launch("", number, args, words, *site)
        return made

    def _check_differentiable(self, given: dict[str, torch.Tensor]) -> None:
        """Refuses a launch whose gradients would be lost."""
        name = next(name for name, tensor in given.items() if tensor.requires_grad)
        if self.backward is None:
            raise RuntimeError(
                f"{self.signature}: {name!r} requires grad, and the kernel has no gradient: compile it with backward=, "
                f"launch it on {name}.detach(), or under torch.no_grad()"
            )
        written = next((other for other, _, _, role in self._operands if role != "in" and other in given), None)
        if written is not None:
            raise RuntimeError(
                f"{self.signature}: {name!r} requires grad, and {written!r} would be written in place: "
                f"leave outputs to be made, launch it on {name}.detach(), or under torch.no_grad()"
            )

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

    def _taken(self, name: str, named: dict) -> int | float:
        """Takes a scalar out of what was given by name."""
        if name not in named:
            raise TypeError(f"{self.signature} was not given {name!r}")
        return named.pop(name)

    def _scalar(self, name: str, kind: str, value: int | float) -> int:
        """A scalar as programs are given it."""
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


@overload
def launch_kernel(
    code_dir: str | os.PathLike[str], args: Sequence[torch.Tensor], scalars: Sequence[int | float] = ()
) -> None: ...
@overload
def launch_kernel(
    stream: torch.Stream, plan: ExecutionPlan, tensors: Sequence[torch.Tensor], scalars: Sequence[int | float] = ()
) -> None: ...
def launch_kernel(*args: Any, **named: Any) -> None:
    """Launches a kernel on tensors.

    - ``launch_kernel(code_dir, args, scalars=())``: the kernel in a folder, on the current stream. It is prepared when
      it is first launched on a device.
    - ``launch_kernel(stream, plan, tensors, scalars=())``: an ``ExecutionPlan``, on a stream. It is loaded when it is
      first launched. Tensors of the sizes that it was compiled for take one launch; larger ones are tiled.
    """
    if "stream" in named or (args and isinstance(args[0], torch.Stream)):
        return _launch_plan(*args, **named)
    return _launch_folder(*args, **named)


def _launch_folder(
    code_dir: str | os.PathLike[str], args: Sequence[torch.Tensor], scalars: Sequence[int | float] = ()
) -> None:
    caller = sys._getframe(2)
    folder = os.fspath(code_dir)
    kernel_gradients.refuse(f"launch_kernel({folder!r})", args, _OWN_FUNCTION)
    _launch(folder, 0, args, scalar_words(scalars), caller.f_code.co_filename, caller.f_lineno)


def _launch_plan(
    stream: torch.Stream, plan: ExecutionPlan, tensors: Sequence[torch.Tensor], scalars: Sequence[int | float] = ()
) -> None:
    from .runtime.plans import ExecutionPlan
    from .runtime.tensors import spyre_tensors

    if not isinstance(plan, ExecutionPlan):
        raise TypeError(f"expected an ExecutionPlan to launch on a stream, not a {type(plan).__name__}")
    site = call_site(stream, depth=3)
    given = spyre_tensors(tensors)
    kernel_gradients.refuse("launch_kernel", tensors, _OWN_FUNCTION)
    _C._launch_plan(plan._raw, given, scalar_words(scalars), site)
    note_written(tensors, [expected.is_written for expected in plan.tensor_input_metadata])


def note_written(tensors: Sequence[torch.Tensor], is_written: Sequence[bool]) -> None:
    """Tells autograd which tensors have other elements now."""
    for tensor, is_other in zip(tensors, is_written):
        if is_other and not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)


def call_site(stream: torch.Stream, depth: int) -> tuple[int, int, str, int]:
    """A stream, and the line of Python that uses it, so many calls up."""
    from .streams import Stream

    caller = sys._getframe(depth)
    stream = Stream.of(stream)
    return stream.device_index, stream.stream_id, caller.f_code.co_filename, caller.f_lineno


def launch_jobplan(
    plan: JobPlan, args: Sequence[torch.Tensor], scalars: Sequence[int | float] = ()
) -> None:
    """Launches a kernel that was prepared."""
    caller = sys._getframe(1)
    kernel_gradients.refuse("launch_jobplan", args, _OWN_FUNCTION)
    _launch("", plan._number, args, scalar_words(scalars), caller.f_code.co_filename, caller.f_lineno)


def install() -> None:
    """Puts the names where users of the extension look for them."""
    for name in __all__:
        setattr(_C, name, globals()[name])


def scalar_words(scalars: Sequence[int | float]) -> list[int]:
    """Scalars as programs are given them: integers as they are, floats as the bits of a double."""
    return [_bits(scalar) if isinstance(scalar, float) else int(scalar) for scalar in scalars]


def _bits(scalar: float) -> int:
    return struct.unpack("<q", struct.pack("<d", scalar))[0]
