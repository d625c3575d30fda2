"""A fixed share of PyTorch's operators passes its bar; `python -m opinfo.run` measures them all."""

import os
import re
from pathlib import Path

import pytest

import children
from conftest import DEVICE

SHARES = {"open": ("3/8", 0.99), "card": ("1/1", 0.98)}
"""Per profile: each eighth operator or all of them, and the least share of samples that pass."""


@pytest.mark.parametrize("profile", ["open", "card"])
def test_operators_give_what_the_cpu_gives(profile, tmp_path):
    share, bar = SHARES[profile]
    share = os.environ.get("SPYRE_OPINFO_SHARE", share)
    table = tmp_path / "table.md"
    arguments = ["-m", "opinfo.run", "--device", DEVICE, "--share", share, "--table", str(table)]
    arguments += ["--bar", str(bar)]
    code, output = children.finish(children.start(arguments, SPYRE_PROFILE=profile), 900)

    found = re.search(r"(\d+) of (\d+) samples pass.*", output)
    assert found, output
    print(found[0])
    assert code == 0, f"{found[0]}, the bar is {bar}\n{failures(table)}"
    assert int(found[2]) > 1000, "too few samples to say anything"


def failures(table: Path) -> str:
    return table.read_text().partition("## All operators")[0]
