#!/usr/bin/env python3
"""Compares steps of FSDP2 on two ranks with the same steps whose waits for collectives block the host.

Run it with `python crates/bench/torch/sharded_steps.py`.

A row is the median of ratios of the time of a step to its time with `SPYRE_CCL_BLOCKING_WAIT=1`: below 1, collectives
and computation overlap. A ratio comes from two pairs of processes, one after the other in alternating order. Each runs a
model of four layers, every one of which is gathered in the forward and in the backward pass. `--check` fails if a median
misses its bar. The trace of one rank says how long collectives and kernels were under way at the same time.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

PAIRS = 5
RANKS = 2
LAYERS = 4
WIDTH = 512
ROWS = 256
STEPS = 15


class Row(NamedTuple):
    """A latency that each collective has besides its own time."""

    microseconds: int
    bar: float

    @property
    def name(self) -> str:
        return f"FSDP2, {LAYERS} layers, {RANKS} ranks, {self.microseconds / 1000:g} ms per collective added"


ROWS_OF_TABLE = [Row(5000, 0.75), Row(0, 1.0)]


class Measured(NamedTuple):
    """Seconds of a step, and the share of its collectives' time in which kernels ran."""

    step: float
    overlap: float


def run_rank() -> None:
    """One rank: prints the median of its steps and the overlap that its trace shows."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("cpu:gloo,spyre:spyreccl")
    torch.manual_seed(1)
    mesh = init_device_mesh("spyre", (RANKS,))
    layers = [nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)) for _ in range(LAYERS)]
    model = nn.Sequential(*layers).to("spyre")
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    given = torch.randn(ROWS, WIDTH, device="spyre")

    def step() -> float:
        dist.barrier()
        began = time.perf_counter()
        model(given).square().mean().backward()
        for parameter in model.parameters():
            parameter.grad = None
        torch.spyre.synchronize()
        return time.perf_counter() - began

    for _ in range(2):
        step()
    seconds = statistics.median(step() for _ in range(STEPS))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        with torch.spyre.trace(file):
            step()
        overlap = overlap_of(json.loads(file.read_text())["traceEvents"])
    if dist.get_rank() == 0:
        print(json.dumps([seconds, overlap]), flush=True)
    dist.destroy_process_group()


def overlap_of(events: list[dict]) -> float:
    """The share of the collectives' time in which kernels were under way, as the spans of a trace show it."""
    spans = [event for event in events if event.get("cat") == "run" and event["dur"] > 0]
    collectives = [span for span in spans if span["args"]["kind"] == "external work"]
    kernels = [span for span in spans if span["args"]["kind"] == "launch"]
    whole = sum(span["dur"] for span in collectives)
    return sum(common(span, kernel) for span in collectives for kernel in kernels) / whole if whole else 0.0


def common(one: dict, other: dict) -> float:
    """Time in which both spans are under way."""
    return max(0.0, min(one["ts"] + one["dur"], other["ts"] + other["dur"]) - max(one["ts"], other["ts"]))


def measured(row: Row, is_blocking: bool) -> Measured:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(RANKS),
        "LOCAL_WORLD_SIZE": str(RANKS),
        "SPYRE_CCL_LATENCY_US": str(row.microseconds),
        "SPYRE_CCL_BLOCKING_WAIT": str(int(is_blocking)),
    }
    children = [
        subprocess.Popen(
            [sys.executable, __file__], env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, text=True,
        )
        for rank in range(RANKS)
    ]  # fmt: skip
    texts = [child.communicate(timeout=300)[0] for child in children]
    if any(child.returncode for child in children):
        raise SystemExit(f"a rank ended with {[child.returncode for child in children]}")
    return Measured(*json.loads(texts[0].splitlines()[-1]))


def compare(row: Row) -> bool:
    """Prints a row. Returns true if it reaches its bar."""
    ratios, steps, overlaps = [], [], []
    for pair in range(PAIRS):
        order = [False, True] if pair % 2 == 0 else [True, False]
        found = {is_blocking: measured(row, is_blocking) for is_blocking in order}
        ratios.append(found[False].step / found[True].step)
        steps.append(found[False].step)
        overlaps.append(found[False].overlap)
    ratio = statistics.median(ratios)
    is_good = ratio <= row.bar
    print(
        f"{row.name:58} {1e3 * statistics.median(steps):7.1f} ms  x{ratio:5.2f} of blocking (bar {row.bar})  "
        f"kernels run in {100 * statistics.median(overlaps):.0f} % of the collectives' time{'' if is_good else '  MISSED'}",
        flush=True,
    )
    return is_good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    is_good = [compare(row) for row in ROWS_OF_TABLE]
    sys.exit(1 if arguments.check and not all(is_good) else 0)


if __name__ == "__main__":
    run_rank() if "RANK" in os.environ else main()
