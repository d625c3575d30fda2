#!/usr/bin/env python3
"""Compiles a Llama block, in a process that does nothing else, and prints its seconds as JSON.

`compile_costs.py` runs it: `python first_compile.py spyre`. Names of modules on standard input are imported before the
clock starts. The names of those that were imported after that are printed, too.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import time
import warnings

import torch
import torch._inductor.compile_fx

from llama_block import Block


def main() -> None:
    warnings.simplefilter("ignore")
    (device,) = sys.argv[1:]
    for name in sys.stdin.read().split():
        with contextlib.suppress(Exception):  # some are made by a compilation, and are in no file
            importlib.import_module(name)
    torch.manual_seed(0)
    block = Block().to(device)
    x = torch.randn(1, 512, 512).to(device)
    torch.accelerator.synchronize()
    known = set(sys.modules)
    with torch.no_grad():
        compiled = torch.compile(block)
        start = time.perf_counter()
        compiled(x)
        torch.accelerator.synchronize()
        seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "imported": [name for name in sys.modules if name not in known]}))


if __name__ == "__main__":
    main()
