"""Judges the operators whose numbers come in on stdin, one line of JSON out per dtype.

`run.py` starts it, and ends it when one operator takes too long.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import sys
import traceback

import torch

from .case import DTYPES
from .catalogue import catalogue
from .judge import Verdict, judged
from .ulps import BOUNDS, FUNCTIONS, worst


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", required=True)
    parser.add_argument("--card", action="store_true")
    options = parser.parse_args()
    faulthandler.enable()
    torch.set_num_threads(1)
    device, named = torch.device(options.device), catalogue()
    names = list(named)
    say({"operators": names})
    for line in sys.stdin:
        name = names[int(line)]
        for dtype in [torch.float16] if options.card else DTYPES:
            say({"dtype": str(dtype)[6:], "verdict": verdict(name, named[name], dtype, device, options.card)})
        say({"done": int(line)})


def verdict(name: str, cases, dtype, device, card: bool) -> dict:
    try:
        found = judged(cases, dtype, device, card)
        if name in FUNCTIONS and dtype in BOUNDS:
            measure(name, dtype, device, card, found)
        return found.as_json()
    except Exception:  # noqa: BLE001 (an error of the catalogue is reported, not fatal)
        return Verdict(failed=1, messages={traceback.format_exc().strip()[-600:]: 1}).as_json()


def measure(name: str, dtype, device, card: bool, found: Verdict) -> None:
    """One call more: every number of the format, or very many."""
    found.ulps, where = worst(name, dtype, device, card)
    if found.ulps <= BOUNDS[dtype]:
        found.passed += 1
        return
    found.failed += 1
    found.messages[f"{found.ulps:.2f} units of the last place, {BOUNDS[dtype]:g} allowed: {where}"] += 1


def say(message: dict) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
