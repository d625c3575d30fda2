#!/usr/bin/env python3
"""Operators that take more than ten times the CPU's time at about a million elements: python bench/slow_ops.py

Each operator of PyTorch's own list (`op_db`) is called with one of its samples, made large by giving the sizes that
samples are built from other values. A time is the median of a few calls in this process, after two that are not
timed; the CPU and the device take turns. What no sample fits, or what takes the CPU seconds, is left out and counted.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations as methods
from torch.utils._pytree import tree_leaves, tree_map
from torch_spyre.ops.fallbacks import set_fallback_mode

SIZES = {"S": 96, "M": 128, "L": 160}
"""What samples are built from: three dimensions of `S` are about a million elements."""
LEAST, MOST = 200_000, 5_000_000
"""Elements of a sample that is taken."""


class LeftOutError(Exception):
    """Why an operator is not in the table."""


@contextlib.contextmanager
def at_most(seconds: float, reason: str) -> Iterator[None]:
    """Ends what takes longer."""

    def end(*_: Any) -> None:
        raise LeftOutError(reason)

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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
    longer = None
    with at_most(5, "samples take long"):
        for count, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
            values = (sample.input, sample.args, sample.kwargs)
            if LEAST <= elements(values) <= MOST:
                return values
            longer = longer or repeated(values)
            if count > 40:
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
    with at_most(4, "slow on the CPU"):
        timed(cpu, lambda: None)
        timed(cpu, lambda: None)
    with at_most(30, "over 30 s"):
        timed(device, torch.spyre.synchronize)
        timed(device, torch.spyre.synchronize)
        pairs = [(timed(cpu, lambda: None), timed(device, torch.spyre.synchronize)) for _ in range(runs)]
    slow = [statistics.median(side) * 1e3 for side in zip(*pairs, strict=True)]
    return slow[0], slow[1], elements(host)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of names of operators; all without")
    parser.add_argument("--ratio", type=float, default=10, help="what is slow")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--part", default="1/1", help="2/4 is the second quarter of all")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    set_fallback_mode("silent")
    for name, value in SIZES.items():
        setattr(methods, name, value)
    part, parts = (int(number) for number in given.part.split("/"))
    left_out: Counter[str] = Counter()
    rows = []
    for op in methods.op_db[part - 1 :: parts]:
        if given.names and not any(name in op.name for name in given.names):
            continue
        dtype = torch.float32 if op.supports_dtype(torch.float32, "cpu") else torch.int64
        torch.spyre.reset_fallback_stats()
        try:
            cpu, device, count = ratio_of(op, dtype, given.runs)
        except LeftOutError as reason:
            left_out[str(reason)] += 1
            continue
        except Exception as error:
            left_out[type(error).__name__] += 1
            continue
        where = "CPU" if torch.spyre.fallback_stats() else "device"
        name = f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}"
        rows.append((device / max(cpu, 1e-6), name, cpu, device, count, where))
        if rows[-1][0] > given.ratio:
            print(f"  {name}: {rows[-1][0]:.0f}x", flush=True)
    slow = sorted((row for row in rows if row[0] > given.ratio), reverse=True)
    print(f"\n{len(rows)} operators, {len(slow)} of them over {given.ratio:g}x; left out: {dict(left_out)}\n")
    print("| operator | elements | CPU, ms | spyre, ms | ratio | done on |\n|---|---|---|---|---|---|")
    for ratio, name, cpu, device, count, where in slow:
        print(f"| {name} | {count:,} | {cpu:.2f} | {device:.2f} | {ratio:.0f} | {where} |")


if __name__ == "__main__":
    main()
