"""The report of a compiled graph: what it calls, in order, and the buffers between the calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = [
    "BufferReport", "CallReport", "ExternReport", "GraphReport", "KernelReport", "OperandReport", "SourceLine",
    "bytes_text", "time_text",
]  # fmt: skip


class SourceLine(NamedTuple):
    """A line of the program."""

    file: str
    line: int
    function: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}, in {self.function}: {self.text}"


class OperandReport(NamedTuple):
    """An operand of a kernel."""

    name: str
    role: str
    """``in``, ``out`` or ``inout``."""
    dtype: str
    dims: tuple[str, ...]
    buffer: str
    """Buffer or argument of the graph that it is a view of; an empty text if it stands for the length of a dim."""

    def __str__(self) -> str:
        return f"{self.role} {self.name}: {self.dtype}[{', '.join(self.dims)}]{self.buffer and f' of {self.buffer}'}"


@dataclass
class CallReport:
    """A call of a graph: the launch of a kernel, or an operator that has no loops."""

    name: str
    lines: list[SourceLine] = field(default_factory=list)
    """Lines of the program that it comes from, in their order."""
    hints: dict[str, Any] = field(default_factory=dict)
    runs: int = 0
    """Number of times that it ran."""
    seconds: float = 0.0
    """Time of all runs on a real card, by the cost model: kernels, copies and launches."""
    kernel_seconds: float = 0.0
    """Time of kernels alone in it: the rest is assumed."""
    restickifies: int = 0
    """Copies into other sticks that its runs needed, under the profile ``card``."""

    def _text(self, title: str, *details: str) -> Iterator[str]:
        yield f"{title}{self._time()}"
        yield from (f"    {detail}" for detail in details if detail)
        if self.restickifies:
            yield f"    restickified before it: {self.restickifies}"
        if self.hints:
            yield f"    hints: {', '.join(f'{name}={hint}' for name, hint in self.hints.items())}"
        yield from (f"    at {line}" for line in self.lines)

    def _time(self) -> str:
        if not self.runs:
            return ": did not run"
        often = f", {self.runs} runs" if self.runs > 1 else ""
        return f": {time_text(self.seconds)} (kernels {time_text(self.kernel_seconds)}){often}"


@dataclass
class KernelReport(CallReport):
    """The launch of a kernel."""

    operators: list[str] = field(default_factory=list)
    """Operators of ATen that are fused in it."""
    loops: int = 1
    """Loops of Inductor's that are joined in it."""
    dims: dict[str, int | str] = field(default_factory=dict)
    """Its dims, and how long they are: a number, or an expression of the graph's sizes."""
    operands: list[OperandReport] = field(default_factory=list)
    not_stored: list[str] = field(default_factory=list)
    """Buffers that only it would read, and that are never stored."""
    text: str = ""
    """Text of the kernel: `torch.spyre.compile` takes it."""
    launch: str = ""
    """Name of the launch in the graph's module."""

    @property
    def is_fusion(self) -> bool:
        """True if several operators are fused in it, or several loops are joined."""
        return self.loops > 1 or len(self.operators) > 1

    def __str__(self) -> str:
        joined = f"; {self.loops} loops" if self.loops > 1 else ""
        spared = f"; never stored: {', '.join(self.not_stored)}" if self.not_stored else ""
        dims = ", ".join(f"{name}={size}" for name, size in self.dims.items())
        details = (f"{', '.join(self.operators)}{joined}{spared}", f"dims {dims}", *map(str, self.operands))
        return "\n".join(self._text(f"kernel {self.name}", *details))


@dataclass
class ExternReport(CallReport):
    """An operator that is called as it is."""

    operator: str = ""
    """Its name in full, such as ``aten::sort``; an empty text if it is none."""
    reason: str = ""
    """The reason for which it is no loop of a kernel."""

    def __str__(self) -> str:
        return "\n".join(self._text(f"extern {self.name}", f"no loop: {self.reason}"))

    def _time(self) -> str:
        return super()._time() if self.operator else ""  # only operators are timed


class BufferReport(NamedTuple):
    """A buffer that a graph makes."""

    name: str
    bytes: int
    """Bytes in device memory, of whole sticks. Of symbols, those of the sizes that the graph was compiled with."""
    layout: str
    made_by: int
    """Place of the call that makes it."""
    last_used_by: int
    """Place of the last call that uses it."""
    is_output: bool
    chosen: str
    """The layout that the program chose for it, such as ``stick_dims=[0]``; an empty text for the default one."""


@dataclass
class GraphReport:
    """A compiled graph."""

    name: str
    is_backward: bool = False
    calls: list[CallReport] = field(default_factory=list)
    """Kernels and calls of operators, in their order."""
    buffers: list[BufferReport] = field(default_factory=list)
    other_seconds: float = 0.0
    """Time on a real card of what its runs called besides: numbers that are read, and parts of other graphs."""

    @property
    def kernels(self) -> list[KernelReport]:
        """Launches of kernels."""
        return [call for call in self.calls if isinstance(call, KernelReport)]

    @property
    def extern_calls(self) -> list[ExternReport]:
        """Calls of operators that have no loops."""
        return [call for call in self.calls if isinstance(call, ExternReport)]

    @property
    def fusions(self) -> list[KernelReport]:
        """Kernels in which several operators or loops are joined."""
        return [kernel for kernel in self.kernels if kernel.is_fusion]

    @property
    def intermediates(self) -> list[BufferReport]:
        """Buffers that live between calls, and are no results."""
        return [buffer for buffer in self.buffers if not buffer.is_output]

    @property
    def intermediate_bytes(self) -> int:
        """Bytes of all intermediates."""
        return sum(buffer.bytes for buffer in self.intermediates)

    @property
    def peak_intermediate_bytes(self) -> int:
        """Bytes of the intermediates that live at one time, at most."""
        alive = [
            sum(buffer.bytes for buffer in self.intermediates if buffer.made_by <= place <= buffer.last_used_by)
            for place in range(len(self.calls))
        ]
        return max(alive, default=0)

    @property
    def restickifies(self) -> list[str]:
        """Copies into other sticks: those that the program asks for, and those that kernels needed under ``card``."""
        asked = [f"{buffer.name} is made with {buffer.chosen}" for buffer in self.buffers if buffer.chosen]
        needed = [f"{call.restickifies} before {call.name}" for call in self.calls if call.restickifies]
        return asked + needed

    @property
    def seconds(self) -> float:
        """Time of all runs on a real card, by the cost model."""
        return sum(call.seconds for call in self.calls) + self.other_seconds

    def __str__(self) -> str:
        return "\n".join(
            [
                f"graph {self.name}, {'backward' if self.is_backward else 'forward'}: {time_text(self.seconds)}",
                f"  kernels {len(self.kernels)}, of which fusions {len(self.fusions)}",
                f"  extern calls {len(self.extern_calls)}",
                f"  restickifies: {'; '.join(self.restickifies) or 'none'}",
                f"  intermediates {bytes_text(self.intermediate_bytes)}, "
                f"at one time {bytes_text(self.peak_intermediate_bytes)}",
                *(f"  {line}" for call in self.calls for line in str(call).splitlines()),
            ]
        )


def time_text(seconds: float) -> str:
    """A time, in the unit that suits it."""
    for unit, length in (("ms", 1e-3), ("us", 1e-6)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def bytes_text(count: int) -> str:
    """A number of bytes, in the unit that suits it."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
