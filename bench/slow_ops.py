#!/usr/bin/env python3
"""Operators that take more than ten times the CPU's time at about a million elements: python bench/slow_ops.py

Each operator of PyTorch's own list (`op_db`) is called with one of its samples, made large by giving the sizes that
samples are built from other values. A time is the median of a few calls, after two that are not timed; the CPU and
the device take turns. A process of its own does it, and is ended when an operator takes too long. What no sample fits,
or what takes the CPU seconds, is left out and listed.
"""

from __future__ import annotations

import argparse
import json
import select
import statistics
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations as methods
from torch.utils._pytree import tree_leaves, tree_map
from torch_spyre.ops.fallbacks import set_fallback_mode

SIZES = {"S": 96, "M": 128, "L": 160}
"""What samples are built from: three dimensions of `S` are about a million elements."""
LEAST, MOST = 200_000, 5_000_000
"""Elements of a sample that is taken."""
MOST_SAMPLES, MOST_CPU, MOST_ALL = 5, 2, 40
"""Seconds that an operator's samples, a call on the CPU and all of it may take."""


class LeftOutError(Exception):
    """Why an operator is not in the table."""


def elements(values: Any) -> int:
    return sum(leaf.numel() for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor))


def repeated(values: tuple[Any, tuple, dict]) -> tuple[Any, tuple, dict] | None:
    """A sample whose tensors are of one shape, with longer rows."""
    tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
    shapes = {leaf.shape for leaf in tensors}
    if len(shapes) != 1 or tensors[0].dim() == 0 or tensors[0].numel() < 16:
        return None
    times = [1] * (tensors[0].dim() - 1) + [1_000_000 // tensors[0].numel()]
    return tree_map(lambda leaf: leaf.repeat(times) if isinstance(leaf, torch.Tensor) else leaf, values)


def large_sample(op: Any, dtype: torch.dtype) -> tuple[Any, tuple, dict]:
    """The first sample of about the right size, or one that is made longer."""
    longer, start = None, time.perf_counter()
    for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
        values = (sample.input, sample.args, sample.kwargs)
        if LEAST <= elements(values) <= MOST:
            return values
        longer = longer or repeated(values)
        if time.perf_counter() - start > MOST_SAMPLES:
            break
    if longer is not None:
        return longer
    raise LeftOutError("no large sample")


def timed(call: Callable[[], Any], finish: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    finish()
    return time.perf_counter() - start


def ratio_of(op: Any, dtype: torch.dtype, runs: int) -> tuple[float, float, int]:
    """Milliseconds on the CPU and on the device, and how many elements there were."""
    host = large_sample(op, dtype)
    there = tree_map(lambda leaf: leaf.to("spyre") if isinstance(leaf, torch.Tensor) else leaf, host)

    def on(values: tuple[Any, tuple, dict]) -> Callable[[], Any]:
        first, args, kwargs = values
        return lambda: op(first, *args, **kwargs)

    cpu, device = on(host), on(there)
    if max(timed(cpu, lambda: None) for _ in range(2)) > MOST_CPU:
        raise LeftOutError("slow on the CPU")
    for _ in range(2):
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
            answer = {"left out": type(error).__name__}
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
