"""Runs chains of seeds: python -m views.run --seeds 0:10000 --device spyre (from python/tests).

The profile is the process's (SPYRE_PROFILE). The seed under way is kept in --note, so that a parent
can name it should this process die.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys

import torch

from .chains import Chain, failure, shrink


def main() -> int:
    faulthandler.enable()
    torch.set_num_threads(1)
    options = parsed()
    card = os.environ.get("SPYRE_PROFILE") == "card"
    device = torch.device(options.device)
    peer = second(device)
    first, last = map(int, options.seeds.split(":"))
    note = os.open(options.note, os.O_RDWR | os.O_CREAT) if options.note else None
    failures = 0
    for seed in range(first, last):
        if note is not None:
            os.pwrite(note, b"%12d" % seed, 0)
        if not failure(Chain.of(seed, card), device, peer):
            continue
        failures += 1
        report(seed, card, device, peer)
        if failures == options.most:
            print("stopped: too many failures")
            break
    done = seed + 1 - first
    print(f"{done - failures} of {done} chains exact ({'card' if card else 'open'})")
    return 1 if failures else 0


def report(seed: int, card: bool, device: torch.device, peer) -> None:
    chain = shrink(Chain.of(seed, card), device, peer)
    found = failure(chain, device, peer)
    if found is None:
        print(f"seed {seed}: fails, but not when run again", flush=True)
        return
    error, text = found
    print(f"seed {seed}: {type(error).__name__}: {error}")
    for line in text:
        print(f"    {line}")
    sys.stdout.flush()


def second(device: torch.device) -> torch.device | None:
    if device.type == "cpu":
        return None
    count = torch.get_device_module(device.type).device_count()
    return torch.device(device.type, 1) if count > 1 else None


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0:10000", help="first:past-the-last")
    parser.add_argument("--device", default="spyre")
    parser.add_argument("--note", help="file that holds the seed under way")
    parser.add_argument("--most", type=int, default=5, help="stop after so many failures")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
