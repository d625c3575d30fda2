"""Attention on the card: as the CPU computes it in double, forward and backward, and without the CPU."""

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from conftest import needs_spyre

pytestmark = needs_spyre
# Relative to the largest number of a tensor.
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-13, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}


@pytest.fixture(autouse=True)
def seeded(no_fallback):
    torch.manual_seed(1234)


def tensors(dtype, batch=2, heads=4, shared=None, queries=17, keys=21, width=8, values=None):
    shared = shared or heads
    query = torch.randn(batch, heads, queries, width)
    key = torch.randn(batch, shared, keys, width)
    value = torch.randn(batch, shared, keys, values or width)
    return [tensor.to(dtype) for tensor in (query, key, value)]


def run(given, device, dtype, mask=None, **options):
    """The result and the gradients of everything that has one."""
    leaves = [tensor.detach().to(device, dtype).requires_grad_() for tensor in given]
    if mask is not None:
        mask = mask.detach().to(device)
        if mask.is_floating_point():
            mask = mask.to(dtype).requires_grad_()
            leaves.append(mask)
    y = F.scaled_dot_product_attention(*leaves[:3], attn_mask=mask, **options)
    weights = torch.linspace(-1, 1, y.numel()).view(y.shape)
    grads = torch.autograd.grad((y * weights.to(device, dtype)).sum(), leaves)
    return [y.detach(), *grads]


def compare(given, dtype, **options):
    expected = run(given, "cpu", torch.float64, **options)
    results = run(given, "spyre", dtype, **options)
    for result, right in zip(results, expected, strict=True):
        assert (result.device.type, result.dtype, result.shape) == ("spyre", dtype, right.shape)
        error = (result.cpu().double() - right).abs().max() / right.abs().max().clamp(min=1e-3)
        assert error <= TOLERANCE[dtype], error


MASKS = {
    "nothing": {},
    "causal": {"is_causal": True},
    "a bias": {"mask": torch.randn(17, 21)},
    "a bias of heads": {"mask": torch.randn(2, 4, 17, 21)},
    "a bias of keys": {"mask": torch.randn(2, 1, 1, 21)},
    "a mask": {"mask": torch.rand(2, 1, 17, 21) > 0.3},
    "a scale": {"scale": 0.7},
}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", MASKS)
def test_results_and_gradients_are_those_of_double(name, dtype):
    compare(tensors(dtype), dtype, **MASKS[name])


@pytest.mark.parametrize("shared", [1, 2])
def test_query_heads_share_heads_of_keys(shared):
    given = tensors(torch.float32, heads=6, shared=shared)
    compare(given, torch.float32, enable_gqa=True, is_causal=True)
    compare(given, torch.float32, enable_gqa=True, mask=torch.randn(2, 6, 17, 21))


@pytest.mark.parametrize("width", [8, 24, 64, 80, 128, 256])
def test_heads_of_any_width(width):
    compare(tensors(torch.float32, batch=1, heads=2, width=width), torch.float32)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 130), (130, 1), (65, 64), (3, 200)])
def test_any_lengths(queries, keys):
    compare(tensors(torch.float32, queries=queries, keys=keys, values=5), torch.float32)
    compare(tensors(torch.float32, queries=queries, keys=keys), torch.float32, is_causal=True)


def test_turned_tensors_are_taken_as_they_lie():
    query, key, value = (torch.randn(2, 9, 4, 16).transpose(1, 2) for _ in range(3))
    compare([query, key, value], torch.float32, is_causal=True)


def test_a_row_without_keys_is_zero():
    given = [tensor.to("spyre").requires_grad_() for tensor in tensors(torch.float32)]
    mask = torch.ones(17, 21, dtype=torch.bool)
    mask[3] = False
    y = F.scaled_dot_product_attention(*given, attn_mask=mask.to("spyre"))
    y.sum().backward()

    assert y[:, :, 3].detach().cpu().count_nonzero() == 0
    assert all(tensor.grad.isfinite().all().item() for tensor in given)


def test_attention_is_one_op_of_the_card():
    given = [tensor.to("spyre") for tensor in tensors(torch.float32)]
    with torch.profiler.profile() as profile:
        F.scaled_dot_product_attention(*given)
    names = {event.name for event in profile.events()}
    assert "aten::_scaled_dot_product_fused_attention_overrideable" in names
    assert "aten::_scaled_dot_product_attention_math" not in names


def test_dropout_takes_another_way():
    given = [tensor.to("spyre") for tensor in tensors(torch.float32)]
    torch.manual_seed(1)
    y = F.scaled_dot_product_attention(*given, dropout_p=0.5)
    assert not torch.equal(y.cpu(), F.scaled_dot_product_attention(*given).cpu())


def test_the_other_way_can_be_asked_for():
    given = [tensor.to("spyre") for tensor in tensors(torch.float32)]
    with sdpa_kernel(SDPBackend.MATH):
        y = F.scaled_dot_product_attention(*given, is_causal=True)
    torch.testing.assert_close(y.cpu(), F.scaled_dot_product_attention(*given, is_causal=True).cpu())


def test_attention_returns_the_logarithms_of_sums():
    query, key, value = tensors(torch.float32)
    results = torch.ops.aten._scaled_dot_product_fused_attention_overrideable(
        query.to("spyre"), key.to("spyre"), value.to("spyre")
    )
    scores = query.double() @ key.double().transpose(-1, -2) / 8**0.5
    torch.testing.assert_close(results[1].cpu().double(), scores.logsumexp(-1), rtol=1e-6, atol=1e-6)
    assert results[4:6] == (17, 21)


def test_multi_head_attention_of_pytorch():
    module = torch.nn.MultiheadAttention(32, 4, batch_first=True)
    x = torch.randn(2, 9, 32)
    expected = module(x, x, x, need_weights=False)[0]
    module = module.to("spyre")
    result = module(x.to("spyre"), x.to("spyre"), x.to("spyre"), need_weights=False)[0]
    torch.testing.assert_close(result.cpu(), expected)


def test_gradients_under_the_cards_profile(python):
    """Its programs are cut into tiles, along the dims that sums go over."""
    python(
        """
        import torch
        import torch.nn.functional as F

        q, k, v = (torch.randn(2, heads, 9, 16).half() for heads in (4, 2, 2))

        def gradients(device, dtype):
            given = [t.to(dtype).to(device).requires_grad_() for t in (q, k, v)]
            F.scaled_dot_product_attention(*given, enable_gqa=True).float().square().sum().backward()
            return [t.grad.cpu().float() for t in given]

        for given, expected in zip(gradients("spyre", torch.float16), gradients("cpu", torch.float32)):
            torch.testing.assert_close(given, expected, rtol=0.05, atol=0.05)
        """,
        SPYRE_PROFILE="card",
    )


def test_results_lie_as_the_query_does():
    q, k, v = (torch.randn(2, 6, 4, 16).to("spyre").transpose(1, 2) for _ in range(3))
    assert F.scaled_dot_product_attention(q, k, v).stride() == q.stride()
