"""Memory that compiled graphs take while they run."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from conftest import needs_spyre

pytestmark = needs_spyre

BYTES = 64 * 64 * 4
"""Bytes of each matrix here."""


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()


def peak_of(program, *inputs):
    """Most bytes that a warm call has in use, besides those in use before."""
    program(*inputs)
    torch.spyre.synchronize()
    torch.spyre.reset_peak_memory_stats()
    before = torch.spyre.memory_allocated()
    program(*inputs)
    return torch.spyre.max_memory_allocated() - before


def matrices(count):
    return [torch.randn(64, 64).to("spyre") * 0.1 for _ in range(count)]


def product(first, *others):
    for other in others:
        first = first @ other
    return first


def test_what_is_read_no_more_is_freed_while_the_graph_runs():
    compiled = torch.compile(product, fullgraph=True)
    with torch.no_grad():
        assert peak_of(compiled, *matrices(8)) == 2 * BYTES


def test_parts_that_were_put_together_are_freed_with_the_whole():
    def program(*tensors):
        whole = torch.cat([tensor @ tensor for tensor in tensors])
        whole = whole.sum(0).outer(tensors[0][0])
        return product(whole, *tensors)

    compiled = torch.compile(program, fullgraph=True)
    with torch.no_grad():
        assert peak_of(compiled, *matrices(6)) == 7 * BYTES  # the whole, and what is made of it


def test_a_step_of_training_takes_no_more_than_an_eager_one():
    def loss(x, *weights):
        for weight in weights:
            x = F.silu(F.rms_norm(x @ weight, (64,)))
        return x.square().mean()

    def step_of(loss):
        return lambda x, *weights: torch.autograd.grad(loss(x, *weights), weights)

    x, weights = torch.randn(1024, 64).to("spyre"), matrices(8)
    weights = [weight.requires_grad_() for weight in weights]
    assert peak_of(step_of(torch.compile(loss)), x, *weights) <= peak_of(step_of(loss), x, *weights)
