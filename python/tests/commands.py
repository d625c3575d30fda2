"""The ``spyre`` command of this tree."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def command() -> list[str]:
    """The words that call `spyre`; the first call builds it."""
    return ["cargo", "run", "--quiet", "--release", "-p", "spyre-cli", "--"]


def run(*arguments: str | Path) -> str:
    """Calls `spyre` and returns what it prints."""
    made = subprocess.run(
        [*command(), *map(str, arguments)], capture_output=True, text=True, timeout=900, cwd=ROOT, check=False
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


def report(*arguments: str | Path) -> dict:
    """Calls `spyre` with `--json` and returns its report."""
    return json.loads(run(*arguments, "--json"))
