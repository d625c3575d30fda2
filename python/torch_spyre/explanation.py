"""`torch_spyre.explain`: what becomes of a model when it is compiled for the device.

    print(torch_spyre.explain(model, x))
"""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from .graph_reports.graph_report import GraphReport, SourceLine, time_text

__all__ = ["Explanation", "GraphBreak", "explain"]


@dataclass(frozen=True)
class GraphBreak:
    """A place where Dynamo could not go on with a graph."""

    reason: str
    """Dynamo's own words, with hints."""
    lines: list[SourceLine]
    """Frames of the program there, the innermost last."""
    is_skipped: bool = False
    """True if Python runs the whole function, whose first line this is: only functions that it calls are compiled."""

    def __str__(self) -> str:
        where = f"\n    at {self.lines[-1]}" if self.lines else ""
        skipped = ", and Python runs the function" if self.is_skipped else ""
        return f"graph break: {self.reason.partition(chr(10))[0]}{skipped}{where}"


@dataclass
class Explanation:
    """Graphs of a model, and the breaks between them. Its text has all of it."""

    graphs: list[GraphReport] = field(default_factory=list)
    """Graphs on the device, in the order in which they were compiled."""
    breaks: list[GraphBreak] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Time of one run on a real card, by the cost model."""
        return sum(graph.seconds for graph in self.graphs)

    @property
    def kernel_seconds(self) -> float:
        """Time of kernels in it: the rest are copies and launches, whose times are assumed."""
        return sum(call.kernel_seconds for graph in self.graphs for call in graph.calls)

    def __str__(self) -> str:
        counts = {
            "graphs": len(self.graphs),
            "kernels": sum(len(graph.kernels) for graph in self.graphs),
            "extern calls": sum(len(graph.extern_calls) for graph in self.graphs),
            "graph breaks": len(self.breaks),
        }
        head = ", ".join(f"{name} {count}" for name, count in counts.items())
        times = f"{time_text(self.seconds)}, kernels {time_text(self.kernel_seconds)}; copies and launches are assumed"
        return "\n".join([head, f"on a real card: {times}", *map(str, [*self.breaks, *self.graphs])])


def explain(model: Callable[..., Any], *inputs: Any, **named: Any) -> Explanation:
    """Compiles a model anew, runs it once, and says what became of it.

    As `torch._dynamo.explain` does, it makes Dynamo forget all that was compiled before, and after it. Caches are off.
    """
    import torch._dynamo
    from torch._dynamo.backends.registry import lookup_backend
    from torch._dynamo.utils import counters
    from torch._inductor import config

    from .graph_reports.recorder import listen
    from .graph_reports.timing import TimedGraph

    explanation = Explanation()
    compile_graph = lookup_backend("inductor")

    def backend(graph: torch.fx.GraphModule, example_inputs: Any) -> Any:
        explanation.breaks += _breaks_of(graph)
        return compile_graph(graph, example_inputs)

    with ExitStack() as stack:
        stack.callback(torch._dynamo.reset)

        def keep(report: GraphReport, code: Any) -> None:
            report.name = str(len(explanation.graphs))
            explanation.graphs.append(report)
            timed = TimedGraph(report, code)
            timed.attach()
            stack.callback(timed.detach)

        torch._dynamo.reset()
        before = Counter(counters["unimplemented"])
        stack.enter_context(config.patch(force_disable_caches=True))
        stack.enter_context(listen(keep))
        torch.compile(model, backend=backend)(*inputs, **named)
        explanation.breaks += _skipped_functions(Counter(counters["unimplemented"]) - before)
    return explanation


def _breaks_of(graph: torch.fx.GraphModule) -> list[GraphBreak]:
    """The break at which a graph ends, if it does not end with the program."""
    reason = getattr(graph, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return []
    frames = [SourceLine(each.filename, each.lineno, each.name, each.line or "") for each in reason.user_stack]
    return [GraphBreak(reason.reason, frames)]


def _skipped_functions(reasons: Mapping[str, int]) -> list[GraphBreak]:
    """The breaks for which Dynamo gave functions up: they are in its counts of reasons only."""
    breaks = []
    for reason in reasons:
        for function, file, line in re.findall(r"frame skipped: (\S+) \((.+) line (\d+)\)", reason):
            text = linecache.getline(file, int(line)).strip()
            breaks.append(GraphBreak(reason, [SourceLine(file, int(line), function, text)], is_skipped=True))
    return breaks
