"""A fixed share of the table of operators and dtypes; `python -m optable.run` measures all of it."""

import os
import re

import pytest
import torch
from torch_spyre._C import SpyreTensorLayout
from torch_spyre.layouts import as_strided_with_layout

import children
from conftest import DEVICE, needs_spyre

from . import page
from .arrangements import ARRANGEMENTS, poison, repeated
from .case import DTYPES, SIZES, Make
from .catalogue import catalogue
from .coverage import unreached
from .rounding import arrived, as_card, returned
from .ulps import BOUNDS, FUNCTIONS, worst

SHARES = {"open": "14/48", "card": "7/16"}
"""Per profile: each so many-th operator."""


@needs_spyre
@pytest.mark.parametrize("profile", SHARES)
def test_operators_are_right_in_every_dtype_at_every_size_through_every_arrangement(profile, tmp_path):
    share = os.environ.get("SPYRE_OPTABLE_SHARE", SHARES[profile])
    arguments = ["-m", "optable.run", "--device", DEVICE, "--share", share, "--file", str(tmp_path / "verdicts.json")]
    code, output = children.finish(children.start(arguments, SPYRE_PROFILE=profile), 900)

    found = re.search(r"optable: .*; (\d+) calls pass.*", output)
    assert found, output
    print(found[0])
    assert code == 0, output
    assert int(found[1]) > 1000, "too few calls to say anything"


@needs_spyre
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_keep_their_bound_in_units_of_the_last_place(name, dtype):
    ulps, where = worst(name, dtype, torch.device(DEVICE), card=False)
    assert ulps <= BOUNDS[dtype], where


@needs_spyre
def test_every_operator_that_has_kernels_has_a_case():
    assert unreached(torch.device(DEVICE)) == []


@needs_spyre
@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_an_arrangement_keeps_the_values(name):
    for dtype in DTYPES:
        for size in SIZES:
            values = Make(dtype, 3)(3, size)
            values = repeated(values) if name == "expanded" else values
            there = ARRANGEMENTS[name](values, torch.device(DEVICE))
            assert torch.equal(there.cpu().to(torch.complex128), values.to(torch.complex128)), (dtype, size)


@needs_spyre
def test_padding_stays_poisoned_when_values_are_written():
    values = Make(torch.float16, 3)(3, 65)
    layout = SpyreTensorLayout([3, 65], torch.float16)
    sticks = poison([torch.Size(layout.device_size).numel()], torch.float16).to(DEVICE)

    as_strided_with_layout(sticks, (3, 65), (65, 1), 0, layout).copy_(values.to(DEVICE))

    assert (~sticks.cpu().isfinite()).sum() == sticks.numel() - values.numel() > 0


def test_the_judges_model_of_the_card_is_the_published_one():
    inf, nan = float("inf"), float("nan")
    there = arrived(torch.tensor([inf, -inf, nan, 65504.0, 1 + 2.0**-10, 0.0], dtype=torch.float16))
    assert there.tolist() == [65536.0, -65536.0, 98304.0, 65536.0, 1 + 2.0**-9, 0.0]

    last, first = torch.tensor([0x4FFF9FFF, 0x4FFFA000], dtype=torch.int32).view(torch.float32).double().tolist()
    computed = torch.tensor([nan, -inf, -1e38, last, -first, 2.0**-31, -(2.0**-40)], dtype=torch.float64)
    assert as_card(computed).tolist() == [inf, -inf, -inf, 2.0**33 - 2.0**24, -inf, 0.0, 0.0]
    assert as_card(computed).signbit().tolist() == [False, True, True, False, True, False, True]
    assert returned(computed).tolist()[:4] == [65536.0, -65536.0, -65536.0, 65536.0]


def test_the_page_has_a_row_for_every_operator():
    rows = re.findall(r"^\| ([^|]+?) \|", page.PAGE.read_text(), re.MULTILINE)
    assert set(catalogue()) <= set(rows), "write it anew: python -m optable.page"
