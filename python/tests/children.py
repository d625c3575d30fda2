"""Child processes of the tests: a profile and a number of cards are a process's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent


def start(arguments: list[str], wrapper: Sequence[str] = (), **settings: str) -> subprocess.Popen:
    """Starts `python arguments...` from the tests' folder, with `settings` in its environment.

    ``wrapper`` is a command that runs it.
    """
    environment = {**os.environ, **settings}
    return subprocess.Popen(
        [*wrapper, sys.executable, *arguments],
        cwd=HERE,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(child: subprocess.Popen, seconds: float) -> tuple[int, str]:
    """Waits for a child; one that hangs is ended with all that it started, and its code is -9."""
    try:
        output, _ = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        output, _ = child.communicate()
        output += f"\n(no end within {seconds} s)"
    return child.returncode, output


def script(text: str, seconds: float = 120, **settings: str) -> str:
    """Runs Python text in a child and gives what it printed; fails with all of it otherwise."""
    code, output = finish(start(["-c", text], **settings), seconds)
    assert code == 0, f"exit code {code}\n{output}"
    return output
