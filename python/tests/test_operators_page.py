"""The page of operators is about those that there are."""

import re
from pathlib import Path

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch_spyre import _C

from conftest import needs_spyre

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


@needs_spyre
def test_the_page_has_every_overload_that_is_a_kernel():
    listed = re.findall(r"`([^`]+)`", PAGE.read_text().partition("## Overloads that are kernels")[2])

    assert listed == sorted(_C.native_ops()), "write them anew: python -m opinfo.page"


def test_the_page_has_every_operator():
    listed = re.findall(r"^\| (\S+) \| \S+ \| (?:kernel|parts|view|CPU|-) \|", PAGE.read_text(), re.MULTILINE)
    known = {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name for op in op_db}

    assert set(listed) == known, f"PyTorch is {torch.__version__}: measure it anew, python -m opinfo.native"
