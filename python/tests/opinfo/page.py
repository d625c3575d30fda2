"""Writes docs/operators.md: python -m opinfo.page [table] (from python/tests).

The table is what `python -m opinfo.native` wrote; without one, only the lists of overloads are written anew, from the
registry that is installed: kernels are added more often than the table is measured.
"""

from __future__ import annotations

import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "operators.md"
TITLES = {"native": "## Overloads that are kernels", "composite": "## Overloads that are composites"}
ABOUT = {
    "native": "",
    "composite": "Functions of `torch_spyre.ops.composites` carry these out as other operators, if no kernel takes a call. What is"
    "\nin neither list is PyTorch's to decompose, or the CPU's.\n\n",
}
SIGNS = {"kernels": "kernel", "parts": "parts", "views": "view"}
HEAD = """# Operators

Measured by `python -m opinfo.native`, with fallbacks forbidden, and written by `python -m opinfo.page`. For each
operator of PyTorch's `op_db`, all float32 samples (or, if there are none, all samples of the dtype that is named) run
and are compared with the CPU. The column `forward` says how the operator runs:

- **kernel**: by kernels of the device.
- **parts**: as other operators that have kernels, forward or backward.
- **view**: without moving data.
- **CPU**: with a fallback to the CPU for at least one sample.
- **-**: there are no samples that the CPU takes.

The column `gradient` says the same of gradients; `-` means that there are none, or that the operator itself needs the
CPU.
"""


def main() -> int:
    from torch_spyre import _C

    if len(sys.argv) > 1:
        table = measured(Path(sys.argv[1]).read_text())
    else:
        table = PAGE.read_text().partition(TITLES["native"])[0]
    lists = [f"{title}\n\n{ABOUT[way]}{wrapped(names_of(_C.operators(), way))}" for way, title in TITLES.items()]
    PAGE.write_text(table + "\n".join(lists))
    return 0


def names_of(rows: list[tuple[str, list[str]]], way: str) -> list[str]:
    """The overloads of the registry that are carried out in a way."""
    return [name for name, ways in rows if way in ways]


def measured(table: str) -> str:
    """The page's first part, from a table of `native.py`."""
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| operator |")]
    summary = next(line for line in table.splitlines() if line.startswith("native: "))
    lines = [HEAD, summary.replace("native: ", "When it was last measured, on the device alone: "), ""]
    lines += ["| operator | dtype | forward | gradient |", "|---|---|---|---|"]
    for name, dtype, ahead, back, way in ([cell.strip() for cell in row.split("|")[1:6]] for row in rows):
        dtype = dtype or "-"
        forward = "-" if ahead == "0/0" else SIGNS[way] if passed(ahead) else "CPU"
        gradient = "-" if back == "0/0" else "device" if passed(back) else "CPU"
        lines.append(f"| {name} | {dtype} | {forward} | {gradient} |")
    return "\n".join([*lines, "", ""])


def passed(samples: str) -> bool:
    good, _, total = samples.partition("/")
    return good == total != "0"


def wrapped(names: list[str]) -> str:
    """Names in lines of a readable length."""
    lines = [""]
    for name in sorted(names):
        word = f"`{name}`"
        if len(lines[-1]) + len(word) > 108:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{word}"
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
