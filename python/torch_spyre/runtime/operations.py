"""Operations: units of work for a stream."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .. import _C
from .._C import DeviceHandle, SpyreCompute
from ..kernels import note_written
from .steps import PreProcessCompute


class Operation:
    """Steps that come first, and a compute. One of them may be missing.

    - ``Operation(compute)``: a compute that needs nothing before it
    - ``Operation(compute, steps)``: steps, such as a program correction, and then a compute
    - ``Operation(steps)``: steps alone, such as the copies of a tensor or a binary

    :meth:`corrected` adds the correction that a compute was compiled with.
    """

    def __init__(
        self, compute: SpyreCompute | Sequence[PreProcessCompute], preprocessing: Sequence[PreProcessCompute] = ()
    ) -> None:
        if not isinstance(compute, SpyreCompute):
            if preprocessing:
                raise TypeError(f"expected a SpyreCompute before the steps, not a {type(compute).__name__}")
            if compute is None:
                raise TypeError("an Operation needs a SpyreCompute, or a list of steps")
            compute, preprocessing = None, compute
        for step in preprocessing:
            if not isinstance(step, PreProcessCompute):
                raise TypeError(f"expected steps that are PreProcessComputes, not a {type(step).__name__}")
        self._steps = list(preprocessing)
        self._raw = _C.RawOperation(compute, [step._raw for step in self._steps])

    @classmethod
    def corrected(cls, compute: SpyreCompute) -> Operation:
        """A compute with the program correction that it was compiled with."""
        return cls._of(_C.RawOperation.corrected(compute))

    @classmethod
    def _of(cls, raw: _C.RawOperation) -> Operation:
        operation = object.__new__(cls)
        operation._raw = raw
        operation._steps = [PreProcessCompute._of(step) for step in raw.steps()]
        return operation

    @property
    def name(self) -> str:
        """Name of the Operation."""
        return self._raw.name

    @property
    def compute(self) -> SpyreCompute | None:
        """Computes of the Operation; ``None`` if it has only steps."""
        return self._raw.compute()

    @property
    def preprocessing(self) -> list[PreProcessCompute]:
        """Steps that come before the compute."""
        return list(self._steps)

    @property
    def device_handles(self) -> list[DeviceHandle]:
        """Its binaries as the stream that loaded them launches them: correction, compute, code. Empty before that."""
        return self._raw.device_handles(-1, -1)

    def device_handles_on(self, stream: torch.Stream) -> list[DeviceHandle]:
        """Its binaries as another stream launches them."""
        return self._raw.device_handles(stream.device_index, stream.stream_id)

    def _note_written(self, tensors: Sequence[torch.Tensor]) -> None:
        if self.compute is not None:
            note_written(tensors, self.compute._written())
        targets = [step._target for step in self._steps if step._target is not None]
        note_written(targets, [True] * len(targets))

    def __repr__(self) -> str:
        parts = [type(step).__name__ for step in self._steps] + ["SpyreCompute"] * (self.compute is not None)
        return f"<Operation {self.name}: {', '.join(parts)}>"
