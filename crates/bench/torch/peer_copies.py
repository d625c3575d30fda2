#!/usr/bin/env python3
"""Compares copies from card to card with copies on one card, on one machine.

Run it with `python crates/bench/torch/peer_copies.py`.

A row is the median of ratios of the time from card to card to that on one card: 1 is as fast, less is faster. A ratio
comes from one pair of samples, one after the other in alternating order; a sample is a copy and the wait for it.
`--check` fails if a median misses its bar.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable

os.environ.setdefault("AIU_WORLD_SIZE", "2")

import torch

PAIRS = 21
BARS = {1: 1.15, 16: 1.15, 64: 1.15}
"""Megabytes, and the most that a copy between cards may take, if one on a card takes 1."""


def timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    for card in range(2):
        torch.spyre.synchronize(card)
    return time.perf_counter() - began


def ratio(megabytes: int) -> tuple[float, float]:
    """The median ratio, and the seconds of a copy between cards."""
    source = torch.rand(megabytes << 18, device="spyre:0")
    near, far = torch.empty_like(source), torch.empty_like(source, device="spyre:1")
    ways = [lambda: far.copy_(source), lambda: near.copy_(source)]
    for way in ways * 2:
        timed(way)
    found = []
    for pair in range(PAIRS):
        order = [0, 1] if pair % 2 == 0 else [1, 0]
        seconds = {at: timed(ways[at]) for at in order}
        found.append((seconds[0] / seconds[1], seconds[0]))
    ratios, own = zip(*found)
    return statistics.median(ratios), statistics.median(own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    missed = 0
    for megabytes, bar in BARS.items():
        median, own = ratio(megabytes)
        missed += median > bar
        print(f"copy to another card, {megabytes} MB {1e3 * own:9.2f} ms  x{median:5.2f} of a copy on one card "
              f"(bar {bar}){'  MISSED' if median > bar else ''}", flush=True)  # fmt: skip
    sys.exit(1 if missed and arguments.check else 0)


if __name__ == "__main__":
    main()
