"""Results of all cases: the sums, the words of each cell, and a file that keeps them."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path

COUNTS = ("passed", "failed", "on_the_cpu", "refused", "unmeasured")


class Outcome:
    """The verdicts of every operator and dtype."""

    def __init__(self, rows: dict[str, dict[str, dict]] | None = None):
        self.rows: dict[str, dict[str, dict]] = rows or {}
        self.lock = threading.Lock()

    @classmethod
    def read(cls, path: Path) -> Outcome:
        return cls(json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.rows, indent=1, sort_keys=True))

    def add(self, name: str, dtype: str, verdict: dict) -> None:
        with self.lock:
            self.rows.setdefault(name, {})[dtype] = verdict

    def cells(self) -> Counter:
        """Number of cells by their word; all cells with failures count as `fails`."""
        words = (word(verdict) for row in self.rows.values() for verdict in row.values())
        return Counter("fails" if "/" in said else said for said in words)

    def total(self, count: str) -> int:
        return sum(verdict.get(count, 0) for row in self.rows.values() for verdict in row.values())

    @property
    def passed(self) -> int:
        return self.total("passed")

    @property
    def failed(self) -> int:
        return self.total("failed")

    def summary(self) -> str:
        cells = self.cells()
        measured = cells["ok"] + cells["fails"] + cells["CPU"]
        text = f"{cells['ok']} of {measured} cells ok, {cells['fails']} fail, {cells['CPU']} with the CPU's help; "
        return text + f"{self.passed} calls pass, {self.failed} fail, {self.total('on_the_cpu')} ask the CPU"


def word(verdict: dict) -> str:
    """Text of a cell of the table."""
    if not verdict:
        return "?"
    counts = {count: verdict.get(count, 0) for count in COUNTS}
    if counts["failed"]:
        return f"{counts['failed']}/{counts['passed'] + counts['failed'] + counts['on_the_cpu']}"
    if counts["on_the_cpu"]:
        return "CPU"
    if counts["passed"]:
        return "ok"
    return "refused" if counts["refused"] else "-"
