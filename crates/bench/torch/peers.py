#!/usr/bin/env python3
"""Compares kernels on the software card with PyTorch on the CPU.

Run it with `python crates/bench/torch/peers.py`.

Each row of the first table is the median of at least 31 ratios of PyTorch's time to ours (9 where a call is slow): 1 is
as fast, more is faster. A ratio comes from one pair of runs, one after the other in alternating order, with as many threads on
both sides; results go to tensors that are there, where an operator can do that, and to memory that is there
where it cannot. Where the CPU has several ways to the same result, the fastest one of them is the peer. The
second table has what a kernel costs before it runs, as multiples of a tiny `torch.add` of the CPU. `--check`
fails if a median misses its bar, and `--filter` chooses rows by name. A bar in brackets is a goal: `--check`
does not ask for it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable

# PyTorch gives large results back to the system and asks for new pages each time, which costs it more than
# some of these calls: what is compared is the calls, so the memory stays. glibc reads these settings when a
# process starts.
KEPT = {"mmap_threshold": 1 << 30, "trim_threshold": 4 << 30, "top_pad": 256 << 20}
if __name__ == "__main__" and "GLIBC_TUNABLES" not in os.environ:
    os.environ["GLIBC_TUNABLES"] = ":".join(f"glibc.malloc.{name}={kept}" for name, kept in KEPT.items())
    os.execv(sys.executable, sys.orig_argv)

# Threads of PyTorch that wait for work would take a core from the card's, for as long as a call takes.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("SPYRE_CACHE", "0")  # what is compiled here is compiled, and found in memory

import torch  # noqa: E402

from peer_cases import Case, device_cases  # noqa: E402
from peer_models import model_cases  # noqa: E402
from torch_overhead import LEAST_PAIRS, machine, versions  # noqa: E402

BATCH_SECONDS = 0.01
LEAST_SECONDS_OF_LOOKUPS = 0.002

ADD = """
kernel peer_{number}(i, j) {{
    in x: float32[i, j]
    in y: float32[i, j]
    out z: float32[i, j]
    z = x + y
}}
"""
SOFTMAX = """
kernel peer_{number}(i, j) {{
    in x: float32[i, j]
    out y: float32[i, j]
    e = exp(x - max<j>(x))
    y = e / sum<j>(e)
}}
"""


def lookups() -> list[tuple[str, Callable[[], object], float]]:
    """Compilations, new and cached, and the time that each may take, in tiny additions."""
    numbers = itertools.count()
    compile = torch.spyre.compile
    known = SOFTMAX.format(number="known")
    compile(known)
    return [
        ("compile z = x + y", lambda: compile(ADD.format(number=next(numbers))), 200),
        ("compile softmax", lambda: compile(SOFTMAX.format(number=next(numbers))), 200),
        ("compile, text is known", lambda: compile(known), 0.7),
    ]


def measure(own: Callable, peer: Callable, pairs: int, seconds: float) -> tuple[float, ...]:
    """Median, first and third quartile of peer / own; seconds of one call of either."""
    own_repeats, peer_repeats = repeats_of(own, seconds), repeats_of(peer, seconds)
    ratios, owns, peers = [], [], []
    for pair in range(pairs):
        if pair % 2:
            mine, other = batch(own, own_repeats), batch(peer, peer_repeats)
        else:
            other, mine = batch(peer, peer_repeats), batch(own, own_repeats)
        ratios.append(other / mine)
        owns.append(mine)
        peers.append(other)
    low, median, high = statistics.quantiles(ratios, n=4)
    return median, low, high, statistics.median(owns), statistics.median(peers)


def fastest(calls: list[Callable], seconds: float) -> Callable:
    return min(calls, key=lambda call: batch(call, repeats_of(call, seconds)))


def repeats_of(call: Callable, seconds: float) -> int:
    """Number of calls for a batch that is long enough to be timed; also warms up."""
    repeats = 1
    while batch(call, repeats) * repeats < seconds / 2:
        repeats *= 2
    return repeats


def batch(call: Callable, repeats: int) -> float:
    """Seconds of one call, of some that are made in a row and waited for."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    torch.spyre.synchronize()
    return (time.perf_counter() - start) / repeats


def show_cases(options: argparse.Namespace) -> list[str]:
    print(f"{'call':46} {'ratio':>6} {'quartiles':>13} {'spyre':>11} {'cpu':>11} {'bar':>6}")
    missed = []
    for name, make in [*device_cases(), *model_cases()]:
        if options.filter not in name:
            continue
        case: Case = make()
        case.check()
        peer = fastest(case.peers, BATCH_SECONDS)
        median, low, high, own, other = measure(case.own, peer, case.pairs or options.pairs, BATCH_SECONDS)
        bar = f"{case.bar:.2f}" if case.bar else f"({case.goal:.2f})" if case.goal else "-"
        is_below = case.bar is not None and median < case.bar
        times = f"{own * 1e3:8.3f} ms {other * 1e3:8.3f} ms"
        row = f"{name:46} {median:6.2f} {low:6.2f}-{high:<6.2f} {times} {bar:>6}"
        print(f"{row}{'  MISSED' if is_below else ''}", flush=True)
        missed += [name] * is_below
    return missed


def show_lookups(options: argparse.Namespace) -> list[str]:
    print(f"\n{'before a kernel runs':46} {'adds':>6} {'quartiles':>13} {'spyre':>11} {'cpu':>11} {'bar':>5}")
    missed = []
    x = torch.ones(4, 4)
    add = lambda: torch.add(x, x)  # noqa: E731
    for name, call, bar in lookups():
        if options.filter not in name:
            continue
        median, low, high, own, other = measure(call, add, options.pairs, LEAST_SECONDS_OF_LOOKUPS)
        times = f"{own * 1e6:8.3f} us {other * 1e6:8.3f} us"
        is_past = 1 / median > bar
        row = f"{name:46} {1 / median:6.2f} {1 / high:6.2f}-{1 / low:<6.2f} {times} {bar:>5}"
        print(f"{row}{'  MISSED' if is_past else ''}", flush=True)
        missed += [name] * is_past
    return missed


def main() -> int:
    options = parsed()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    options.pairs = max(options.pairs, LEAST_PAIRS)
    cores = len(os.sched_getaffinity(0))
    print(f"{versions()}\n{machine()}")
    print(f"{options.threads} threads of PyTorch, {cores} of the card; {options.pairs} pairs per row\n")
    with torch.no_grad():
        missed = show_cases(options) + show_lookups(options)
    if missed:
        print(f"\nmissed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed and options.check else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if a row misses its bar")
    parser.add_argument("--pairs", type=int, default=LEAST_PAIRS, help=f"runs of both sides, at least {LEAST_PAIRS}")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of PyTorch")
    parser.add_argument("--filter", default="", help="rows whose name holds this")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
