"""Graphs that are run call by call, so that each call's time on a real card is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from .. import _C
from ..tracing import trace
from .graph_report import CallReport, GraphReport

__all__ = ["TimedGraph"]


class TimedGraph:
    """The code of a graph, whose calls are noted in its report while this is attached to it."""

    def __init__(self, report: GraphReport, code: Any) -> None:
        self._report = report
        self._code = code
        self._call = code.current_callable
        self._names: dict[str, Any] = getattr(self._call, "__func__", self._call).__globals__
        self._launches: dict[str, list[CallReport]] = defaultdict(list)
        for kernel in report.kernels:
            self._launches[kernel.launch].append(kernel)
        self._originals = {name: self._names[name] for name in self._launches}

    def attach(self) -> None:
        """Has each run of the graph note its calls. Its launches wait for each other."""
        for name, launch in self._originals.items():
            self._names[name] = _TimedLaunch(launch, self._launches[name])
        self._code.current_callable = self._run

    def detach(self) -> None:
        """Has the graph run as it was compiled."""
        self._names.update(self._originals)
        self._code.current_callable = self._call

    def _run(self, *args: Any) -> Any:
        for launch in self._originals:
            self._names[launch].begin()
        with _TimedOperators(self._report):
            return self._call(*args)


class _TimedLaunch:
    """A launch of a graph's module. The module may call it several times: once for each of these kernels."""

    def __init__(self, launch: Callable[..., Any], kernels: list[CallReport]) -> None:
        self._launch = launch
        self._kernels = kernels
        self._number = 0

    def begin(self) -> None:
        """A run of the graph begins."""
        self._number = 0

    def __call__(self, *args: Any) -> Any:
        kernel = self._kernels[self._number % len(self._kernels)]
        self._number += 1
        return _noted(kernel, lambda: self._launch(*args))


class _TimedOperators(TorchDispatchMode):
    """Notes operators as the calls of a graph that they are, in their order."""

    def __init__(self, report: GraphReport) -> None:
        super().__init__()
        self._report = report
        self._left = [call for call in report.extern_calls if call.operator]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        call = next((call for call in self._left if call.operator == name), None)
        if call is not None:
            self._left.remove(call)
            return _noted(call, lambda: func(*args, **(kwargs or {})))
        other = CallReport(name)
        made = _noted(other, lambda: func(*args, **(kwargs or {})))
        self._report.other_seconds += other.seconds
        return made


def _noted(call: CallReport, run: Callable[[], Any]) -> Any:
    """Runs something under a trace, and adds its times to those of a call."""
    before = _C.traffic()["restickifies"]
    with trace() as times:
        made = run()
    call.runs += 1
    call.seconds += times.modelled_seconds
    call.kernel_seconds += times.modelled_kernel_seconds
    call.restickifies += _C.traffic()["restickifies"] - before
    return made
