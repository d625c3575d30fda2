"""Results of all samples: the sums, and a table that names every class of failure."""

from __future__ import annotations

import re
import threading
from collections import Counter, defaultdict

COUNTS = ("passed", "by_shape_only", "by_float64", "failed", "refused", "unmeasured")


class Outcome:
    """The verdicts of every operator and dtype."""

    def __init__(self):
        self.rows: dict[str, dict[str, Counter]] = defaultdict(dict)
        self.messages: dict[str, Counter] = defaultdict(Counter)
        self.classes: dict[str, str] = {}
        self.lock = threading.Lock()

    def add(self, name: str, dtype: str, verdict: dict) -> None:
        with self.lock:
            self.rows[name][dtype] = Counter({key: verdict.get(key, 0) for key in COUNTS})
            for message, count in verdict["messages"].items():
                # Messages that differ in their numbers alone are one class: the first is shown.
                first = self.classes.setdefault(re.sub(r"[-+\d.e()]+", "#", message), message)
                self.messages[first][f"{name}[{dtype}]"] += count

    def total(self, key: str) -> int:
        with self.lock:
            return sum(counts[key] for row in self.rows.values() for counts in row.values())

    @property
    def passed(self) -> int:
        return self.total("passed")

    @property
    def failed(self) -> int:
        return self.total("failed")

    @property
    def share(self) -> float:
        return self.passed / max(1, self.passed + self.failed)

    def summary(self, card: bool) -> str:
        whole = self.passed + self.failed
        text = f"{self.passed} of {whole} samples pass ({100 * self.share:.2f} %), "
        text += f"{len(self.rows)} operators, {self.total('by_shape_only')} by shape and dtype only"
        if by_float64 := self.total("by_float64"):
            text += f", {by_float64} by float64"
        if card:
            text += f", {self.total('refused')} refused for what the card does not have"
        return text


def table(outcome: Outcome, card: bool) -> str:
    profile = "card" if card else "open"
    lines = [
        f"# Operators of PyTorch on spyre, profile `{profile}`",
        "",
        outcome.summary(card) + ".",
        "Fallback to the CPU is allowed. Written by `python -m opinfo.run`.",
        "",
    ]
    if outcome.messages:
        lines += ["## Failures, by message", "", "| samples | operators | message |", "|---|---|---|"]
        ranked = sorted(outcome.messages.items(), key=lambda item: -sum(item[1].values()))
        for message, where in ranked:
            names = ", ".join(name for name, _ in where.most_common(6))
            more = f" and {len(where) - 6} more" if len(where) > 6 else ""
            text = message.replace("|", "\\|").replace("\n", " ")
            lines.append(f"| {sum(where.values())} | {names}{more} | {text} |")
        lines.append("")
    lines += ["## All operators", "", "| operator | dtypes | pass | fail | refused |", "|---|---|---|---|---|"]
    for name, row in sorted(outcome.rows.items()):
        sums = sum(row.values(), Counter())
        counts = f"{sums['passed']} | {sums['failed']} | {sums['refused']}"
        lines.append(f"| {name} | {len(row)} | {counts} |")
    return "\n".join(lines) + "\n"
