"""Collectives of 2 and 3 ranks give what the CPU computes, bit for bit; `python -m distributed.exactness` tries more."""

import re

import pytest

from . import ranks


@pytest.mark.parametrize(("size", "least"), [(2, 1000), (3, 1000)])
def test_every_collective_is_exact(size, least):
    sizes = ["0", "1", "63", "65"] if size == 3 else ["1", "64", "65", "1000"]
    for rank, output in enumerate(ranks.run("exactness", size, "--sizes", *sizes)):
        found = re.search(r"(\d+) results, (\d+) differences", output)
        assert found, output
        assert found[2] == "0", output
        assert int(found[1]) > least, f"rank {rank} compared too little to say anything: {output}"


def test_what_programs_call_besides():
    for output in ranks.run("surface", 2):
        assert output.count("passed ") >= 18, output
