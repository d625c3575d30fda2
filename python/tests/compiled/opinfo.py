"""Every operator of PyTorch's `op_db`, compiled for the device: python -m compiled.opinfo (from python/tests).

Samples of float32, evenly spaced, forward and with gradients, are run on the CPU, eagerly on the device, and there by
`torch.compile` with its default backend. Of those that pass eagerly at PyTorch's own tolerances, it counts those that
pass compiled. Random numbers are compared with those that eager draws after the same seed (`fallback_random`).
Writes a table that names every failure, and prints one summary.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from opinfo.run import TARGET, Worker, run_into

WAYS = ("forward", "gradients")
ENDS = ("passed", "failed", "apart")
"""Outcomes of a sample that was compiled."""


class Outcome:
    """The verdicts of every operator."""

    def __init__(self) -> None:
        self.rows: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
        """Counts of samples by operator: of a way and its outcome."""
        self.messages: dict[str, Counter[tuple[str, str, str]]] = defaultdict(Counter)
        """Counts of messages by outcome: of an operator and its message."""
        self.broken: Counter[str] = Counter()
        """Samples that passed with a broken graph."""
        self.lock = threading.Lock()

    def add(self, name: str, _dtype: str, verdict: dict[str, Any]) -> None:
        if "outcome" not in verdict:
            verdict = self._of_the_end(name, next(iter(verdict["messages"])))
        way, outcome = verdict["way"], verdict["outcome"]
        with self.lock:
            self.rows[name][way, outcome] += 1
            self.broken[name] += verdict.get("breaks", False)
            if verdict["message"]:
                self.messages[outcome][name, way, verdict["message"]] += 1

    def _of_the_end(self, name: str, message: str) -> dict[str, Any]:
        """The verdict on a sample whose process ended, or took too long."""
        row = self.rows[name]
        way = "gradients" if any(row["gradients", outcome] for outcome in (*ENDS, "compiles")) else "forward"
        is_compiling = row[way, "compiles"] > sum(row[way, outcome] for outcome in ENDS)
        return {"way": way, "outcome": "failed" if is_compiling else "eager fails", "message": message}

    def count(self, outcome: str, ways: tuple[str, ...] = WAYS) -> int:
        with self.lock:
            return sum(row[way, outcome] for row in self.rows.values() for way in ways)

    @property
    def passed(self) -> int:
        return self.count("passed")

    @property
    def failed(self) -> int:
        return self.count("failed")

    @property
    def share(self) -> float:
        return self.passed / max(1, self.passed + self.failed)

    def operators(self) -> tuple[int, int]:
        """The operators whose samples all pass compiled, and all that have samples that pass eagerly."""
        failed = [sum(row[way, "failed"] for way in WAYS) for row in self.rows.values()]
        passed = [sum(row[way, "passed"] for way in WAYS) for row in self.rows.values()]
        measured = [bad for bad, good in zip(failed, passed) if bad or good]
        return measured.count(0), len(measured)

    def summary(self) -> str:
        parts = [f"compiled: {ratio(self.passed, self.passed + self.failed)} of the samples that pass eagerly"]
        for way in WAYS:
            passed = self.count("passed", (way,))
            parts.append(f"{way} {ratio(passed, passed + self.count('failed', (way,)))}")
        parts.append(f"operators {ratio(*self.operators())}")
        rest = f"{sum(self.broken.values())} pass with broken graphs, {self.count('apart')} random ones apart, "
        rest += f"{self.count('eager fails')} fail eagerly, {self.count('refused')} refused by the CPU"
        return f"{', '.join(parts)}; {rest}"


def ratio(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / max(1, whole):.2f} %)"


TITLES = {"failed": "Failures", "apart": "Random numbers, judged by shape", "eager fails": "Failures of eager"}


def table(outcome: Outcome, samples: int, gradients: int) -> str:
    lines = ["# Compiled operators of PyTorch on spyre", "", f"{outcome.summary()}.", ""]
    lines += [f"At most {samples} samples per operator forward and {gradients} with gradients, evenly spaced.", ""]
    for kind, title in TITLES.items():
        lines += [f"## {title}", "", "| operator | way | samples | message |", "|---|---|---|---|"]
        for (name, way, message), count in sorted(outcome.messages[kind].items()):
            text = message.replace("|", "\\|").replace("\n", " ")
            lines.append(f"| {name} | {way} | {count} | {text} |")
        lines.append("")
    broken = [name for name, count in sorted(outcome.broken.items()) if count]
    lines += ["## Broken graphs", "", ", ".join(broken) or "None.", "", "## All operators", ""]
    lines += ["| operator | forward | gradients |", "|---|---|---|"]
    for name, row in sorted(outcome.rows.items()):
        cells = (f"{row[way, 'passed']}/{row[way, 'passed'] + row[way, 'failed']}" for way in WAYS)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    options = parsed()
    outcome = Outcome()
    further = ["--samples", str(options.samples), "--gradients", str(options.gradients)]
    start = lambda: Worker(options.device, False, "compiled.opinfo_worker", further)  # noqa: E731
    run_into(outcome, start, options.share, options.jobs, options.seconds, options.filter)
    path = Path(options.table or TARGET / "compiled.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(table(outcome, options.samples, options.gradients))
    for (name, way, message), count in sorted(outcome.messages["failed"].items()):
        print(f"{name}, {way}, {count} samples: {message}")
    print(outcome.summary())
    print(f"at most {options.samples} samples forward and {options.gradients} with gradients; table: {path}")
    return 0 if outcome.share >= options.bar else 1


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="spyre")
    parser.add_argument("--share", default="1/1", help="n/m: each m-th operator, from the n-th")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--seconds", type=float, default=120, help="limit per operator")
    parser.add_argument("--filter", help="operators whose name holds this text")
    parser.add_argument("--samples", type=int, default=6, help="most samples of an operator, forward")
    parser.add_argument("--gradients", type=int, default=3, help="most samples of an operator, with gradients")
    parser.add_argument("--table", help="file for the table")
    parser.add_argument("--bar", type=float, default=0.0, help="least share of samples that pass compiled")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
