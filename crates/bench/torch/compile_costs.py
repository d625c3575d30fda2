#!/usr/bin/env python3
"""Costs of torch.compile on the device: time of compilations, memory of what they make, and a call below its guards.

Run it with `python crates/bench/torch/compile_costs.py`.

Each row is a ratio of ours to the peer's: 1 is as much, less is less. Compilations are those of a Llama block, each in
a process of its own, in alternating order; both sides have imported all that they need, and the peer is Inductor on
the CPU. A second process finds the caches that the first one filled. Memory is the peak of a step, beside that of the
same step run eagerly. `--check` fails if a median misses its bar; `compile_costs.py memory` measures that part only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("TORCH_WARM_POOL", "0")

import torch  # noqa: E402
from torch._inductor.codecache import PyCodeCache  # noqa: E402

from llama_block import Block  # noqa: E402
from peers import BATCH_SECONDS, measure  # noqa: E402
from torch_overhead import LEAST_PAIRS, machine, versions  # noqa: E402

LEAST_PROCESSES = 5
CHILD = Path(__file__).with_name("first_compile.py")


class Result(NamedTuple):
    """A row: the quartiles of the ratios, and medians of the amounts that they come from, in a unit."""

    name: str
    ratios: Sequence[float]
    own: float
    peer: float
    unit: str
    bar: float


def calls(options: argparse.Namespace) -> Iterator[Result]:
    """The function that Inductor writes for a graph, called as AOTAutograd's wrapper calls it."""
    own, peer = (_written_call(device) for device in ("spyre", "cpu"))
    median, low, high, mine, other = measure(own, peer, options.pairs, BATCH_SECONDS)
    yield Result("x + 1, call of its module", [1 / high, 1 / median, 1 / low], mine * 1e6, other * 1e6, "us", 2.0)


def _written_call(device: str) -> Callable[[], object]:
    x = torch.ones(4, 8, device=device)
    torch.compile(lambda x: x + 1)(x)
    call = PyCodeCache.modules[-1].call
    return lambda: call([x])


def memory(_: argparse.Namespace) -> Iterator[Result]:
    """Peaks of the device's memory."""
    for name, step_of, bar in (
        ("peak of a block, 512 tokens", _forward, 1.05),
        ("peak of a training step", _training, 1.0),
        ("peak of a training step, AdamW compiled, too", _training_at_once, 1.0),
    ):
        own, peer = (_peak(step_of, run) / 1e6 for run in (torch.compile, lambda program: program))
        yield Result(name, [own / peer] * 3, own, peer, "MB", bar)


def _forward(compile: Callable) -> Callable[[], object]:
    block, x = Block().to("spyre").requires_grad_(False), torch.randn(1, 512, 512).to("spyre")
    compiled = compile(block)
    return lambda: compiled(x)


def _training(compile: Callable, compile_update: Callable = lambda program: program) -> Callable[[], object]:
    block, x = Block().to("spyre"), torch.randn(1, 512, 512).to("spyre")
    compiled = compile(block)
    optimizer = torch.optim.AdamW(block.parameters(), lr=1e-4)
    update = compile_update(optimizer.step)

    def step() -> None:
        optimizer.zero_grad()
        compiled(x).square().mean().backward()
        update()

    return step


def _training_at_once(compile: Callable) -> Callable[[], object]:
    return _training(compile, compile)


def _peak(step_of: Callable, compile: Callable) -> int:
    """The most bytes in use during a step; the steps before it compile, and make the optimiser's state."""
    torch.compiler.reset()
    before = torch.spyre.memory_allocated()
    step = step_of(compile)
    for _ in range(3):
        step()
    torch.spyre.synchronize()
    torch.spyre.reset_peak_memory_stats()
    step()
    return torch.spyre.max_memory_allocated() - before


def compilations(options: argparse.Namespace) -> Iterator[Result]:
    """Seconds of first compilations, and of those that find the caches of a process before them."""
    imports = {device: _compile(device, tempfile.mkdtemp(dir=options.folder))[1] for device in ("spyre", "cpu")}
    seconds: dict[str, list[float]] = {"first": [], "second": [], "peer": []}
    for pair in range(options.processes):
        folder = tempfile.mkdtemp(dir=options.folder)
        peers_folder = tempfile.mkdtemp(dir=options.folder)
        runs = [("first", "spyre", folder), ("second", "spyre", folder), ("peer", "cpu", peers_folder)]
        for name, device, caches in runs if pair % 2 else [runs[2], *runs[:2]]:
            seconds[name].append(_compile(device, caches, imports[device])[0])
    for name, own, peer, bar in (
        ("first compilation, beside the CPU's", "first", "peer", 0.7),
        ("in a second process, beside the first", "second", "first", 0.3),
    ):
        ratios = [mine / other for mine, other in zip(seconds[own], seconds[peer])]
        yield Result(name, statistics.quantiles(ratios, n=4), *(statistics.median(seconds[side]) for side in (own, peer)), "s", bar)


def _compile(device: str, folder: str, imports: list[str] = []) -> tuple[float, list[str]]:
    """Seconds that a process of its own takes, and the modules that it imports meanwhile."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/graphs", "SPYRE_CACHE_DIR": f"{folder}/plans", "SPYRE_CACHE": "1"}
    ran = subprocess.run(
        [sys.executable, str(CHILD), device],
        input="\n".join(imports),
        env=os.environ | caches,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    printed = json.loads(ran.stdout)
    return printed["seconds"], printed["imported"]


PARTS = {part.__name__: part for part in (calls, memory, compilations)}


def main() -> int:
    options = parsed()
    warnings.simplefilter("ignore")
    print(f"{versions()}\n{machine()}")
    print(f"{options.pairs} pairs of calls, {options.processes} of processes\n")
    print(f"{'cost':46} {'ratio':>6} {'quartiles':>13} {'ours':>11} {'peer':>11} {'bar':>6}")
    missed = []
    with tempfile.TemporaryDirectory() as options.folder:
        for part in options.parts or PARTS:
            missed += [row.name for row in PARTS[part](options) if shown(row)]
    if options.check and missed:
        print(f"missed: {', '.join(missed)}")
        return 1
    return 0


def shown(row: Result) -> bool:
    """Prints a row; returns true if it misses its bar."""
    low, median, high = row.ratios
    is_past = median > row.bar
    amounts = f"{row.own:8.3f} {row.unit:2} {row.peer:8.3f} {row.unit:2}"
    text = f"{row.name:46} {median:6.2f} {low:6.2f}-{high:<6.2f} {amounts} {row.bar:>6.2f}"
    print(f"{text}{'  MISSED' if is_past else ''}", flush=True)
    return is_past


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all of them, if none is named")
    parser.add_argument("--check", action="store_true", help="fail if a median misses its bar")
    parser.add_argument("--pairs", type=int, default=LEAST_PAIRS, help="of calls")
    parser.add_argument("--processes", type=int, default=LEAST_PROCESSES, help="pairs of processes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
