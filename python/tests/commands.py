"""The ``spyre`` command, as it was built with the wheel."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def command() -> list[str]:
    """How it is called: as ``tools/python-env`` left it, or else built now."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = target / "release" / "spyre"
    return [str(built)] if built.exists() else ["cargo", "run", "--quiet", "--release", "-p", "spyre-cli", "--"]


def run(*arguments: str | Path) -> str:
    """What it prints."""
    made = subprocess.run(
        [*command(), *map(str, arguments)], capture_output=True, text=True, timeout=900, cwd=ROOT, check=False
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


def report(*arguments: str | Path) -> dict:
    """The same as JSON."""
    return json.loads(run(*arguments, "--json"))
