"""Judges the operators whose numbers come in on stdin, one line of JSON for each sample.

`compiled.opinfo` starts it, and ends it when one operator takes too long.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys

os.environ.setdefault("TORCH_WARM_POOL", "0")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch
import torch._inductor.config
from opinfo.worker import name, say
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db

from .opinfo_judge import DTYPE, Verdict, message_of, verdicts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", required=True)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--gradients", type=int, required=True)
    options = parser.parse_args()
    faulthandler.enable()
    torch.set_num_threads(1)
    torch._inductor.config.fallback_random = True
    torch._inductor.config.force_disable_caches = True
    # Dynamo leaves a function that seeds to the interpreter. The judge seeds, so that what draws is compiled.
    common_methods_invocations.wrapper_set_seed = lambda op, *args, **named: op(*args, **named)
    judged = [op for op in op_db if DTYPE in op.supported_dtypes("cpu")]
    say({"operators": [name(op) for op in judged]})
    for line in sys.stdin:
        for verdict in guarded(judged[int(line)], torch.device(options.device), options.samples, options.gradients):
            say({"dtype": "float32", "verdict": verdict})
        say({"done": int(line)})


def guarded(op, device: torch.device, samples: int, gradients: int):
    """The verdicts of an operator; an error of its generator is one, too."""
    try:
        yield from verdicts(op, device, samples, gradients)
    except Exception as error:  # noqa: BLE001 (reported, not fatal)
        yield vars(Verdict("forward", "eager fails", f"generator: {message_of(error)}"))


if __name__ == "__main__":
    main()
