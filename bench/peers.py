#!/usr/bin/env python3
"""What compiled kernels reach beside PyTorch on the CPU: python bench/peers.py

Each row is the median of at least 31 ratios of PyTorch's time to ours: 1 is as fast, more is faster. A ratio
comes from one pair of runs, one after the other in alternating order, with the same threads; results go to
tensors that are there. `--check` fails if a median is below its bar, and `--filter` chooses rows by name.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings

import torch
import torch_spyre

from torch_overhead import LEAST_PAIRS, machine, versions

BATCH_SECONDS = 0.01


class Case:
    """One call, made with tensors of the device and with tensors of the CPU."""

    def __init__(self, name: str, call, shapes, out, dtype=torch.float32, bar: float | None = None):
        self.name, self.call, self.bar = name, call, bar
        generator = torch.Generator().manual_seed(1)
        host = [torch.rand(shape, generator=generator).to(dtype) for shape in shapes]
        self.host = [*host, torch.empty(out, dtype=dtype)]
        self.there = [tensor.to("spyre") for tensor in self.host]

    def device(self) -> None:
        self.call(*self.there)

    def peer(self) -> None:
        self.call(*self.host)


def mm(a, b, c):
    torch.mm(a, b, out=c)


def linear(x, w, c):
    torch.mm(x, w.t(), out=c)


def bmm(a, b, c):
    torch.bmm(a, b, out=c)


def softmax(x, y):
    torch.softmax(x, -1, out=y)


def product(name: str, call, m: int, n: int, k: int, dtype=torch.float32, bar=None) -> Case:
    right = (n, k) if call is linear else (k, n)
    return Case(f"{name} {m}x{k} {k}x{n} {dtype_name(dtype)}", call, [(m, k), right], (m, n), dtype, bar)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def cases() -> list:
    """What makes each case, by its name's start: tensors are made when it is its turn."""
    half, brain = torch.float16, torch.bfloat16
    return [
        ("mm", lambda: product("mm", mm, 1024, 1024, 1024, bar=0.6)),
        ("mm", lambda: product("mm", mm, 512, 4096, 4096)),
        ("mm", lambda: product("mm", mm, 1024, 1024, 1024, half)),
        ("mm", lambda: product("mm", mm, 1024, 1024, 1024, brain)),
        ("mm", lambda: product("mm", mm, 64, 64, 64)),
        ("mm", lambda: product("mm", mm, 1, 4096, 4096)),
        ("linear", lambda: product("linear", linear, 1024, 1024, 1024)),
        ("linear", lambda: product("linear", linear, 1, 4096, 4096)),
        ("bmm", lambda: Case("bmm 64 of 128x64 64x128 float32", bmm, [(64, 128, 64), (64, 64, 128)], (64, 128, 128))),
        ("softmax", lambda: Case("softmax 4096x4096 float32", softmax, [(4096, 4096)], (4096, 4096), bar=0.7)),
    ]


def measure(case: Case, pairs: int) -> tuple[float, float, float, float, float]:
    """Median, first and third quartile of the ratios; seconds of the device's call and the peer's."""
    case.device()
    finish()
    repeats = batch_size(case)
    ratios, own, other = [], [], []
    for pair in range(pairs):
        if pair % 2:
            device, peer = batch(case.device, repeats), batch(case.peer, repeats)
        else:
            peer, device = batch(case.peer, repeats), batch(case.device, repeats)
        ratios.append(peer / device)
        own.append(device / repeats)
        other.append(peer / repeats)
    low, median, high = statistics.quantiles(ratios, n=4)
    return median, low, high, statistics.median(own), statistics.median(other)


def batch_size(case: Case) -> int:
    repeats = 1
    while batch(case.peer, repeats) < BATCH_SECONDS / 2:
        repeats *= 2
    return repeats


def batch(call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    finish()
    return time.perf_counter() - start


def finish() -> None:
    torch.spyre.synchronize()


def main() -> int:
    options = parsed()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    print(f"{versions()}\n{machine()}\n{options.threads} threads, {options.pairs} pairs per row\n")
    print(f"{'call':42} {'ratio':>6} {'quartiles':>13} {'spyre':>11} {'cpu':>11} {'bar':>5}")
    missed = []
    for _, make in [case for case in cases() if options.filter in case[0]]:
        case = make()
        median, low, high, own, other = measure(case, max(options.pairs, LEAST_PAIRS))
        bar = f"{case.bar:.1f}" if case.bar else "-"
        is_below = case.bar is not None and median < case.bar
        times = f"{own * 1e3:8.3f} ms {other * 1e3:8.3f} ms"
        row = f"{case.name:42} {median:6.2f} {low:6.2f}-{high:<6.2f} {times} {bar:>5}"
        print(f"{row}{'  MISSED' if is_below else ''}", flush=True)
        missed += [case.name] * is_below
    if missed and options.check:
        print(f"\nbelow the bar: {', '.join(missed)}", file=sys.stderr)
        return 1
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if a row is below its bar")
    parser.add_argument("--pairs", type=int, default=LEAST_PAIRS, help="runs of both sides per row")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of PyTorch")
    parser.add_argument("--filter", default="", help="rows whose operator's name holds this")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
