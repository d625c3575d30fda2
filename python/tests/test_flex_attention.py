"""flex_attention, eager and compiled, beside attention that the CPU computes in float64 with the same functions."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo.testing
from conftest import needs_spyre
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

pytestmark = [needs_spyre, pytest.mark.filterwarnings("ignore")]
LENGTH, HEADS = 17, 4
SLOPES = torch.linspace(0.1, 0.7, HEADS)
DOCUMENTS = torch.arange(LENGTH) // 6


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    torch.manual_seed(7)
    with torch._inductor.config.patch(force_disable_caches=True):
        yield


def same(score, b, h, q, k, *captured):
    return score


def relative(score, b, h, q, k, *captured):
    return score + (q - k) * 0.1


def soft_capped(score, b, h, q, k, *captured):
    return 3 * torch.tanh(score / 3)


def sloped(score, b, h, q, k, slopes, documents):
    return score + slopes[h] * (k - q)


def causal(b, h, q, k, *captured):
    return q >= k


def windowed(b, h, q, k, *captured):
    return (q >= k) & (q - k < 5)


def of_one_document(b, h, q, k, slopes, documents):
    return documents[q] == documents[k]


CASES = {
    "plain": (same, None),
    "relative": (relative, causal),
    "capped": (soft_capped, windowed),
    "captured": (sloped, of_one_document),
    "captured, causal": (sloped, causal),
}


class Attention:
    """Attention with functions of scores and of masks that capture tensors of its device."""

    def __init__(self, score, mask, device, dtype=torch.float32, shared=HEADS, queries=LENGTH):
        make = torch.Generator().manual_seed(1)
        sizes = [(2, HEADS, queries, 8), (2, shared, LENGTH, 8), (2, shared, LENGTH, 6)]
        tensors = [torch.randn(size, generator=make).to(dtype) for size in sizes]
        is_differentiated = torch.is_grad_enabled()
        self.leaves = [tensor.to(device).requires_grad_(is_differentiated) for tensor in (*tensors, SLOPES.to(dtype))]
        self.score, self.mask, self.device = score, mask, device
        self.documents = DOCUMENTS.to(device)

    @property
    def shape(self) -> tuple[int, int]:
        return self.leaves[0].size(-2), self.leaves[1].size(-2)

    def block_mask(self) -> BlockMask | None:
        if self.mask is None:
            return None
        slopes, documents = self.leaves[3].detach(), self.documents
        mask = lambda b, h, q, k: self.mask(b, h, q, k, slopes, documents)  # noqa: E731
        return create_block_mask(mask, None, None, *self.shape, device=self.device)

    def flexible(self, function, **options):
        q, k, v, slopes = self.leaves
        documents = self.documents
        score = lambda s, b, h, i, j: self.score(s, b, h, i, j, slopes, documents)  # noqa: E731
        grouped = {"enable_gqa": True} if q.size(1) != k.size(1) else {}
        return function(q, k, v, score_mod=score, block_mask=self.block_mask(), **grouped, **options)

    def dense(self):
        """Attention with all indices written out."""
        q, k, v, slopes = self.leaves
        groups = q.size(1) // k.size(1)
        k, v = (tensor.repeat_interleave(groups, 1) for tensor in (k, v))
        indices = torch.meshgrid(*(torch.arange(n) for n in (2, HEADS, *self.shape)), indexing="ij")
        scores = self.score(q @ k.transpose(-1, -2) * q.size(-1) ** -0.5, *indices, slopes, self.documents)
        if self.mask is not None:
            scores = scores.masked_fill(~self.mask(*indices, slopes, self.documents), -torch.inf)
        return scores.softmax(-1).nan_to_num(0) @ v

    def gradients(self, result):
        weights = torch.linspace(-1, 1, result.numel()).view(result.shape)
        loss = (result * weights.to(result.device, result.dtype)).sum()
        given = torch.autograd.grad(loss, self.leaves, allow_unused=True)
        return [grad for grad in given if grad is not None]


def compare(function, score, mask, dtype=torch.float32, **shape):
    ours = Attention(score, mask, "spyre", dtype, **shape)
    exact = Attention(score, mask, "cpu", dtype, **shape)
    exact.leaves = [leaf.detach().double().requires_grad_() for leaf in exact.leaves]
    made, right = ours.flexible(function), exact.dense()
    assert (made.dtype, made.device.type) == (dtype, "spyre")
    rtol, atol = {torch.float32: (1e-4, 1e-5)}.get(dtype, (3e-2, 3e-2))
    for one, other in zip([made, *ours.gradients(made)], [right, *exact.gradients(right)], strict=True):
        torch.testing.assert_close(one.cpu().double(), other, rtol=rtol, atol=atol)


def compiled(*args, **named):
    return torch.compile(flex_attention, fullgraph=True)(*args, **named)


@pytest.mark.parametrize("name", CASES)
def test_it_is_what_its_functions_say_forward_and_backward(name):
    compare(compiled, *CASES[name])


@pytest.mark.parametrize("name", ["relative", "captured"])
def test_it_is_the_same_eagerly(name):
    compare(flex_attention, *CASES[name])


def test_it_rounds_as_the_dtype_does():
    compare(compiled, *CASES["relative"], dtype=torch.bfloat16)


def test_heads_share_keys_and_values():
    compare(compiled, *CASES["captured"], shared=2)


def test_rows_without_a_key_are_zero():
    def beyond(b, h, q, k, *captured):
        return (q >= k) & (q > 3)

    compare(compiled, same, beyond)


def test_the_logarithm_of_its_sums_is_the_cpus():
    with torch.no_grad():
        _, given = Attention(relative, causal, "spyre").flexible(compiled, return_lse=True)
        _, right = Attention(relative, causal, "cpu").flexible(flex_attention, return_lse=True)
    torch.testing.assert_close(given.cpu(), right)


def test_lengths_share_one_graph():
    counter = torch._dynamo.testing.CompileCounterWithBackend("inductor")
    function = torch.compile(flex_attention, backend=counter, fullgraph=True)
    with torch.no_grad():
        for length in (3, 16, 17, 64, 65):
            q, k, v = (torch.randn(1, 2, length, 8, device="spyre") for _ in range(3))
            for tensor in (q, k, v):
                torch._dynamo.mark_dynamic(tensor, 2, min=2, max=128)
            given = function(q, k, v, score_mod=relative)
            right = flex_attention(q.cpu(), k.cpu(), v.cpu(), score_mod=relative)
            torch.testing.assert_close(given.cpu(), right)
    assert counter.frame_count == 1


def test_under_autocast_it_is_of_16_bits():
    with torch.autocast("spyre", dtype=torch.bfloat16), torch.no_grad():
        assert Attention(relative, causal, "spyre").flexible(compiled).dtype == torch.bfloat16


def test_other_devices_are_refused_as_ever():
    x = torch.randn(1, 1, 4, 8, device="meta")
    with pytest.raises(ValueError, match="only supported on CUDA, CPU"):
        flex_attention(x, x, x)
