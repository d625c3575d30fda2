#!/usr/bin/env python3
"""Compares compiled graphs on the software card with the same programs run eagerly, and with Inductor's on the CPU.

Run it with `python crates/bench/torch/compiled.py`.

Each row is the median of at least 31 ratios of the peer's time to ours: 1 is as fast, more is faster. A ratio comes
from one pair of runs, one after the other in alternating order. `--check` fails if a median misses its bar, and
`--filter` chooses rows by name. A bar in brackets is a goal: `--check` does not ask for it.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("TORCH_WARM_POOL", "0")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from llama_block import Block  # noqa: E402
from peers import BATCH_SECONDS, measure  # noqa: E402
from torch_overhead import LEAST_PAIRS, machine, versions  # noqa: E402


WARM_UP = 5


class Row(NamedTuple):
    """Two calls of the same program."""

    name: str
    own: Callable[[], object]
    peer: Callable[[], object]
    bar: float | None = None
    goal: float | None = None


def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.tanh(x * y + x) * 2 - y).sigmoid() * x


def softmax(x: torch.Tensor) -> torch.Tensor:
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    d = x - x.mean(-1, keepdim=True)
    return d * torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-5) * weight


def mlp(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return (F.silu(x @ gate) * (x @ up)) @ down


def rows() -> list[Row]:
    """All rows: programs beside eager ones, then what a call costs beside the CPU's."""
    made = [row for dtype in (torch.float32, torch.bfloat16) for row in beside_eager(dtype)]
    tiny = {device: torch.ones(4, 8, device=device) for device in ("spyre", "cpu")}
    add = {device: torch.compile(lambda x: x + 1) for device in tiny}
    calls = {device: (lambda device=device: add[device](tiny[device])) for device in tiny}
    made.append(Row("x + 1, compiled, beside the CPU's", calls["spyre"], calls["cpu"], goal=1 / 1.15))
    layers = torch.nn.Sequential(*(Block(64, 128) for _ in range(12))).to("spyre")
    x = torch.randn(1, 8, 64).to("spyre")
    whole = torch.compile(layers)
    made.append(Row("12 tiny layers, beside eager", lambda: whole(x), lambda: layers(x), goal=1 / 0.8))
    return made


def beside_eager(dtype: torch.dtype) -> list[Row]:
    def make(*size: int) -> torch.Tensor:
        return (torch.randn(size) * 0.1).to(dtype).to("spyre")

    short = str(dtype).removeprefix("torch.")
    block = Block().to(dtype).to("spyre")
    tokens = make(1, 512, 512)
    token = make(1, 1, 512)
    weights = (make(512, 1376), make(512, 1376), make(1376, 512))
    return [
        _row(f"chain of 6, 1024x1024, {short}", chain, make(1024, 1024), make(1024, 1024), bar=2.0),
        _row(f"softmax by hand, 1024x1024, {short}", softmax, make(1024, 1024), bar=1.5),
        _row(f"norm by hand, 1024x1024, {short}", norm, make(1024, 1024), make(1024), bar=1.5),
        _row(f"MLP, 512 tokens, {short}", mlp, make(512, 512), *weights, bar=1.0),
        _row(f"Llama block, 512 tokens, {short}", block, tokens, goal=1.0),
        _row(f"Llama block, one token, {short}", block, token, goal=1.25),
    ]


def _row(
    name: str, program: Callable, *inputs: torch.Tensor, bar: float | None = None, goal: float | None = None
) -> Row:
    compiled = torch.compile(program)
    return Row(name, lambda: compiled(*inputs), lambda: program(*inputs), bar, goal)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a median misses its bar")
    parser.add_argument("--filter", default="", help="rows whose name holds this text")
    parser.add_argument("--pairs", type=int, default=LEAST_PAIRS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{versions()}\n{machine()}\n")
    print(f"{'program':46} {'ratio':>6} {'quartiles':>13} {'ours':>11} {'peer':>11} {'bar':>6}")
    missed = []
    with torch.no_grad():
        for row in rows():
            if options.filter not in row.name:
                continue
            for call in (row.own, row.peer) * WARM_UP:  # the first call compiles: it says nothing about repeats
                call()
            torch.spyre.synchronize()
            median, low, high, own, other = measure(row.own, row.peer, options.pairs, BATCH_SECONDS)
            bar = f"{row.bar:.2f}" if row.bar else f"({row.goal:.2f})" if row.goal else "-"
            is_below = row.bar is not None and median < row.bar
            times = f"{own * 1e3:8.3f} ms {other * 1e3:8.3f} ms"
            text = f"{row.name:46} {median:6.2f} {low:6.2f}-{high:<6.2f} {times} {bar:>6}"
            print(f"{text}{'  MISSED' if is_below else ''}", flush=True)
            missed += [row.name] * is_below
    if options.check and missed:
        print(f"missed: {', '.join(missed)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
