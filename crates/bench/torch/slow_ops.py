#!/usr/bin/env python3
"""Operators that take more than ten times the CPU's time at about a million elements.

Run it with `python crates/bench/torch/slow_ops.py`.

Each operator of PyTorch's own list (`op_db`) is called with one of its samples, made large by giving the sizes that
samples are built from other values. A time is the median of a few calls, after three that are not timed; the CPU and
the device take turns. A process of its own does it, and is ended when an operator takes too long. What no sample fits,
or what takes the CPU seconds, is left out and listed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import statistics
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

# Threads of PyTorch that wait for work would take a core from the card's, for as long as a call takes.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch  # noqa: E402
from torch.testing._internal import common_methods_invocations as methods  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402
from torch_spyre.ops.fallbacks import set_fallback_mode  # noqa: E402

SIZES = {"S": 96, "M": 128, "L": 160}
"""Sizes that samples are built from: three dimensions of `S` are about a million elements."""
LEAST, MOST = 200_000, 5_000_000
"""Elements of a sample that is taken."""
ELEMENTS = 1_000_000
"""Elements that a sample is made longer to."""
MOST_SAMPLES, MOST_CPU, MOST_ALL = 5, 0.5, 40
"""Seconds that an operator's samples, a call on the CPU and all of it may take."""


class LeftOutError(Exception):
    """Reason why an operator is not in the table."""


Sample = tuple[Any, tuple, dict]
"""An operator's first argument, the others, and those with names."""


def tensors_of(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def elements(values: Any) -> int:
    return sum(leaf.numel() for leaf in tensors_of(values))


def repeated(values: Sample, dim: int, is_chosen: Callable[[torch.Tensor], bool]) -> Sample:
    """A sample whose chosen tensors are longer along one of their dimensions."""
    largest = max(leaf.numel() for leaf in tensors_of(values))

    def longer(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dim() == 0 or not is_chosen(leaf):
            return leaf
        times = [1] * leaf.dim()
        times[dim] = max(1, ELEMENTS // largest)
        return leaf.repeat(times)

    return tree_map(longer, values)


def enlarged(values: Sample) -> Iterator[Sample]:
    """A sample of about the right size, or several guesses at how it could be made longer."""
    if LEAST <= elements(values) <= MOST:
        yield values
        return
    tensors = [leaf for leaf in tensors_of(values) if leaf.dim() > 0 and leaf.numel() > 1]
    if not tensors:
        is_size = isinstance(values[0], (tuple, torch.Size)) and values[0]
        if is_size and all(isinstance(count, int) for count in values[0]):
            yield ((1000, 1000), *values[1:])
        return
    if elements(values) > MOST:
        return
    first, largest = tensors[0], max(tensors, key=torch.Tensor.numel)
    for dim in (-1, 0):
        yield repeated(values, dim, lambda leaf: leaf.shape == first.shape)
        yield repeated(values, dim, lambda leaf: leaf is first)
        yield repeated(values, dim, lambda leaf, dim=dim: leaf.shape[dim] == largest.shape[dim])


def large_sample(op: Any, dtype: torch.dtype) -> Sample:
    """The first sample of about the right size, made longer if need be, that the CPU takes."""
    start, reason = time.perf_counter(), "no large sample"
    for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
        for values in enlarged((sample.input, sample.args, sample.kwargs)):
            if time.perf_counter() - start > MOST_SAMPLES:
                raise LeftOutError(reason)
            try:
                seconds = timed(lambda values=values: op(values[0], *values[1], **values[2]), lambda: None)
            except Exception:  # noqa: BLE001  a guess that does not fit the operator
                continue
            if seconds < MOST_CPU and elements(values) + MOST * (not tensors_of(values)) >= LEAST:
                return values
            reason = "slow on the CPU"
    raise LeftOutError(reason)


def timed(call: Callable[[], Any], finish: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    finish()
    return time.perf_counter() - start


def moved(leaf: Any) -> Any:
    """An argument for the device."""
    if isinstance(leaf, torch.Tensor):
        return leaf.to("spyre")
    is_device = isinstance(leaf, torch.device) or leaf == "cpu" if isinstance(leaf, (str, torch.device)) else False
    return torch.device("spyre") if is_device else leaf


def ratio_of(op: Any, dtype: torch.dtype, runs: int) -> tuple[float, float, int]:
    """Milliseconds on the CPU and on the device, and how many elements there were."""
    try:
        host = large_sample(op, dtype)
    except RuntimeError as error:  # some kinds of tensors cannot be made longer
        raise LeftOutError("no large sample") from error
    there = tree_map(moved, host)

    def on(values: Sample) -> Callable[[], Any]:
        first, args, kwargs = values
        return lambda: op(first, *args, **kwargs)

    cpu, device = on(host), on(there)
    for _ in range(3):
        timed(cpu, lambda: None)
        timed(device, torch.spyre.synchronize)
    pairs = [(timed(cpu, lambda: None), timed(device, torch.spyre.synchronize)) for _ in range(runs)]
    slow = [statistics.median(side) * 1e3 for side in zip(*pairs, strict=True)]
    return slow[0], slow[1], elements(host)


def work(runs: int) -> None:
    """Reads numbers of operators, and answers each with a line: its times, or why it is left out."""
    warnings.simplefilter("ignore")
    set_fallback_mode("silent")
    for name, value in SIZES.items():
        setattr(methods, name, value)
    for line in sys.stdin:
        op = methods.op_db[int(line)]
        dtype = torch.float32 if op.supports_dtype(torch.float32, "cpu") else torch.int64
        torch.spyre.reset_fallback_stats()
        try:
            cpu, device, count = ratio_of(op, dtype, runs)
            where = "CPU" if torch.spyre.fallback_stats() else "device"
            answer = {"cpu": cpu, "device": device, "count": count, "where": where}
        except LeftOutError as reason:
            answer = {"left out": str(reason)}
        except Exception as error:  # noqa: BLE001  an operator that refuses its sample is no end of the list
            answer = {"left out": f"the device refuses it ({type(error).__name__})"}
        print(json.dumps(answer), flush=True)


class Worker:
    """A process that times operators, and is started anew after one that took too long."""

    def __init__(self, runs: int) -> None:
        self.command = [sys.executable, __file__, "--work", "--runs", str(runs)]
        self.child: subprocess.Popen | None = None

    def ask(self, number: int) -> dict[str, Any]:
        if self.child is None:
            pipe = subprocess.PIPE
            self.child = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        is_answered, answer = True, ""
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.write(f"{number}\n")
            self.child.stdin.flush()
            is_answered = select.select([self.child.stdout], [], [], MOST_ALL)[0]
            answer = self.child.stdout.readline() if is_answered else ""
        if not answer:
            self.child.kill()
            self.child.wait()
            self.child = None
            return {"left out": "the process ended" if is_answered else f"over {MOST_ALL} s"}
        return json.loads(answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of names of operators; all without")
    parser.add_argument("--ratio", type=float, default=10, help="what is slow")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--part", default="1/1", help="2/4 is the second quarter of all")
    parser.add_argument("--work", action="store_true", help="time what standard input asks for")
    given = parser.parse_args()
    if given.work:
        return work(given.runs)
    part, parts = (int(number) for number in given.part.split("/"))
    worker = Worker(given.runs)
    left_out: dict[str, list[str]] = defaultdict(list)
    rows = []
    for number, op in list(enumerate(methods.op_db))[part - 1 :: parts]:
        if given.names and not any(name in op.name for name in given.names):
            continue
        name = f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}"
        answer = worker.ask(number)
        if "left out" in answer:
            left_out[answer["left out"]].append(name)
            continue
        cpu, device = answer["cpu"], answer["device"]
        rows.append((device / max(cpu, 1e-6), name, cpu, device, answer["count"], answer["where"]))
        if rows[-1][0] > given.ratio:
            print(f"  {name}: {rows[-1][0]:.0f}x", flush=True)
    slow = sorted((row for row in rows if row[0] > given.ratio), reverse=True)
    print(f"\n{len(rows)} operators, {len(slow)} of them over {given.ratio:g}x. Left out:")
    for reason, names in left_out.items():
        print(f"- {reason}, {len(names)}: {', '.join(names)}")
    print("\n| operator | elements | CPU, ms | spyre, ms | ratio | done on |\n|---|---|---|---|---|---|")
    for ratio, name, cpu, device, count, where in slow:
        print(f"| {name} | {count:,} | {cpu:.2f} | {device:.2f} | {ratio:.0f} | {where} |")
    return None


if __name__ == "__main__":
    main()
