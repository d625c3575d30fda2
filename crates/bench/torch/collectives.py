#!/usr/bin/env python3
"""Compares collectives of tensors on spyre with Gloo's of CPU tensors, in the same processes.

Run it with `python crates/bench/torch/collectives.py`.

A row is the median of ratios of Gloo's time to ours: 1 is as fast, more is faster. A ratio comes from one pair of
samples, one after the other in alternating order, as rank 0 sees them. A sample is a call and the wait for its result,
and up to 1 MB several such, one after another: ranks leave the barrier before it up to 100 us apart. The last column compares with the way that a
program would take without the backend: to the host, Gloo, and back. `--check` fails if a median misses its bar,
`--filter` chooses rows by name and `--ranks` the numbers of ranks.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist

PAIRS = 15
SECONDS = 6
"""The longest that a row takes, once it has a few pairs."""
LEAST_PAIRS = 5
CALLS = 10
"""Calls of a sample up to 1 MB."""

KIB, MIB = 1 << 10, 1 << 20


class Row(NamedTuple):
    """A collective of so many bytes of float32 among so many ranks."""

    operation: str
    ranks: int
    bytes: int
    bar: float
    staged_bar: float

    @property
    def name(self) -> str:
        size = f"{self.bytes // MIB} MB" if self.bytes >= MIB else f"{self.bytes // KIB} KB"
        return f"{self.operation}, {self.ranks} ranks, {size}"


ROWS = [
    *[Row("all_reduce", 2, size, 10, 3) for size in (KIB, 16 * KIB)],
    *[Row("all_reduce", 2, size, 4, 3) for size in (256 * KIB, MIB)],
    *[Row("all_reduce", 2, size, 2, 3) for size in (4 * MIB, 16 * MIB, 64 * MIB)],
    *[Row("all_gather", 2, size, 3, 2) for size in (MIB, 16 * MIB, 64 * MIB)],
    *[Row("all_to_all", 2, size, 2, 2) for size in (MIB, 16 * MIB, 64 * MIB)],
    *[Row("broadcast", 2, size, 1.5, 2) for size in (MIB, 16 * MIB, 64 * MIB)],
    *[Row("all_reduce", ranks, size, 2, 2) for ranks in (4, 8) for size in (KIB, MIB, 16 * MIB)],
    *[Row("all_reduce", ranks, 64 * MIB, 1.5, 2) for ranks in (4, 8)],
]


def call(operation: str, elements: int, device: str) -> Callable[[], torch.Tensor]:
    """The collective over tensors of a device; it returns when they can be read."""
    size = dist.get_world_size()
    given = torch.ones(elements, device=device)
    taken = torch.empty(elements * size if operation == "all_gather" else elements, device=device)
    run = {
        "all_reduce": lambda: dist.all_reduce(given, dist.ReduceOp.MAX),
        "broadcast": lambda: dist.broadcast(given, 0),
        "all_gather": lambda: dist.all_gather_into_tensor(taken, given),
        "all_to_all": lambda: dist.all_to_all_single(taken, given),
    }[operation]
    result = given if operation in ("all_reduce", "broadcast") else taken

    def finish() -> torch.Tensor:
        run()
        if device == "spyre":
            torch.spyre.synchronize()
        return result

    return finish


def staged(operation: str, elements: int) -> Callable[[], torch.Tensor]:
    """The way without the backend: to the host, Gloo, and back."""
    source = torch.ones(elements, device="spyre")
    on_host = call(operation, elements, "cpu")

    def finish() -> torch.Tensor:
        source.cpu()
        result = on_host().to("spyre")
        torch.spyre.synchronize()
        return result

    return finish


def timed(run: Callable[[], torch.Tensor], calls: int) -> float:
    dist.barrier()
    began = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - began) / calls


def measure(row: Row) -> tuple[list[float], float, float]:
    """Seconds of the three ways: medians of the ratios of the others to ours, and our times."""
    elements = row.bytes // 4
    ways = [call(row.operation, elements, "spyre"), call(row.operation, elements, "cpu"), staged(row.operation, elements)]
    calls = CALLS if row.bytes <= MIB else 1
    for way in ways * 2:
        timed(way, calls)
    own, to_gloo, to_staged = [], [], []
    began = time.perf_counter()
    for pair in range(PAIRS):
        order = [0, 1, 2] if pair % 2 == 0 else [2, 1, 0]
        seconds = {at: timed(ways[at], calls) for at in order}
        own.append(seconds[0])
        to_gloo.append(seconds[1] / seconds[0])
        to_staged.append(seconds[2] / seconds[0])
        # All ranks end together: rank 0 decides.
        is_over = torch.tensor([pair + 1 >= LEAST_PAIRS and time.perf_counter() - began > SECONDS])
        dist.broadcast(is_over, 0)
        if is_over:
            break
    return own, statistics.median(to_gloo), statistics.median(to_staged)


def rank(arguments: argparse.Namespace) -> None:
    dist.init_process_group("cpu:gloo,spyre:spyreccl")
    missed = 0
    for row in rows(arguments, dist.get_world_size()):
        own, to_gloo, to_staged = measure(row)
        is_good = to_gloo >= row.bar and to_staged >= row.staged_bar
        missed += not is_good
        if dist.get_rank() == 0:
            print(
                f"{row.name:32} {1e6 * statistics.median(own):10.0f} us  x{to_gloo:6.2f} of Gloo (bar {row.bar})  "
                f"x{to_staged:6.2f} by the host (bar {row.staged_bar}){'' if is_good else '  MISSED'}",
                flush=True,
            )
    dist.destroy_process_group()
    sys.exit(1 if missed and arguments.check and int(os.environ["RANK"]) == 0 else 0)


def rows(arguments: argparse.Namespace, size: int) -> list[Row]:
    return [row for row in ROWS if row.ranks == size and arguments.filter in row.name]


def start(size: int) -> list[subprocess.Popen]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
    each = [{**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)]
    return [subprocess.Popen([sys.executable, *sys.argv], env=own) for own in each]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--filter", default="")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        rank(arguments)
    codes = [child.wait() for size in arguments.ranks if rows(arguments, size) for child in start(size)]
    sys.exit(max(codes, default=0))


if __name__ == "__main__":
    main()
