"""Runs random programs with faults: `python -m faults.run --programs 2000`.

Fails if a stream is dead afterwards, a result is wrong, or something that was cancelled looks like a result.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import torch

from .program import Program, Wrong


def run(programs: int, first: int, steps: int) -> tuple[int, list[str]]:
    """Runs programs of seeds from `first` on: how many faults there were, and what went wrong."""
    streams = [torch.spyre.default_stream(), torch.spyre.Stream(), torch.spyre.Stream(priority=-1)]
    faults, wrong = 0, []
    for seed in range(first, first + programs):
        program = Program(seed, streams)
        try:
            program.run(steps)
        except Wrong as error:
            wrong.append(str(error))
        faults += program.faults
    return faults, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    started = time.monotonic()
    faults, wrong = run(options.programs, options.first, options.steps)
    for line in wrong[:20]:
        print(line)
    seconds = time.monotonic() - started
    print(f"{options.programs} programs, {faults} faults, {len(wrong)} wrong, {seconds:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
