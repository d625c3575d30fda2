"""Sweeps over PyTorch's `op_db`: python -m sweeps.run --all (from python/tests).

Results in views, of other dtypes and shapes, with shared memory; strides; empty tensors; NaN and infinities: each
call is made on the CPU and on the device, and differences are printed, unless `known_differences.py` has a reason for
it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections import Counter

from opinfo.run import Worker, run_into
from opinfo.table import Outcome

from .known_differences import KNOWN

SHARE = "5/32"
"""The part that is swept without `--all`: each so many-th operator."""


class Differences(Outcome):
    """The verdicts of every operator, and how often each known reason was one."""

    def __init__(self):
        super().__init__()
        self.known: Counter[str] = Counter()

    def add(self, name: str, dtype: str, verdict: dict) -> None:
        super().add(name, dtype, verdict)
        with self.lock:
            self.known.update(verdict.get("known", {}))


def main() -> int:
    options = parsed()
    os.environ["SWEEPS_SAMPLES"] = str(options.samples)
    if options.kinds:
        os.environ["SWEEPS_KINDS"] = options.kinds
    outcome = Differences()
    share = "1/1" if options.all or options.only else options.share

    def start() -> Worker:
        return Worker(options.device, False, "sweeps.worker")

    # A run that is ended early prints what it has found so far.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run_into(outcome, start, share, options.jobs, options.seconds, options.only)
    except KeyboardInterrupt:
        print("interrupted")
    print_differences(outcome, options.names)
    if options.all and not options.kinds:
        print_needless(outcome)
    sys.stdout.flush()
    return 1 if outcome.failed else 0


def print_differences(outcome: Differences, names: int) -> None:
    """Prints the differences, the most frequent first, and the sums."""
    for message, where in sorted(outcome.messages.items(), key=lambda item: -len(item[1])):
        some = ", ".join(sorted(where)[:names])
        print(f"{sum(where.values())}: {message}\n    {some}")
    for reason, count in outcome.known.most_common():
        print(f"known, {count}: {reason}")
    same, known = outcome.passed, outcome.known.total()
    print(f"{same} cases are as the CPU has them, {outcome.failed} are not, {known} are known not to be, ", end="")
    print(f"{len(outcome.rows)} operators")


def print_needless(outcome: Differences) -> None:
    """Prints the reasons of the table that no difference had."""
    for known in KNOWN:
        if known.reason not in outcome.known:
            print(f"needless: {known.reason} ({known.names}, {known.kinds})")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="spyre")
    parser.add_argument("--all", action="store_true", help="every operator, not a share of them")
    parser.add_argument("--share", default=SHARE, help="n/m: each m-th operator, from the n-th")
    parser.add_argument("--samples", type=int, default=3, help="samples of each operator and dtype, at most")
    parser.add_argument("--kinds", help="kinds of cases, with commas")
    parser.add_argument("--only", help="operators whose name holds this text")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 2))
    parser.add_argument("--seconds", type=float, default=300, help="limit per operator")
    parser.add_argument("--names", type=int, default=8, help="operators that are named per difference")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
