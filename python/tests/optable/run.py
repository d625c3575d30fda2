"""Measures the table: python -m optable.run (from python/tests).

Every case of every operator runs with fallbacks forbidden, in all dtypes, at all sizes, through all arrangements of
its operands, and is compared with the CPU; the functions that have a bound in units of the last place are compared
with float64. Under `SPYRE_PROFILE=card`, float16 alone, with float64 on what the card stored. Prints what went wrong
and the sums, and keeps everything in a file for `python -m optable.page`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from opinfo.run import TARGET, Worker, run_into

from .outcome import Outcome, word


def main() -> int:
    options = parsed()
    card = os.environ.get("SPYRE_PROFILE", "open").strip().lower() == "card"
    outcome = Outcome()
    start = lambda: Worker(options.device, card, "optable.worker")  # noqa: E731
    run_into(outcome, start, options.share, options.jobs, options.seconds, options.only)
    path = Path(options.file or TARGET / f"optable-{'card' if card else 'open'}.json")
    outcome.write(path)
    for line in findings(outcome):
        print(line)
    print(f"optable: {outcome.summary()}")
    print(f"file: {path}")
    return 1 if outcome.failed > options.failures else 0


def findings(outcome: Outcome) -> list[str]:
    """The cells that are not well, with the first message of each."""
    return [
        f"{name} [{dtype}] {word(verdict)}: {next(iter(verdict['messages']), '')}"
        for name, row in sorted(outcome.rows.items())
        for dtype, verdict in row.items()
        if verdict.get("failed") or verdict.get("on_the_cpu")
    ]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="spyre")
    parser.add_argument("--share", default="1/1", help="n/m: each m-th operator, from the n-th")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--seconds", type=float, default=300, help="limit per operator")
    parser.add_argument("--only", help="operators whose name holds this text")
    parser.add_argument("--file", help="where the verdicts go")
    parser.add_argument("--failures", type=int, default=0, help="how many calls may fail")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
