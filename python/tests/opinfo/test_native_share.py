"""A fixed share of PyTorch's operators runs on the device alone; `python -m opinfo.native` measures them all."""

import os
import re

import children
from conftest import DEVICE, needs_spyre

SHARE, BARS = "5/24", "0.6,0.97,0.95"
"""Each so many-th operator, and the least shares of operators, gradients and core ATen that are native."""


@needs_spyre
def test_operators_run_on_the_device_alone(tmp_path):
    table = tmp_path / "native.md"
    share = os.environ.get("SPYRE_NATIVE_SHARE", SHARE)
    arguments = ["-m", "opinfo.native", "--device", DEVICE, "--share", share, "--table", str(table), "--bars", BARS]
    code, output = children.finish(children.start(arguments), 900)

    found = re.search(r"native: op_db (\d+) of (\d+).*", output)
    assert found, output
    print(found[0])
    assert code == 0, f"{found[0]}, the bars are {BARS}\n{table.read_text()}"
    assert int(found[2]) >= 20, "too few operators to say anything"
