"""A rank that dies or comes late is an error on the others, in time, and not the end of their process."""

import children
import pytest

from . import ranks


@pytest.mark.parametrize(("case", "code"), [("killed", -9), ("late", 0)])
def test_others_go_on_without_a_rank(case, code):
    ended = [children.finish(child, 100) for child in ranks.start("failures", 2, case)]

    assert ended[0][0] == 0 and "passed" in ended[0][1], ended[0][1]
    assert ended[1][0] == code, ended[1][1]


def test_a_program_may_end_without_leaving_its_group():
    for code, output in (children.finish(child, 60) for child in ranks.start("failures", 2, "left")):
        assert code == 0 and "passed" in output, output
