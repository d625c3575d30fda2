"""Products of eight-bit numbers: on the card, of weights as they lie."""

import pytest
import torch
import torch.nn.functional as F
from torch_spyre.ops.fallbacks import fallback_mode, set_fallback_mode

from conftest import DEVICE, needs_spyre

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
SHAPES = [
    (0, 5, 7), (3, 0, 7), (3, 5, 0), (1, 1, 1), (1, 63, 65), (1, 4000, 129), (2, 64, 64), (4, 129, 33),
    (5, 65, 63), (63, 129, 64), (64, 64, 129), (65, 4000, 31), (129, 1, 65), (300, 33, 70), (31, 65, 4000),
]  # fmt: skip
"""m, k and n: m rows of k, times n columns."""


@pytest.fixture(autouse=True)
def on_the_card_only():
    """Whatever is not done by the card raises."""
    before = fallback_mode()
    set_fallback_mode("error" if DEVICE == "spyre" else before)
    yield
    set_fallback_mode(before)


def seeded(*shape: int) -> torch.Generator:
    return torch.Generator().manual_seed(sum(shape))


def floats(*shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=seeded(*shape)).to(dtype)


def wholes(*shape: int, dtype=torch.int8) -> torch.Tensor:
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max + 1, shape, generator=seeded(*shape), dtype=dtype)


def scales(*shape: int, dtype=torch.float32) -> torch.Tensor:
    return (torch.rand(shape, generator=seeded(*shape)) + 0.5).to(dtype)


def turned(x: torch.Tensor) -> torch.Tensor:
    """Equal numbers, with columns along memory."""
    return x.t().contiguous().t()


def stepped(x: torch.Tensor) -> torch.Tensor:
    """Equal numbers, as every other element of a larger tensor."""
    wide = x.repeat_interleave(2, 0).repeat_interleave(2, 1)
    return wide[::2, 1::2]


def there(*tensors):
    return [tensor if tensor is None else tensor.to(DEVICE) for tensor in tensors]


def exact(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.double() @ b.double()


def close(result: torch.Tensor, expected: torch.Tensor, terms: torch.Tensor, k: int) -> None:
    """One rounding of the result's dtype, and float32 sums of so many terms, of which `terms` are the sums of sizes."""
    assert result.shape == expected.shape
    step = torch.finfo(result.dtype).eps
    bound = expected.abs() * step + terms * (k + 4) * 2.0**-24 + torch.finfo(result.dtype).smallest_normal * step
    assert bool(((result.cpu().double() - expected).abs() <= bound).all())


def check_scaled(a, b, scale_a, scale_b, bias=None, dtype=torch.float32, place=lambda x: x) -> None:
    on_card = [place(a.to(DEVICE)), place(b.to(DEVICE)), *there(scale_a, scale_b)]
    result = torch._scaled_mm(*on_card, bias=None if bias is None else bias.to(DEVICE), out_dtype=dtype)
    factor = scale_a.double() * scale_b.double()
    expected, terms = exact(a, b) * factor, exact(a.double().abs(), b.double().abs()) * factor
    if bias is not None:
        expected, terms = expected + bias.double(), terms + bias.double().abs()
    assert result.dtype == dtype and result.device.type == DEVICE
    close(result, expected, terms, a.shape[1])


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
@pytest.mark.parametrize("per", ["tensor", "row"])
def test_scaled_products_of_every_size(m, k, n, per):
    a, b = floats(m, k, dtype=E4M3), floats(n, k, dtype=E4M3).t()
    pair = (scales(1), scales(1)) if per == "tensor" else (scales(m, 1), scales(1, n))
    check_scaled(a, b, *pair)
    check_scaled(a, b, *pair, bias=floats(n, dtype=torch.bfloat16), dtype=torch.bfloat16)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("pair", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2)], ids=str)
def test_scaled_products_of_every_dtype(pair, dtype):
    a, b = floats(33, 70, dtype=pair[0]), floats(70, 65, dtype=pair[1])
    check_scaled(a, b, scales(1), scales(1), dtype=dtype)
    for of_bias in FLOATS:
        check_scaled(a, b, scales(33, 1), scales(1, 65), floats(65, dtype=of_bias), dtype)


@pytest.mark.parametrize("place", [turned, stepped, lambda x: x.contiguous()], ids=["turned", "stepped", "whole"])
def test_scaled_products_of_operands_that_lie_anyhow(place):
    for m, k, n in [(1, 65, 129), (65, 129, 63)]:
        check_scaled(floats(m, k, dtype=E4M3), floats(k, n, dtype=E5M2), scales(m, 1), scales(1, n), place=place)


def test_scaled_products_are_the_cpus():
    a, b = floats(65, 129, dtype=E4M3), floats(63, 129, dtype=E4M3).t()
    for pair in [(scales(1), scales(1)), (scales(65, 1), scales(1, 63))]:
        for options in [{}, {"bias": floats(63)}]:
            expected = torch._scaled_mm(a, b, *pair, out_dtype=torch.float32, **options)
            moved = {name: tensor.to(DEVICE) for name, tensor in options.items()}
            result = torch._scaled_mm(*there(a, b, *pair), out_dtype=torch.float32, **moved)
            torch.testing.assert_close(result.cpu(), expected, rtol=1e-5, atol=1e-4)


def test_eight_bit_results_are_divided_by_their_scale_and_end_at_the_largest_number():
    a, b = floats(9, 70, dtype=E4M3), floats(5, 70, dtype=E4M3).t()
    for dtype in (E4M3, E5M2):
        scale = torch.tensor(4.0)
        result = torch._scaled_mm(*there(a, b, scales(1), scales(1)), scale_result=scale.to(DEVICE), out_dtype=dtype)
        expected = (exact(a, b) * scales(1).double() ** 2 / 4).float().to(dtype)
        torch.testing.assert_close(result.cpu().float(), expected.float(), rtol=torch.finfo(dtype).eps, atol=0.02)
    assert torch._scaled_mm(*there(a, b, scales(1), scales(1))).dtype == E4M3

    huge = torch.tensor([1e5])
    signs = exact(a, b).sign().float()
    to_e4m3 = torch._scaled_mm(*there(a, b, huge, huge), out_dtype=E4M3).cpu().float()
    assert torch.equal(to_e4m3, signs * 448), "e4m3 has no infinity"
    to_e5m2 = torch._scaled_mm(*there(a, b, huge, huge), out_dtype=E5M2).cpu().float()
    assert torch.equal(to_e5m2, signs * float("inf"))


def test_what_is_no_number_stays_in_its_row_and_column():
    a, b = floats(4, 65), floats(65, 6)
    a[1, 3], b[5, 2] = float("nan"), float("inf")
    result = torch._scaled_mm(*there(a.to(E5M2), b.to(E5M2), scales(1), scales(1)), out_dtype=torch.float32).cpu()
    assert result[1].isnan().all() and not result[:, 2].isfinite().any()
    result[1], result[:, 2] = 0, 0
    assert result.isfinite().all()


@needs_spyre
def test_scales_may_be_numbers_of_the_host():
    a, b = floats(9, 70, dtype=E4M3), floats(5, 70, dtype=E4M3).t()
    result = torch._scaled_mm(*there(a, b), torch.tensor(0.5), torch.tensor([2.0]).to(DEVICE), out_dtype=torch.float32)
    close(result, exact(a, b), exact(a.double().abs(), b.double().abs()), 70)


def test_a_given_result_is_filled():
    a, b = floats(9, 70, dtype=E4M3), floats(70, 5, dtype=E4M3)
    out = torch.empty(5, 9, device=DEVICE).t()
    assert torch._scaled_mm(*there(a, b, scales(1), scales(1)), out_dtype=torch.float32, out=out) is out
    expected = torch._scaled_mm(a, b, scales(1), scales(1), out_dtype=torch.float32)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows", [False, True], ids=["per tensor", "per row"])
def test_the_public_function_for_scaled_products(rows):
    a, b, bias = floats(33, 70, dtype=E4M3), floats(65, 70, dtype=E4M3).t(), floats(65, dtype=torch.bfloat16)
    recipe = F.ScalingType.RowWise if rows else F.ScalingType.TensorWise
    pair = (scales(33, 1), scales(1, 65)) if rows else (scales(1), scales(1))

    def call(a, b, scale_a, scale_b, bias):
        options = {"bias": bias, "output_dtype": torch.float32}
        return F.scaled_mm(a, b, scale_a, recipe, scale_b, recipe, **options)

    result = call(*there(a, b, *pair, bias)).cpu()
    torch.testing.assert_close(result, call(a, b, *pair, bias), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_weight_only_products_of_every_size_and_dtype(m, k, n, dtype):
    x, weight, scale = floats(m, k, dtype=dtype), wholes(n, k), scales(n, dtype=dtype)
    result = torch._weight_int8pack_mm(*there(x, weight, scale))
    expected = exact(x, weight.t()) * scale.double()
    terms = exact(x.double().abs(), weight.t().double().abs()) * scale.double()
    assert result.dtype == dtype
    # The largest number of float16 is near.
    expected = expected.float().to(dtype).double() if dtype == torch.float16 else expected
    if bool(expected.isfinite().all()):
        close(result, expected, terms, k)


@pytest.mark.parametrize("place", [turned, stepped], ids=["turned", "stepped"])
def test_weight_only_products_of_operands_that_lie_anyhow(place):
    for m in (1, 3, 65):
        x, weight, scale = floats(m, 129), wholes(70, 129), scales(70)
        result = torch._weight_int8pack_mm(place(x.to(DEVICE)), place(weight.to(DEVICE)), scale.to(DEVICE))
        expected = torch._weight_int8pack_mm(x, weight, scale)
        torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-2)


def test_weight_only_products_are_the_cpus_bits_nearly_always():
    x, weight, scale = floats(64, 256, dtype=torch.bfloat16), wholes(48, 256), scales(48, dtype=torch.bfloat16)
    result = torch._weight_int8pack_mm(*there(x, weight, scale)).cpu()
    expected = torch._weight_int8pack_mm(x, weight, scale)
    assert (result == expected).float().mean() > 0.99, "both round once"


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize(("m", "k", "n"), [*SHAPES, (5, 514, 7), (5, 515, 7)])
def test_whole_products_are_exact(m, k, n, dtype):
    a, b = wholes(m, k, dtype=dtype), wholes(n, k).t()
    expected = a.long() @ b.long()
    result = torch._int_mm(*there(a, b))
    assert result.dtype == torch.int32
    assert torch.equal(result.cpu().long(), expected)


def test_whole_products_of_the_largest_numbers_are_exact_and_wrap():
    for k in (514, 515, 200_000):
        a = torch.full((2, k), 255, dtype=torch.uint8)
        b = torch.full((k, 3), -128, dtype=torch.int8)
        assert torch.equal(torch._int_mm(*there(a, b)).cpu(), torch._int_mm(a, b))


def test_whole_products_of_operands_that_lie_anyhow():
    a, b = wholes(33, 129), wholes(129, 65)
    for place in (turned, stepped):
        result = torch._int_mm(place(a.to(DEVICE)), place(b.to(DEVICE)))
        assert torch.equal(result.cpu().long(), a.long() @ b.long())
    out = torch.empty(33, 65, dtype=torch.int32, device=DEVICE)
    assert torch.equal(torch._int_mm(*there(a, b), out=out).cpu().long(), a.long() @ b.long())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("of_weight", [torch.int8, E4M3, E5M2], ids=str)
@pytest.mark.parametrize(("m", "k", "n"), [(0, 5, 7), (1, 65, 63), (64, 129, 65), (3, 64, 4000)])
def test_a_weight_that_is_widened_first(m, k, n, of_weight, dtype):
    weight = wholes(n, k) if of_weight == torch.int8 else floats(n, k, dtype=of_weight)
    x, scale = floats(m, k, dtype=dtype), scales(n, dtype=dtype) / 64
    call = lambda x, weight, scale: F.linear(x, weight.to(x.dtype)) * scale  # noqa: E731
    torch.testing.assert_close(call(*there(x, weight, scale)).cpu(), call(x, weight, scale))


@pytest.mark.parametrize("of_weight", [torch.int8, E4M3], ids=str)
def test_a_weight_that_is_scaled_before_it_is_multiplied(of_weight):
    weight = wholes(65, 129) if of_weight == torch.int8 else floats(65, 129, dtype=of_weight)
    x, scale, zero = floats(3, 129), scales(65, 1) / 64, floats(65, 1)
    call = lambda x, weight, scale, zero: x @ ((weight.to(torch.float32) - zero) * scale).t()  # noqa: E731
    result = call(*there(x, weight, scale, zero))
    torch.testing.assert_close(result.cpu(), call(x, weight, scale, zero), rtol=1e-4, atol=1e-4)


def test_a_row_is_quantised_on_the_card():
    x = floats(33, 129)
    for dtype, largest in [(torch.int8, 127), (E4M3, 448)]:

        def call(x):
            scale = x.abs().amax(1, keepdim=True) / largest
            scaled = x / scale
            return (scaled.round() if dtype == torch.int8 else scaled).to(dtype), scale

        (result, scale), (expected, own) = call(x.to(DEVICE)), call(x)
        assert torch.equal(result.cpu().float(), expected.float())
        torch.testing.assert_close(scale.cpu(), own)


@needs_spyre
def test_no_wider_copy_of_a_weight_is_made():
    x, weight, scale = there(floats(1, 4096, dtype=torch.bfloat16), wholes(1024, 4096), scales(1024, dtype=torch.bfloat16))
    torch._weight_int8pack_mm(x, weight, scale)
    torch.spyre.synchronize()
    torch.spyre.reset_peak_memory_stats()
    before = torch.spyre.memory_allocated()
    result = torch._weight_int8pack_mm(x, weight, scale)
    torch.spyre.synchronize()
    assert torch.spyre.max_memory_allocated() - before < weight.numel()
    assert result.shape == (1, 1024)


@needs_spyre
def test_what_the_cpu_refuses_is_refused_in_its_words():
    set_fallback_mode("silent")
    a, b = floats(3, 70, dtype=E4M3), floats(70, 5, dtype=E4M3)
    for call, error in [
        (lambda: torch._scaled_mm(*there(a, b, scales(3, 1), scales(1))), ValueError),
        (lambda: torch._int_mm(*there(wholes(3, 5), wholes(5, 7, dtype=torch.uint8))), RuntimeError),
        (lambda: torch._weight_int8pack_mm(*there(floats(3, 5), wholes(7, 6), scales(7))), RuntimeError),
    ]:
        with pytest.raises(error):
            call()


@needs_spyre
def test_four_bits_are_declined_in_words():
    with pytest.raises(NotImplementedError, match="_weight_int4pack_mm"):
        packed = torch.zeros(1, 1, 32, 4, dtype=torch.int32)
        torch._weight_int4pack_mm(*there(floats(3, 64, dtype=torch.bfloat16), packed), 32, floats(2, 8, 2).to(DEVICE))


@needs_spyre
def test_the_card_profile_has_int8_and_e4m3_and_refuses_e5m2(python):
    code = """
        import torch
        torch.spyre.set_fallback_mode("error") if hasattr(torch.spyre, "set_fallback_mode") else None
        x, weight = torch.randn(3, 70).half(), torch.randint(-9, 10, (5, 70), dtype=torch.int8)
        scale = torch.rand(5).half()
        result = torch._weight_int8pack_mm(x.to("spyre"), weight.to("spyre"), scale.to("spyre")).cpu()
        assert torch.allclose(result.double(), (x.double() @ weight.double().t()) * scale.double(), rtol=0.01, atol=0.1)
        a, one = x.to(torch.float8_e4m3fn), torch.ones(1)
        result = torch._scaled_mm(*(t.to("spyre") for t in (a, a.t(), one, one)), out_dtype=torch.float16).cpu()
        assert torch.allclose(result.double(), a.double() @ a.double().t(), rtol=0.01, atol=0.1)
        try:
            x.to(torch.float8_e5m2).to("spyre")
        except RuntimeError as error:
            assert "does not support dtype" in str(error), error
        else:
            raise AssertionError("the card has no e5m2")
    """
    python(code, SPYRE_PROFILE="card", SPYRE_FALLBACK="error")
