"""Files beside those that Inductor writes under ``TORCH_COMPILE_DEBUG=1``.

- ``spyre_buffers.txt``: the buffers of a graph, their layouts, and the calls between which they live;
- ``spyre_plans.txt``: the plan of each kernel: tensors, Operations and their steps;
- ``NAME.ir``: each kernel, as the command line takes it (`spyre inspect NAME.ir --disassemble` shows its programs).
"""

from __future__ import annotations

from collections.abc import Iterator

from torch._inductor.virtualized import V

from .. import _C
from .._inductor import config
from .graph_report import GraphReport, bytes_text

__all__ = ["write"]


def write(report: GraphReport) -> None:
    """Writes the files of a graph that was compiled, into Inductor's folder for it."""
    kernels = {kernel.name: kernel.text for kernel in report.kernels}
    for name, text in kernels.items():
        _write(f"{name}.ir", text)
    _write("spyre_plans.txt", "\n".join(line for text in kernels.values() for line in plan_lines(text)) + "\n")
    _write("spyre_buffers.txt", "\n".join(buffer_lines(report)) + "\n")


def _write(name: str, text: str) -> None:
    with V.debug.fopen(name, "w") as file:
        file.write(text)


def plan_lines(text: str) -> Iterator[str]:
    """The plan of a kernel."""
    compiled = _C._compile_kernel(text, config.max_tile)
    plan = _C.RawPlan.of_kernel(compiled)
    yield f"plan of {compiled.name}"
    for name, dtype, dims, is_written in plan.tensors():
        tiles = " x ".join(f"{dim}={'any' if tile is None else tile}" for dim, tile in dims)
        yield f"  {'output' if is_written else 'input'} {name}: {dtype} {tiles}"
    for operation, count in zip(plan.operations(), plan.correction_bytes()):
        steps = (f"{step.kind}{'' if step.size is None else f' of {step.size} bytes'}" for step in operation.steps())
        yield f"  Operation {operation.name}: {', '.join(steps) or 'no steps'}; correction of {count} bytes"
    for offset, size in plan.init_packets():
        yield f"  init packet at {offset}: {size} bytes"
    yield f"  scalars: {plan.scalars}"


def buffer_lines(report: GraphReport) -> Iterator[str]:
    """Calls in their order, each with the buffers that it makes and those that nothing uses after it."""
    total, peak = bytes_text(report.intermediate_bytes), bytes_text(report.peak_intermediate_bytes)
    yield f"graph {report.name}: intermediates {total}, at one time {peak}"
    for place, call in enumerate(report.calls):
        yield f"{place} {call.name}"
        for buffer in report.buffers:
            if buffer.made_by == place:
                role = "result" if buffer.is_output else f"until {buffer.last_used_by}"
                yield f"    makes {buffer.name}, {role}: {bytes_text(buffer.bytes)}, {buffer.layout}"
        freed = [each.name for each in report.intermediates if each.last_used_by == place]
        if freed:
            yield f"    last use of {', '.join(freed)}"
