#!/usr/bin/env python3
"""Costs of a spyre tensor beside a CPU tensor, where little or nothing is computed.

Run it with `python crates/bench/torch/torch_overhead.py`.

Each row is the median of at least 31 ratios; a ratio comes from one pair of batches that run one after
the other, in alternating order, on one pinned core. `--check` fails if a median is past its bar.
"""

from __future__ import annotations

import argparse
import copy
import gc
import os
import platform
import statistics
import sys
import time
import warnings

import torch

LEAST_PAIRS = 31
BATCH_SECONDS = 0.004


class Case:
    """Two calls that do the same, one on the device and one on the CPU; `finish` ends the device's batch."""

    def __init__(self, name: str, device, peer, bar: float | None = None, finish=lambda: None):
        self.name, self.device, self.peer, self.bar = name, device, peer, bar
        self.finish = finish


def cases(device: torch.device) -> list[Case]:
    cpu = torch.device("cpu")
    host = torch.arange(16, dtype=torch.float32).reshape(4, 4)
    there = host.to(device)
    zeros = torch.zeros(4, 4)
    zeros_there = zeros.to(device)
    return [
        Case(
            "torch.empty((4, 4))",
            lambda: torch.empty((4, 4), device=device),
            lambda: torch.empty((4, 4), device=cpu),
            1.5,
        ),
        Case("x.view(16)", lambda: there.view(16), lambda: host.view(16), 1.2),
        Case("x.transpose(0, 1)", lambda: there.transpose(0, 1), lambda: host.transpose(0, 1), 1.2),
        Case("x[1:3]", lambda: there[1:3], lambda: host[1:3], 1.2),
        Case(".cpu(), 16 floats, against clone()", lambda: there.cpu(), lambda: host.clone(), 2.5),
        Case(
            ".to(device), 16 floats, against clone()",
            lambda: host.to(device),
            lambda: host.clone(),
            2.5,
        ),
        Case("x.clone() on the device", lambda: there.clone(), lambda: host.clone()),
        Case("x.fill_(1)", lambda: there.fill_(1), lambda: host.fill_(1)),
        Case("x.item()", lambda: there[0, 0].item(), lambda: host[0, 0].item()),
        Case("x + x", lambda: there + there, lambda: host + host),
        Case(
            "torch.add(x, y), synchronize at the end",
            lambda: torch.add(there, there),
            lambda: torch.add(host, host),
            2.0,
            torch.accelerator.synchronize,
        ),
        Case(
            "x.add_(y), synchronize at the end",
            lambda: there.add_(zeros_there),
            lambda: host.add_(zeros),
            2.0,
            torch.accelerator.synchronize,
        ),
        transformer(device),
    ]


def transformer(device: torch.device) -> Case:
    """Twelve layers that are all launches: 8 tokens, 64 wide."""
    from torch.nn import TransformerEncoder, TransformerEncoderLayer

    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # one fused op of the CPU, which has no kernel
    layer = TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
    own = TransformerEncoder(layer, 12, enable_nested_tensor=False).eval().requires_grad_(False)
    there, x = copy.deepcopy(own).to(device), torch.randn(1, 8, 64)
    x_there = x.to(device)
    finish = torch.accelerator.synchronize
    return Case("12 layers, 8 tokens of 64", lambda: there(x_there), lambda: own(x), 1.7, finish)


def measure(case: Case, pairs: int) -> tuple[float, float, float, float, float]:
    """Median, first and third quartile of the ratios; nanoseconds of the device's call and the peer's."""
    repeats = batch_size(case)
    ratios, own, other = [], [], []
    for pair in range(pairs):
        if pair % 2:
            device, peer = batch(case.device, repeats, case.finish), batch(case.peer, repeats)
        else:
            peer, device = batch(case.peer, repeats), batch(case.device, repeats, case.finish)
        ratios.append(device / peer)
        own.append(device / repeats * 1e9)
        other.append(peer / repeats * 1e9)
    low, median, high = statistics.quantiles(ratios, n=4)
    return median, low, high, statistics.median(own), statistics.median(other)


def batch_size(case: Case) -> int:
    """Number of calls for a batch of some milliseconds; also warms both sides up."""
    repeats = 1
    while batch(case.peer, repeats) < BATCH_SECONDS / 2 and repeats < 1 << 20:
        repeats *= 2
    batch(case.device, repeats, case.finish)
    return repeats


def batch(call, repeats: int, finish=lambda: None) -> float:
    rounds = range(repeats)
    start = time.perf_counter()
    for _ in rounds:
        call()
    finish()
    return time.perf_counter() - start


def pin() -> str:
    """Keeps this thread on one core; the device's own threads started before and stay free."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[0]})
    return f"core {allowed[0]} of {len(allowed)}"


def machine() -> str:
    flags = set()
    name = platform.processor()
    with open("/proc/cpuinfo") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key.strip() == "flags":
                flags |= set(value.split())
            elif key.strip() == "model name":
                name = value.strip()
    features = [flag for flag in ("avx2", "fma", "avx512f", "avx512_fp16", "amx_tile") if flag in flags]
    return f"{name}, {os.cpu_count()} cores, {' '.join(features)}"


def versions() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        ours = version("torch_spyre")
    except PackageNotFoundError:
        ours = "not installed"
    return f"python {platform.python_version()}, torch {torch.__version__}, torch_spyre {ours}"


def main() -> int:
    options = parsed()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    device = torch.device(options.device)
    table = cases(device)
    print(f"{versions()}\n{machine()}\npinned to {pin()}, {options.pairs} pairs per row\n")
    print(f"{'call':42} {'ratio':>6} {'quartiles':>13} {'spyre':>9} {'cpu':>9} {'bar':>5}")
    missed = []
    gc.disable()
    for case in table:
        median, low, high, own, other = measure(case, max(options.pairs, LEAST_PAIRS))
        bar = f"{case.bar:.1f}" if case.bar else "-"
        past = case.bar is not None and median > case.bar
        row = f"{case.name:42} {median:6.2f} {low:6.2f}-{high:<6.2f} {own:6.0f} ns {other:6.0f} ns"
        print(f"{row} {bar:>5}{'  MISSED' if past else ''}", flush=True)
        missed += [case.name] * past
    if missed:
        print(f"\npast the bar: {', '.join(missed)}")
    return 1 if missed and options.check else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit 1 if a median is past its bar")
    parser.add_argument("--pairs", type=int, default=101, help=f"at least {LEAST_PAIRS}")
    parser.add_argument("--device", default="spyre")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
