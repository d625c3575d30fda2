"""Fixtures and markers that the tests share."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
import torch

os.environ.setdefault("TORCH_WARM_POOL", "0")  # Inductor's helpers compile for Triton, which no test here asks for

DEVICE = os.environ.get("SPYRE_TEST_DEVICE", "spyre")
"""Another device shows that the proofs themselves are right: SPYRE_TEST_DEVICE=cpu."""

needs_spyre = pytest.mark.skipif(DEVICE != "spyre", reason="asks for what only spyre has")


# What test files draw while they are imported.
torch.manual_seed(0)


@pytest.fixture(autouse=True)
def same_random_numbers():
    """Every run of a test draws the same, whichever tests ran before it."""
    torch.manual_seed(0)


@pytest.fixture
def device() -> torch.device:
    """The device under test."""
    return torch.device(DEVICE)


@pytest.fixture
def no_fallback():
    """An operator that would run on the CPU raises."""
    from torch_spyre.ops.fallbacks import fallback_mode, set_fallback_mode

    mode = fallback_mode()
    set_fallback_mode("error")
    yield
    set_fallback_mode(mode)


@pytest.fixture
def python():
    """Runs code in a process of its own, in which nothing has happened yet."""

    def run(code: str, *arguments: str, check: bool = True, timeout: int = 120, **environment: str | None):
        variables = {**os.environ, **{name: value for name, value in environment.items() if value is not None}}
        for name in (name for name, value in environment.items() if value is None):
            variables.pop(name, None)
        result = subprocess.run(
            [sys.executable, *arguments, "-c", textwrap.dedent(code)],
            env=variables, capture_output=True, text=True, timeout=timeout,
        )  # fmt: skip
        assert not check or result.returncode == 0, f"{result.returncode}: {result.stderr}"
        return result

    return run
