"""Plans: what a compiler wrote, as an ordered list of Operations."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch

from .. import _C
from ..kernels import JobPlan, Kernel
from .operations import Operation


class TensorMetadata(NamedTuple):
    """Expected properties of a plan's tensor."""

    name: str
    dtype: torch.dtype
    dims: tuple[str, ...]
    """The names of its dims; tensors that share a name agree in size."""
    shape: tuple[int | None, ...]
    """The tile along each dim, or ``None`` for any size."""
    is_written: bool


class InitPacket(NamedTuple):
    """Bytes that are written when a stream's part of a plan is made."""

    offset: int
    size: int


class ExecutionPlan:
    """An ordered list of Operations, with what a compiler says about them. It does nothing itself.

    - ``ExecutionPlan()``: an empty plan, to add Operations to
    - ``ExecutionPlan(compiler_output)``: what a compiler wrote: a folder, a kernel that :func:`torch.spyre.compile`
      made, or a prepared ``JobPlan``

    Loading copies each binary to device memory; then its Operations have handles. It can be launched on any stream
    of that device, by several threads.
    """

    def __init__(self, compiler_output: str | os.PathLike[str] | Kernel | JobPlan | None = None) -> None:
        if compiler_output is None:
            self._raw = _C.RawPlan()
        elif isinstance(compiler_output, Kernel):
            self._raw = _C.RawPlan.of_kernel(compiler_output._compiled)
        elif isinstance(compiler_output, (str, os.PathLike, JobPlan)):
            folder = compiler_output.folder if isinstance(compiler_output, JobPlan) else compiler_output
            self._raw = _C.RawPlan.of_folder(os.fspath(folder))
        else:
            given = type(compiler_output).__name__
            raise TypeError(f"a plan is made from a folder, a kernel or a JobPlan, not from a {given}")

    def add_operation(self, operation: Operation) -> None:
        """Adds an Operation at the end."""
        self._raw.add_operation(operation._raw)

    @property
    def operations(self) -> list[Operation]:
        """Operations that are launched, in order."""
        return [Operation._of(raw) for raw in self._raw.operations()]

    @property
    def tensor_input_metadata(self) -> list[TensorMetadata]:
        """The tensors that a launch is given."""
        return [
            TensorMetadata(
                name,
                getattr(torch, dtype),
                tuple(name for name, _ in dims),
                tuple(size for _, size in dims),
                is_written,
            )
            for name, dtype, dims, is_written in self._raw.tensors()
        ]

    @property
    def correction_metadata(self) -> list[int]:
        """Bytes that the program correction of each compute is given at a launch."""
        return self._raw.correction_bytes()

    @property
    def init_packets(self) -> list[InitPacket]:
        """Packets that are written when a stream's part of the plan is made."""
        return [InitPacket(*packet) for packet in self._raw.init_packets()]

    @property
    def scalars(self) -> int:
        """Number of scalars of a launch."""
        return self._raw.scalars

    def load(self, stream: torch.Stream | None = None) -> None:
        """Copies each binary to the device of ``stream``, or of the current one. What is there is not copied again."""
        stream = torch.spyre.current_stream() if stream is None else stream
        self._raw.load(stream.device_index, stream.stream_id)

    @property
    def is_loaded(self) -> bool:
        """True if all of it is on a device, and no reset took it away."""
        return self._raw.is_loaded

    def __repr__(self) -> str:
        names = ", ".join(operation.name for operation in self.operations)
        return f"<ExecutionPlan [{names}]{' loaded' if self.operations and self.is_loaded else ''}>"
