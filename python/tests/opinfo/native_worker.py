"""Judges how native the operators are whose numbers come in on stdin: one line of JSON for each.

`native.py` starts it, and ends it when one operator takes too long.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
from dataclasses import asdict

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch_spyre.ops.decompositions import decomposition_stats

from .core import core_verdicts
from .native_judge import Native, Overloads, backward, dtype_of, forward
from .worker import name, say


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", required=True)
    device = torch.device(parser.parse_args().device)
    faulthandler.enable()
    torch.set_num_threads(1)
    say({"operators": [*(name(op) for op in op_db), "core"]})
    for line in sys.stdin:
        number = int(line)
        verdict = judged(op_db[number], device) if number < len(op_db) else core_verdicts(device)
        say({"dtype": "float32", "verdict": verdict})
        say({"done": number})


def judged(op, device: torch.device) -> dict:
    overloads, before = Overloads(), decomposition_stats()
    dtype = dtype_of(op)
    ahead = Native() if dtype is None else forward(op, dtype, device, overloads)
    has_gradients = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    back = backward(op, dtype, device) if has_gradients and ahead.is_native else Native()
    parts = {name for name, count in decomposition_stats().items() if count != before.get(name, 0)}
    return {
        "dtype": str(dtype)[6:],
        "forward": asdict(ahead),
        "backward": asdict(back),
        "called": overloads.called,
        "failed": overloads.failed,
        "decomposed": sorted(parts),
    }


if __name__ == "__main__":
    main()
