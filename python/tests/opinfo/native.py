"""Measures how much of PyTorch runs on the device alone: python -m opinfo.native (from python/tests).

An operator of `op_db` is native when all of its float32 samples pass with fallbacks forbidden, at PyTorch's
tolerances from the CPU's result or from that of float64, and the device's counters say that nothing was copied to
the host. A read-back that is the operator's
meaning (`item`, `nonzero`) is no fallback. Gradients are judged likewise, for operators that are native. A core
ATen operator is native when it was called and nothing went wrong. Writes a table and prints the three shares.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections import Counter
from pathlib import Path

from .run import TARGET, Worker, run_into


class Outcome:
    """The verdicts of every operator."""

    def __init__(self):
        self.rows: dict[str, dict] = {}
        self.called, self.wrong, self.why = Counter(), Counter(), {}
        self.core: list[str] = []
        self.lock = threading.Lock()

    def add(self, name: str, _dtype: str, verdict: dict) -> None:
        with self.lock:
            self.called.update(verdict.get("called", {}))
            self.wrong.update(verdict.get("failed", {}) if "called" in verdict else {})
            if name == "core":
                self.core, self.why = verdict.get("core", []), verdict.get("first", {})
                return
            if "forward" not in verdict:
                # The process ended, or took too long.
                lost = {"passed": 0, "failed": 1, "launches": 0, "first": next(iter(verdict["messages"]))}
                verdict = {"forward": lost, "backward": {**lost, "failed": 0}, "decomposed": [], "dtype": "-"}
            self.rows[name] = verdict

    @property
    def passed(self) -> int:
        return sum(row["forward"]["passed"] for row in self.rows.values())

    @property
    def failed(self) -> int:
        return sum(row["forward"]["failed"] for row in self.rows.values())

    def measured(self) -> list[str]:
        """Operators that have samples which the CPU takes."""
        return [name for name, row in self.rows.items() if row["forward"]["passed"] or row["forward"]["failed"]]

    def native(self) -> list[str]:
        return [name for name in self.measured() if not self.rows[name]["forward"]["failed"]]

    def differentiable(self) -> list[str]:
        back = {name: self.rows[name]["backward"] for name in self.native()}
        return [name for name, row in back.items() if row["passed"] or row["failed"]]

    def native_gradients(self) -> list[str]:
        return [name for name in self.differentiable() if not self.rows[name]["backward"]["failed"]]

    def native_core(self) -> list[str]:
        return [name for name in self.core if self.called[name] and not self.wrong[name]]

    def shares(self) -> dict[str, tuple[int, int]]:
        shares = {"op_db": (len(self.native()), len(self.measured()))}
        shares["gradients"] = (len(self.native_gradients()), len(self.differentiable()))
        if self.core:
            shares["core ATen"] = (len(self.native_core()), len(self.core))
        return shares

    def summary(self) -> str:
        parts = [f"{name} {a} of {b} ({100 * a / max(1, b):.1f} %)" for name, (a, b) in self.shares().items()]
        return "native: " + ", ".join(parts)


def table(outcome: Outcome) -> str:
    lines = ["# What runs on spyre alone", "", outcome.summary() + ".", ""]
    lines += ["Written by `python -m opinfo.native`.", "", "## Core ATen operators that do not", ""]
    missing = sorted(set(outcome.core) - set(outcome.native_core()))
    lines += [f"- `{name}`: {outcome.why.get(name) or reason(outcome, name)}" for name in missing] + [""]
    lines += ["## Operators of `op_db`", "", "| operator | dtype | forward | backward | as | first that fails |"]
    lines += ["|---|---|---|---|---|---|"]
    for name, row in sorted(outcome.rows.items()):
        ahead, back = row["forward"], row["backward"]
        way = "parts" if row["decomposed"] else "kernels" if ahead["launches"] else "views"
        first = (ahead["first"] or back["first"]).replace("|", "\\|")
        counts = " | ".join(f"{part['passed']}/{part['passed'] + part['failed']}" for part in (ahead, back))
        lines.append(f"| {name} | {row['dtype']} | {counts} | {way} | {first} |")
    return "\n".join(lines) + "\n"


def reason(outcome: Outcome, name: str) -> str:
    return f"{outcome.wrong[name]} of {outcome.called[name]} calls went wrong" if outcome.called[name] else "not called"


def main() -> int:
    options = parsed()
    outcome = Outcome()
    start = lambda: Worker(options.device, False, "opinfo.native_worker")  # noqa: E731
    run_into(outcome, start, options.share, options.jobs, options.seconds, options.only)
    path = Path(options.table or TARGET / "native.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(table(outcome))
    print(outcome.summary())
    print(f"table: {path}")
    bars = zip(("op_db", "gradients", "core ATen"), options.bars.split(","), strict=True)
    shares = outcome.shares()
    low = [name for name, bar in bars if name in shares and shares[name][0] < float(bar) * shares[name][1]]
    return 1 if low else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="spyre")
    parser.add_argument("--share", default="1/1", help="n/m: each m-th operator, from the n-th")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--seconds", type=float, default=120, help="limit per operator")
    parser.add_argument("--only", help="operators whose name holds this text")
    parser.add_argument("--table", help="file for the table")
    parser.add_argument("--bars", default="0,0,0", help="least shares of op_db, gradients and core ATen")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
