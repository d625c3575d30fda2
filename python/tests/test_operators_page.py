"""The page of operators is about those that there are, and so is the registry that it is printed from."""

import re
from pathlib import Path

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch_spyre import _C

from conftest import needs_spyre
from opinfo.page import TITLES, names_of

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def listed(title: str) -> list[str]:
    return re.findall(r"`([^`]+)`", PAGE.read_text().partition(title)[2].partition("\n## ")[0])


@needs_spyre
def test_the_page_has_every_overload_of_the_registry():
    rows = _C.operators()

    assert listed(TITLES["native"]) == sorted(names_of(rows, "native")), "write them anew: python -m opinfo.page"
    assert listed(TITLES["composite"])[1:] == sorted(names_of(rows, "composite"))
    assert names_of(rows, "native") == sorted(_C.native_ops())


@needs_spyre
def test_every_composite_has_a_row_and_every_row_a_composite():
    from torch_spyre.ops import composites

    named = {name.removeprefix("aten::") for name in composites.FUNCTIONS}

    assert named == set(names_of(_C.operators(), "composite")), "crates/aten/src/registry/composites.rs lists them"


@needs_spyre
def test_every_row_is_an_overload_of_pytorchs():
    names = [name.partition(".") for name, _ in _C.operators() if "::" not in name]

    assert [row for row in names if (row[2] or "default") not in getattr(torch.ops.aten, row[0]).overloads()] == []


def test_the_page_has_every_operator():
    listed = re.findall(r"^\| (\S+) \| \S+ \| (?:kernel|parts|view|CPU|-) \|", PAGE.read_text(), re.MULTILINE)
    known = {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name for op in op_db}

    assert set(listed) == known, f"PyTorch is {torch.__version__}: measure it anew, python -m opinfo.native"
