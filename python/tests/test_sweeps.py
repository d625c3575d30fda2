"""A fixed share of PyTorch's operators does what the CPU does with results, memory, strides and special numbers;
`python -m sweeps.run --all` sweeps over all of them."""

import re

import children
from conftest import DEVICE


def test_a_share_of_the_operators_does_as_the_cpu_does():
    arguments = ["-m", "sweeps.run", "--device", DEVICE, "--samples", "2"]
    code, output = children.finish(children.start(arguments), 600)

    found = re.search(r"(\d+) cases are as the CPU has them, (\d+) are not.*", output)
    assert found, output
    assert code == 0, output
    assert int(found[1]) > 500, "too few cases to say anything"
