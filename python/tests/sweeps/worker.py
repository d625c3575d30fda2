"""Sweeps the operators whose numbers come in on stdin, one line of JSON out per dtype and kind of case.

`run.py` starts it, and ends it when one operator takes too long.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import traceback

import torch
from torch.testing._internal.common_methods_invocations import op_db

from opinfo.judge import Verdict
from opinfo.worker import name, say

from .cases import KINDS
from .judge import dtypes, judge


def main() -> None:
    faulthandler.enable()
    # What operators print is not what `run.py` reads.
    sys.stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    device = torch.device(sys.argv[sys.argv.index("--device") + 1])
    most = int(os.environ.get("SWEEPS_SAMPLES", "3"))
    kinds = [kind for kind in KINDS if kind in os.environ.get("SWEEPS_KINDS", kind)]
    say({"operators": [name(op) for op in op_db]})
    for line in sys.stdin:
        op = op_db[int(line)]
        for dtype in dtypes(op):
            for kind in kinds:
                say({"dtype": f"{str(dtype)[6:]}, {kind}", "verdict": verdict(op, dtype, kind, device, most)})
        say({"done": int(line)})


def verdict(op, dtype, kind, device, most) -> dict:
    try:
        return judge(op, dtype, kind, device, most).as_json()
    except Exception:  # noqa: BLE001 (an error of a case is reported, not fatal)
        last = traceback.format_exc().strip().splitlines()[-1]
        return Verdict(failed=1, messages={f"{kind}, the case itself: {last}": 1}).as_json()


if __name__ == "__main__":
    main()
