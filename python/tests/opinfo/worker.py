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
from torch.testing._internal.common_methods_invocations import op_db

from .judge import Verdict, dtypes, judge


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", required=True)
    parser.add_argument("--card", action="store_true")
    options = parser.parse_args()
    faulthandler.enable()
    torch.set_num_threads(1)
    device = torch.device(options.device)
    say({"operators": [name(op) for op in op_db]})
    for line in sys.stdin:
        op = op_db[int(line)]
        for dtype in dtypes(op, options.card):
            say({"dtype": str(dtype)[6:], "verdict": verdict(op, dtype, device, options.card)})
        say({"done": int(line)})


def verdict(op, dtype, device, card) -> dict:
    try:
        return judge(op, dtype, device, card).as_json()
    except Exception:  # noqa: BLE001 (an error of a generator is reported, not fatal)
        last = traceback.format_exc().strip().splitlines()[-1]
        return Verdict(failed=1, messages={f"generator: {last}": 1}).as_json()


def name(op) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def say(message: dict) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
