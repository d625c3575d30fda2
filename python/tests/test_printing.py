"""Printing of the device's tensors."""

from __future__ import annotations

import copy

import pytest
import torch

SUFFIX = ", device='spyre:0')"


def text_of_the_cpu(tensor):
    """Text of the CPU's copy, with the device at the end."""
    return repr(tensor)[:-1] + SUFFIX


def joined(text):
    """A suffix that does not fit is on a line of its own."""
    return text.replace(",\n       device=", ", device=")


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([1.0, 2.0]),
        torch.tensor([1.0, 2.0], dtype=torch.float16),
        torch.tensor([1.0, 2.0], dtype=torch.float64),
        torch.tensor(3),
        torch.tensor([[True, False], [False, True]]),
        torch.tensor([float("nan"), float("inf"), -1e-30, 1e30]),
        torch.tensor([1 + 2j, 3 - 4j]),
        torch.arange(24).reshape(2, 3, 4).to(torch.int8),
        torch.arange(12).reshape(3, 4).t(),
        torch.randn(10, 10, generator=torch.Generator().manual_seed(0)),
        torch.arange(2000),
        torch.arange(4900.0).reshape(7, -1)[:, ::2],
        torch.randn(20, 20, 20, generator=torch.Generator().manual_seed(1)),
        torch.randn(2, 3, 1000, generator=torch.Generator().manual_seed(2)).half(),
        torch.randn(30, 40, generator=torch.Generator().manual_seed(3)) * 1e-8,
    ],
    ids=lambda t: f"{t.dtype}-{'x'.join(map(str, t.shape))}",
)
def test_as_the_cpu_prints_it(tensor):
    assert joined(repr(tensor.to("spyre"))) == text_of_the_cpu(tensor)


def test_the_text_of_the_documents():
    x = torch.tensor([1.0, 2.0], dtype=torch.float16).to("spyre")
    assert str(x) == "tensor([1., 2.], dtype=torch.float16, device='spyre:0')"


def test_nothing_is_printed_as_nothing():
    assert repr(torch.empty(0, device="spyre")) == "tensor([], device='spyre:0')"
    assert repr(torch.empty(0, 3, device="spyre")) == "tensor([], size=(0, 3), device='spyre:0')"


def test_gradients():
    x = torch.tensor([1.0, 2.0]).to("spyre").requires_grad_()
    assert repr(x) == "tensor([1., 2.], requires_grad=True, device='spyre:0')"
    assert repr(x * 2) == "tensor([2., 4.], grad_fn=<MulBackward0>, device='spyre:0')"
    parameter = torch.nn.Parameter(torch.tensor([3.0]).to("spyre"))
    assert repr(parameter) == "Parameter containing:\ntensor([3.], requires_grad=True, device='spyre:0')"


def test_conjugates_and_negatives():
    x = torch.tensor([1 + 2j])
    assert repr(x.to("spyre").conj()) == text_of_the_cpu(x.conj())
    assert repr(x.to("spyre").conj().imag) == text_of_the_cpu(x.conj().imag)


def test_to_print_is_no_fallback():
    x = torch.randn(100, 100).to("spyre")
    torch.spyre.reset_fallback_stats()
    repr(x), str(x[:3, :3]), f"{x[0, 0]}"
    assert torch.spyre.fallback_stats() == {}


def test_of_a_large_tensor_little_is_copied():
    x = torch.empty(2000, 2000, device="spyre")
    torch.spyre.memory._record_memory_history(clear_history=True)
    repr(x)
    events = torch.spyre.memory._snapshot()["device_traces"][0]
    torch.spyre.memory._record_memory_history(None)
    assert sum(e["size"] for e in events if e["action"] == "alloc") < 100_000


def test_other_devices_are_as_they_were():
    assert repr(torch.tensor([1.0])) == "tensor([1.])"
    assert repr(torch.empty(2, device="meta")) == "tensor(..., device='meta', size=(2,))"


def test_options_are_kept():
    options = copy.copy(torch._tensor_str.PRINT_OPTS)
    repr(torch.randn(50, 50).to("spyre"))
    assert torch._tensor_str.PRINT_OPTS == options
    torch.set_printoptions(precision=2)
    try:
        assert repr(torch.tensor([1.23456]).to("spyre")) == "tensor([1.23], device='spyre:0')"
    finally:
        torch.set_printoptions(profile="default")


def test_what_is_gone_can_be_printed(python):
    code = """
        import os, torch
        joined = lambda text: text.replace("\\n      ", "")
        x = torch.ones(3, device="spyre")
        if os.fork() == 0:
            print(joined(repr(x)), flush=True)
            os._exit(0)
        os.wait()
        torch.spyre.reset_device()
        print(joined(repr(x)))
    """
    child, parent = python(code).stdout.splitlines()
    assert child.startswith("tensor(<Cannot re-initialize spyre in forked subprocess.") and child.endswith(SUFFIX)
    assert parent.startswith("tensor(<") and parent.endswith(SUFFIX)


def test_vmap_and_fake_tensors_print_as_before():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert "FakeTensor" in repr(torch.empty(2, device="spyre"))
    seen = []
    torch.vmap(lambda x: seen.append(repr(x)) or x)(torch.ones(2, 3).to("spyre"))
    assert "BatchedTensor" in seen[0] and "spyre" in seen[0]
