"""Lines of the program that nodes come from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .graph_report import SourceLine

__all__ = ["line_of", "lines_of", "operator_name", "operators_of"]

_FRAME = re.compile(r'^ *File "(.+)", line (\d+), in (.+)\n(?: {4}(.*)$)?', re.MULTILINE)

_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")
"""Names of the functions that Dynamo makes of what is behind a graph break."""


def lines_of(origins: Iterable[Any]) -> list[SourceLine]:
    """The innermost line of the program for each node of a graph, each line once."""
    traces = (origin.meta.get("stack_trace") or "" for origin in origins)
    lines = (line_of(trace) for trace in traces)
    return sorted({line for line in lines if line is not None})


def line_of(trace: str) -> SourceLine | None:
    """The last frame of a stack, as PyTorch keeps it."""
    frames = _FRAME.findall(trace)
    if not frames:
        return None
    file, number, function, text = frames[-1]
    return SourceLine(file, int(number), _RESUMED.sub(r"\1", function), text.strip())


def operators_of(origins: Iterable[Any]) -> list[str]:
    """The operators of ATen that nodes were, before they were decomposed."""
    originals = [origin.meta.get("original_aten") for origin in origins]
    return sorted({operator_name(original) for original in originals if original is not None})


def operator_name(operator: Any) -> str:
    """The name of an operator, without its overload: ``aten::`` is left out."""
    packet = getattr(operator, "_overloadpacket", operator)
    name = getattr(packet, "_qualified_op_name", "") or getattr(packet, "_name", "") or str(packet)
    return name.removeprefix("aten::")
