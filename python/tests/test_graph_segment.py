"""`GraphSegment`, one call for several launches of a compiled graph."""

import gc
import re

import pytest
import torch
from torch._inductor.utils import run_and_get_code

from torch_spyre import _C

SCALED = """
kernel scaled(n) {
    in x: float32[n]
    out y: float32[n]
    scalar k: f64
    y = x * f32(k)
}
"""
LENGTH = 1 << 18


@pytest.fixture(scope="module")
def launch():
    """A launch of one buffer and one scalar, which makes a tensor of as many elements."""
    kernel = _C._compile_kernel(SCALED)
    operands = [(0, (LENGTH,), (1,), 0), (1, (LENGTH,), (1,), 0)]
    return _C.GraphLaunch(kernel, 0, (1, 0, 1), [(torch.float32, (LENGTH,), (1,))], operands)


@pytest.fixture
def x():
    return torch.rand(LENGTH).to("spyre")


def chain(launch, count, kept=None):
    """Launches that each read what the one before them makes."""
    steps = [(launch, [at], [0]) for at in range(count)]
    return _C.GraphSegment(steps, (1, 1), [count - 1] if kept is None else kept)


def test_launches_read_what_those_before_them_make(launch, x):
    made = chain(launch, 3)([x], 2.0)
    assert torch.equal(made.cpu(), x.cpu() * 8)


def test_results_are_given_in_the_order_in_which_they_are_kept(launch, x):
    third, first = chain(launch, 3, kept=[2, 0])([x], 2.0)
    assert torch.equal(third.cpu(), x.cpu() * 8)
    assert torch.equal(first.cpu(), x.cpu() * 2)
    assert chain(launch, 3, kept=[])([x], 2.0) is None


def test_values_have_places(launch, x):
    segment = _C.GraphSegment([(launch, [0], [1]), (launch, [1], [0])], (1, 3), [1])
    assert torch.equal(segment([x], 3.0, 0.5, 7.0).cpu(), x.cpu() * 0.5 * 3)


def test_what_no_launch_reads_any_more_is_free(launch, x):
    segment = chain(launch, 20)
    segment([x], 1.0)
    torch.spyre.synchronize()
    gc.collect()
    before = torch.spyre.memory_allocated()
    torch.spyre.reset_peak_memory_stats()
    made = segment([x], 1.0)
    assert torch.spyre.max_memory_allocated() - before <= 2 * LENGTH * 4
    assert torch.spyre.memory_allocated() - before == LENGTH * 4
    assert torch.equal(made.cpu(), x.cpu())


def test_buffers_leave_the_list_and_end_with_their_last_launch(launch):
    buffers = [torch.rand(LENGTH).to("spyre")]
    expected = buffers[0].cpu() * 0.5**4
    torch.spyre.reset_peak_memory_stats()
    before = torch.spyre.memory_allocated()
    made = chain(launch, 4)(buffers, 0.5)
    assert buffers == []
    assert torch.spyre.max_memory_allocated() - before == LENGTH * 4
    assert torch.spyre.memory_allocated() == before
    assert torch.equal(made.cpu(), expected)


def test_what_is_written_has_another_version():
    text = "kernel count(n) {\n inout x: float32[n]\n x = x + 1.0f32\n}"
    launch = _C.GraphLaunch(_C._compile_kernel(text), 0, (1, 0, 0), [], [(0, (8,), (1,), 0)])
    x = torch.zeros(8, device="spyre")
    before = x._version
    assert _C.GraphSegment([(launch, [0], []), (launch, [0], [])], (1, 0), [])([x]) is None
    assert x._version > before
    assert x.tolist() == [2] * 8


def test_wrong_arguments_are_refused_before_anything_is_launched(launch, x):
    segment = chain(launch, 2)
    for arguments, why in (
        (([], 2.0), "takes 1 buffers and 1 values, not 0 and 1"),
        (([x, x], 2.0), "takes 1 buffers and 1 values, not 2 and 1"),
        (([x],), "takes 1 buffers and 1 values, not 1 and 0"),
        (([x.cpu()], 2.0), "argument 0 is not a tensor on spyre"),
        (([3], 2.0), "argument 0 is not a tensor"),
        (([x], "2"), ""),
        (((x,), 2.0), ""),
    ):
        with pytest.raises(TypeError, match=why):
            segment(*arguments)
    assert torch.equal(segment([x], 1.0).cpu(), x.cpu())


def test_a_segment_that_does_not_fit_is_refused(launch):
    for steps, counts, kept, why in (
        ([], (0, 0), [], "at least one launch"),
        ([(launch, [0], [0])], (2, 1), [], "use 1 buffers, and 2 are given"),
        ([(launch, [0, 0], [0])], (1, 1), [], "takes 1 buffers and 1 values, not 2 and 1"),
        ([(launch, [0], [])], (1, 1), [], "takes 1 buffers and 1 values, not 1 and 0"),
        ([(launch, [1], [0])], (1, 1), [], "takes buffer 1 of 1 that are known"),
        ([(launch, [0], [1])], (1, 1), [], "takes value 1 of 1"),
        ([(launch, [0], [0])], (1, 1), [1], "result 1 of 1 is kept"),
        ([(launch, [0], [0])], (1, 1), [0, 0], "kept twice"),
    ):
        with pytest.raises(ValueError, match=why):
            _C.GraphSegment(steps, counts, kept)


def test_a_fault_in_the_middle_reaches_what_comes_after_it():
    pick = """
    kernel pick(n, m) {
        in x: float32[m]
        in at: int64[n]
        out y: float32[n]
        y = x[at]
    }
    """
    views = [(0, (4,), (1,), 0), (1, (2,), (1,), 0), (2, (2,), (1,), 0)]
    picked = _C.GraphLaunch(_C._compile_kernel(pick), 0, (2, 0, 0), [(torch.float32, (2,), (1,))], views)
    text = "kernel negated(n) {\n in x: float32[n]\n out y: float32[n]\n y = neg(x)\n}"
    views = [(0, (2,), (1,), 0), (1, (2,), (1,), 0)]
    negated = _C.GraphLaunch(_C._compile_kernel(text), 0, (1, 0, 0), [(torch.float32, (2,), (1,))], views)
    segment = _C.GraphSegment([(picked, [0, 1], []), (negated, [2], [])], (2, 0), [1])
    x = torch.arange(4.0).to("spyre")
    bad = segment([x, torch.tensor([0, 99]).to("spyre")])
    with pytest.raises((IndexError, RuntimeError)):
        bad.cpu()
    assert segment([x, torch.tensor([3, 1]).to("spyre")]).tolist() == [-3, -1]


def two_products(x, first, second):
    return torch.relu(x @ first) @ second


def test_kernels_that_follow_each_other_are_one_call():
    inputs = [torch.randn(shape).to("spyre") for shape in ((8, 16), (16, 32), (32, 4))]
    with torch._inductor.config.patch(force_disable_caches=True):
        made, (code,) = run_and_get_code(torch.compile(two_products), *inputs)
    assert code.count("GraphSegment(") == 1
    assert "buf0 = " not in code  # what is between the products has no tensor
    torch.testing.assert_close(made.cpu(), two_products(*(x.cpu() for x in inputs)), rtol=1e-4, atol=1e-4)


def test_an_operator_in_between_parts_segments():
    def program(x, y):
        middle, _ = torch.median(torch.relu(x @ y) @ y, 1, keepdim=True)
        return torch.tanh((x - middle) @ y) @ y

    inputs = [torch.randn(8, 8).to("spyre") for _ in range(2)]
    with torch._inductor.config.patch(force_disable_caches=True):
        made, (code,) = run_and_get_code(torch.compile(program), *inputs)
    assert code.count("given = [") == 2
    assert len(re.findall(r"given = \[.*buf", code)) == 1  # what the median has made
    torch.testing.assert_close(made.cpu(), program(*(x.cpu() for x in inputs)), rtol=1e-4, atol=1e-4)


def test_buffers_between_operators_are_freed():
    weight = torch.ones(1, 1, 1, device="spyre")

    def program(x):
        for _ in range(12):
            x = torch.nn.functional.conv1d(torch.sin(x) * 2, weight)
        return x

    x = torch.rand(1, 1, 1 << 18).to("spyre")
    compiled = torch.compile(program)
    compiled(x)
    torch.spyre.synchronize()
    peaks = []
    for function in (compiled, program):
        torch.spyre.reset_peak_memory_stats()
        before = torch.spyre.memory_allocated()
        function(x)
        peaks.append(torch.spyre.max_memory_allocated() - before)
    assert peaks[0] <= 1.05 * peaks[1], peaks
