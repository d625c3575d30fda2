"""Runs samples of one operator on the CPU, eagerly on the device and compiled for it, and compares them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch._dynamo
from opinfo import judge, native_judge
from torch._dynamo.utils import counters
from torch.utils._pytree import tree_map

__all__ = ["Verdict", "message_of", "verdicts"]

DTYPE = torch.float32
SEED = 7
Run = Callable[[Callable[..., Any], Any, Any], Any]


@dataclass
class Verdict:
    """The outcome of one sample."""

    way: str
    """Forward alone, or with gradients."""
    outcome: str
    """`refused` by the CPU, `eager fails`, or `compiles`; after it `passed`, `failed`, or `apart` for random numbers."""
    message: str = ""
    breaks: bool = False
    """True if its graph was broken, so that a part of it ran eagerly."""


def verdicts(op: Any, device: torch.device, forward: int, gradients: int) -> Iterator[dict[str, Any]]:
    """Judges at most so many samples of `op` forward, and so many with gradients."""
    has_gradients = op.supports_autograd and DTYPE in op.supported_backward_dtypes("cpu")
    ways = [("forward", judge.samples, forward, called)]
    ways += [("gradients", native_judge.gradient_samples, gradients, differentiated)] if has_gradients else []
    for way, samples, most, run in ways:
        torch.manual_seed(42)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for sample in spread(list(samples(op, DTYPE)), most):
                yield from map(asdict, judged(op, sample, device, way, run))


def spread(samples: list[Any], most: int) -> list[Any]:
    """Evenly spaced samples, at most so many: the first one, the last one, and some between."""
    count = min(most, len(samples))
    return [samples[at * (len(samples) - 1) // max(1, count - 1)] for at in range(count)]


def judged(op: Any, sample: Any, device: torch.device, way: str, run: Run) -> Iterator[Verdict]:
    """Judges a sample; says when it begins to compile, in case that it never ends."""
    try:
        trial = Trial(op, sample, device, run)
    except Exception:  # noqa: BLE001 (what the CPU refuses is not the device's to do)
        yield Verdict(way, "refused")
        return
    try:
        eager = trial.on_device(op.op)
        trial.compare(eager)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
        yield Verdict(way, "eager fails", message_of(error))
        return
    yield Verdict(way, "compiles")
    try:
        compiled = trial.compiled()
        breaks = bool(counters["graph_break"])
        trial.compare(compiled)
    except Exception as error:  # noqa: BLE001
        yield Verdict(way, "failed", message_of(error))
        return
    difference = trial.difference_of_drawn(eager, compiled)
    yield Verdict(way, "apart" if difference else "passed", difference, breaks)


class Trial:
    """A sample, its arguments on the CPU, and their result there."""

    def __init__(self, op: Any, sample: Any, device: torch.device, run: Run) -> None:
        self.op, self.sample, self.device, self.run = op, sample, device, run
        self.arguments = (sample.input, sample.args, sample.kwargs)
        self.is_random = judge.is_random(op.name, sample.kwargs)
        self.expected = self._on_cpu(judge.copied)

    def _on_cpu(self, cast: Callable[[Any], Any]) -> Any:
        there = tree_map(cast, tree_map(native_judge.detached, self.arguments))
        torch.manual_seed(SEED)
        return self.run(self.op, self.sample, native_judge.with_gradients(self.arguments, there))

    def on_device(self, function: Callable[..., Any]) -> Any:
        """The result of a call with arguments of the device, which are copied for it."""
        there = native_judge.moved(self.op, tree_map(native_judge.detached, self.arguments), self.device)
        there = native_judge.with_gradients(self.arguments, there)
        torch.manual_seed(SEED)
        with judge.default_device(self.arguments, self.device):
            return self.run(function, self.sample, there)

    def compiled(self) -> Any:
        torch._dynamo.reset()
        counters.clear()
        return self.on_device(torch.compile(program(self.op)))

    def compare(self, given: Any) -> None:
        """Compares a result with the CPU's, or with that of float64; random numbers by shape and dtype only."""
        kinds, expected = judge.dtypes_of(self.expected), self.expected
        assert judge.dtypes_of(given) == kinds, f"dtypes {judge.dtypes_of(given)} against {kinds}"
        if self.run is called and self.op.name in judge.WHICH_OF_EQUALS and len(kinds) == 2:
            given, expected = judge.places_checked(self.op, self.sample, self.sample.input, given), expected[0]
        exact = lambda: self._on_cpu(judge.wider)  # noqa: E731
        tolerance = judge.tolerance(self.op, DTYPE)
        judge.compare_twice(given, expected, exact, tolerance, self.device, False, self.is_random)

    def difference_of_drawn(self, eager: Any, compiled: Any) -> str:
        """The reason for which random numbers differ from those that eager draws after the same seed, or nothing."""
        if not self.is_random or self._agree(eager, compiled):
            return ""
        if self._agree(eager, self.on_device(self.op.op)):
            return "draws other numbers than eager"
        return "eager differs from itself: memory that nothing wrote"

    def _agree(self, one: Any, other: Any) -> bool:
        try:
            tolerance = judge.tolerance(self.op, DTYPE)
            judge.compare(one, tree_map(judge.copied, other), tolerance, self.device, False, False)
        except AssertionError:
            return False
        return True


def program(op: Any) -> Callable[..., Any]:
    """A function that calls the operator's."""
    function = op.op

    def run(*args: Any, **named: Any) -> Any:
        return function(*args, **named)

    return run


def called(function: Callable[..., Any], _sample: Any, arguments: Any) -> Any:
    """The results of a call."""
    return judge.call(function, arguments)


def differentiated(function: Callable[..., Any], sample: Any, arguments: Any) -> list[torch.Tensor]:
    """The results of a call, and the gradients of every input for random gradients of all results."""
    inputs = [leaf for leaf in native_judge.leaves(arguments) if leaf.requires_grad]
    results = native_judge.leaves(sample.output_process_fn_grad(judge.call(function, arguments)))
    ends = [result for result in results if result.requires_grad]
    if not inputs or not ends:
        return []
    generator = torch.Generator().manual_seed(SEED)
    weights = [torch.rand(end.shape, generator=generator).to(end.device, end.dtype) for end in ends]
    given = torch.autograd.grad(ends, inputs, weights, allow_unused=True)
    zeros = (torch.zeros_like(leaf) if gradient is None else gradient for leaf, gradient in zip(inputs, given))
    return [*(result.detach() for result in results), *zeros]


def message_of(error: BaseException) -> str:
    """An error in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' | '.join(lines[:4])[:300]}"
