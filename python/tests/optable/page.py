"""Writes docs/op-table.md: python -m optable.page open.json card.json (from python/tests).

The files are what `python -m optable.run` kept, once for each profile.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .case import DTYPES
from .catalogue import kinds
from .outcome import Outcome, word
from .ulps import BOUNDS, FUNCTIONS

PAGE = Path(__file__).parents[3] / "docs" / "op-table.md"
SHORT = {
    "bool": "bool", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float16": "f16",
    "bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex32": "c32", "complex64": "c64",
    "complex128": "c128",
}  # fmt: skip
HEAD = """# Operators and dtypes

Measured by `python -m optable.run` and written by `python -m optable.page`. Every operator that has kernels runs with
fallbacks forbidden, in each dtype, at the sizes 0, 1, 63, 64, 65, 129 and 4000 (4000 where the work does not grow with
its square), on operands that are plain, transposed, every other element of a larger tensor, the middle of one,
expanded, in sticks of the first dimension, and in sticks whose padding is NaN; larger tensors are NaN around the
operands, too. For integers, a large number takes the place of NaN. Results are compared with PyTorch's CPU, or with
float64, at PyTorch's tolerance for the dtype; long sums relative to the largest of their terms and results. `card` is
float16 under `SPYRE_PROFILE=card`: the card's own 16-bit float, compared with float64 on the values that it stored, to
one unit of the last place. There, an infinity becomes 65536 and NaN becomes 98304; the padding has both, and no NaN
comes back: see [pytorch.md](pytorch.md).

PyTorch computes some operators in several steps, such as `ndtr`, `tanhshrink` or two steps of an optimiser, and stores
the result of each. In 16-bit formats such a result may also agree with float64 that is rounded to the format after each
step: a difference of two rounded numbers cannot recover what the rounding lost. Gradients of norms are computed for
another random output gradient: for a norm's own result, all of the gradient would be such differences. Sorts that are
not stable are judged by the elements at the indices that they return.

- **ok**: all calls run on the device alone, and are right.
- **3/49**: wrong in 3 of 49 calls.
- **CPU**: all calls that run on the device are right; at least one call falls back to the CPU.
- **-**: PyTorch's CPU does not have the operator in this dtype.
- **?**: not measured since the row was added.
"""


def main() -> int:
    opened, card = (Outcome.read(Path(path)) for path in sys.argv[1:3])
    PAGE.write_text(page(opened, card))
    return 0


def page(opened: Outcome, card: Outcome) -> str:
    parts = [HEAD, "## Totals", "", *totals(opened, card), "", "## Accuracy", "", *accuracy(opened, card)]
    for kind, names in kinds().items():
        parts += ["", f"## {kind[0].upper()}{kind[1:]}", "", *table(names, opened, card)]
    return "\n".join([*parts, "", "## What fails", "", *failures(opened, card)]) + "\n"


def totals(opened: Outcome, card: Outcome) -> list[str]:
    lines = ["| profile | ok | fails | CPU | - | calls that pass | that fail | that need the CPU |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for profile, outcome in (("open", opened), ("card", card)):
        cells = outcome.cells()
        counts = [cells["ok"], cells["fails"], cells["CPU"], cells["-"] + cells["refused"], outcome.passed]
        counts += [outcome.failed, outcome.total("on_the_cpu")]
        lines.append(f"| {profile} | {' | '.join(map(str, counts))} |")
    return lines


def accuracy(opened: Outcome, card: Outcome) -> list[str]:
    """The largest errors, in units of the last place: of every 16-bit number, of about a million of float32."""
    dtypes = [str(dtype)[6:] for dtype in BOUNDS]
    lines = ["The largest error in units of the last place, of all numbers of the 16-bit formats and of a million of"]
    lines += ["float32, from a result in float64. Allowed are 1 and 2.", ""]
    lines += [f"| function | {' | '.join(map(SHORT.get, dtypes))} | card |", "|---" * (len(dtypes) + 2) + "|"]
    for name in FUNCTIONS:
        found = [opened.rows.get(name, {}).get(dtype, {}).get("ulps") for dtype in dtypes]
        found.append(card.rows.get(name, {}).get("float16", {}).get("ulps"))
        cells = ["-" if ulps is None else f"{ulps:.2f}" for ulps in found]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def table(names: list[str], opened: Outcome, card: Outcome) -> list[str]:
    dtypes = [str(dtype)[6:] for dtype in DTYPES]
    lines = [f"| op | {' | '.join(map(SHORT.get, dtypes))} | card |", "|---" * (len(dtypes) + 2) + "|"]
    for name in names:
        cells = [word(opened.rows.get(name, {}).get(dtype, {})) for dtype in dtypes]
        cells.append(word(card.rows.get(name, {}).get("float16", {})))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def failures(opened: Outcome, card: Outcome) -> list[str]:
    """One line for each cell, with the first message."""
    lines = [
        f"- {name}, {dtype if outcome is opened else 'card'}: {first(verdict)}"
        for outcome in (opened, card)
        for name, row in sorted(outcome.rows.items())
        for dtype, verdict in row.items()
        if verdict.get("failed")
    ]
    return lines or ["Nothing."]


def first(verdict: dict) -> str:
    message = next((text for text in verdict["messages"] if "NotImplementedError" not in text), "")
    return message.replace("|", ";").replace("\n", " ")[:200]


if __name__ == "__main__":
    sys.exit(main())
