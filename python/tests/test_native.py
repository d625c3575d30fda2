"""Ops that the card carries out: as the CPU does, and without it."""

import pytest
import torch
import torch.nn.functional as F

from conftest import needs_spyre

pytestmark = pytest.mark.usefixtures("no_fallback")

X, Y = torch.randn(33, 70), torch.randn(33, 70)
ROW, COLUMN = torch.randn(70), torch.randn(33, 1)
IMAGE = torch.randn(4, 5, 33, 7)
PLACES = torch.randint(0, 70, (33, 5))
ROWS = torch.randint(0, 33, (50,))


def put(x, at, values):
    x = x.clone()
    x[at] = values
    return x


POINTWISE = {
    "add": (torch.add, X, Y),
    "add, repeated": (torch.add, X, COLUMN),
    "add, turned": (lambda a, b: a.t() + b.t(), X, Y),
    "add a number": (lambda a: a + 2.5, X),
    "add whole and float": (torch.add, torch.arange(70), ROW),
    "divide whole": (torch.div, torch.arange(10), torch.arange(1, 11)),
    "divide down": (lambda a, b: torch.div(a, b, rounding_mode="floor"), X, Y),
    "compare": (torch.lt, X, Y),
    "where": (lambda a, b: torch.where(a > b, a, b), X, Y),
    "clamp": (lambda a: a.clamp(-1, 1), X),
    "clamp below": (lambda a: a.clamp(min=0.5), X),
    "relu": (torch.relu, X),
    "silu": (F.silu, X),
    "gelu": (F.gelu, X),
    "gelu, tanh": (lambda a: F.gelu(a, approximate="tanh"), X),
    "softplus": (F.softplus, X),
    "masked_fill": (lambda a: a.masked_fill(a > 0, -1.0), X),
    "in place": (lambda a: a.clone().add_(1).mul_(2), X),
    "lerp": (lambda a, b: torch.lerp(a, b, 0.3), X, Y),
    "not": (lambda a: ~(a > 0), X),
    "logical_and": (torch.logical_and, X, Y > 0),
    "power": (lambda a: a.abs() ** 1.5, X),
    "isnan": (torch.isnan, X),
    "sign of NaN": (torch.sign, torch.tensor([float("nan"), -0.0, 2.5, -float("inf")])),
    "power of whole numbers": (torch.pow, torch.arange(-9, 10), torch.arange(19) % 7),
    "trigamma at the end": (lambda a: torch.polygamma(1, a), torch.tensor([0.3, 2.0, float("inf")])),
}

REDUCTIONS = {
    "sum": (lambda a: a.sum(), X),
    "sum of rows": (lambda a: a.sum(-1, keepdim=True), X),
    "sum of columns": (lambda a: a.sum(0), X),
    "sum of two dims": (lambda a: a.sum((1, 3)), IMAGE),
    "sum of whole": (lambda a: a.sum(), torch.arange(100, dtype=torch.int32)),
    "sum of truth": (lambda a: (a > 0).sum(1), X),
    "mean": (lambda a: a.mean(1), X),
    "mean as float64": (lambda a: a.mean(dtype=torch.float64), X),
    "amax": (lambda a: a.amax(0), X),
    "max": (lambda a: a.max(), X),
    "max and place": (lambda a: tuple(a.max(1)), X),
    "min and place": (lambda a: tuple(a.min(0)), X),
    "argmax": (lambda a: a.argmax(), X),
    "argmax of one": (lambda a: a[:, :1].argmax(1), X),
    "var": (lambda a: a.var(1), X),
    "std": (lambda a: a.std(), X),
    "var_mean": (lambda a: tuple(torch.var_mean(a, 1)), X),
    "norm": (lambda a: a.norm(), X),
    "norm of 3": (lambda a: torch.linalg.vector_norm(a, 3, dim=1), X),
    "prod": (lambda a: a.prod(1), X),
    "any": (lambda a: (a > 2).any(1), X),
    "all": (lambda a: (a > -9).all(), X),
    "softmax": (lambda a: a.softmax(-1), X),
    "log_softmax": (lambda a: a.log_softmax(0), X),
    "logsumexp": (lambda a: a.logsumexp(1), X),
    "layer_norm": (lambda a, w, b: F.layer_norm(a, (70,), w, b), X, ROW, ROW + 1),
    "rms_norm": (lambda a, w: F.rms_norm(a, (70,), w), X, ROW),
    "cumsum": (lambda a: a.cumsum(1), X),
    "cumprod": (lambda a: a.cumprod(0), X),
}

PRODUCTS = {
    "mm": (lambda a: a @ a.t(), X),
    "mv": (torch.mv, X, ROW),
    "dot": (torch.dot, ROW, ROW),
    "bmm": (torch.bmm, torch.randn(3, 4, 5), torch.randn(3, 5, 6)),
    "matmul": (torch.matmul, torch.randn(2, 3, 4, 5), torch.randn(5, 6)),
    "addmm": (torch.addmm, torch.randn(6), torch.randn(4, 5), torch.randn(5, 6)),
    "linear": (F.linear, X, torch.randn(11, 70), torch.randn(11)),
    "whole numbers": (torch.mm, torch.randint(-5, 5, (4, 5)), torch.randint(-5, 5, (5, 6))),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        torch.randn(2, 4, 16, 8), torch.randn(2, 4, 16, 8), torch.randn(2, 4, 16, 8),
    ),
}  # fmt: skip

INDEXING = {
    "gather": (lambda a, i: a.gather(1, i), X, PLACES),
    "index_select": (lambda a, i: a.index_select(0, i), X, ROWS),
    "embedding": (lambda w, i: F.embedding(i, w), X, ROWS.reshape(5, 10)),
    "index": (lambda a, i, j: a[i, j], X, torch.randint(-33, 33, (4, 1)), torch.randint(0, 70, (5,))),
    "index behind": (lambda a, i: a[:, i], X, PLACES[0] - 70),
    "scatter": (lambda a, i, s: a.scatter(1, i, s), X, torch.randperm(70)[:5].expand(33, 5), torch.randn(33, 5)),
    "scatter_add": (lambda a, i, s: a.scatter_add(1, i, s), X, PLACES, torch.randn(33, 5)),
    "index_add": (lambda a, i, s: a.index_add(0, i, s), X, ROWS, torch.randn(50, 70)),
    "index_put": (put, X, torch.randperm(33)[:5], torch.randn(5, 70)),
    "index_put, added": (
        lambda a, i, v: a.clone().index_put_((i,), v, accumulate=True), X, ROWS, torch.randn(50, 70)
    ),
    "cat": (lambda a, b: torch.cat([a, b], 1), X, Y),
    "cat of two dtypes": (lambda a, b: torch.cat([a, b.half()], 0), X, Y),
    "tril": (torch.tril, X),
    "triu": (lambda a: a.triu(2), X),
    "sort": (lambda a: tuple(a.sort(1)), X),
    "topk": (lambda a: tuple(a.topk(3)), X),
    "full_like": (lambda a: torch.full_like(a, 3.5), X),
    "cross_entropy": (F.cross_entropy, torch.randn(8, 10), torch.randint(0, 10, (8,))),
    "mse_loss": (F.mse_loss, X, Y),
}  # fmt: skip

CASES = {**POINTWISE, **REDUCTIONS, **PRODUCTS, **INDEXING}

BACKWARD = {
    "linear, gelu": (lambda a, w, b: F.gelu(F.linear(a, w, b)), X, torch.randn(11, 70), torch.randn(11)),
    "softmax": (lambda a: a.softmax(-1) ** 2, X),
    "layer_norm": (lambda a, w, b: F.layer_norm(a, (70,), w, b) ** 2, X, ROW, ROW + 1),
    "rms_norm": (lambda a, w: F.rms_norm(a, (70,), w) ** 2, X, ROW),
    "embedding": (lambda w: F.embedding(ROWS.to(w.device), w) ** 2, X),
    "attention": CASES["attention"],
    "cross_entropy": (lambda a: F.cross_entropy(a, torch.arange(8, device=a.device)), torch.randn(8, 10)),
    "index": (lambda a: a[:, PLACES[0].to(a.device)] ** 2, X),
}


def moved(value, dtype, device="cpu"):
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(device, dtype if value.is_floating_point() else None)


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def compare(act, arguments, dtype, **tolerance):
    expected = as_tuple(act(*[moved(argument, dtype) for argument in arguments]))
    given = as_tuple(act(*[moved(argument, dtype, "spyre") for argument in arguments]))
    assert len(expected) == len(given)
    for left, right in zip(expected, given):
        assert right.device.type == "spyre"
        torch.testing.assert_close(right.cpu(), left, equal_nan=True, **tolerance)


def gradients(act):
    def run(*arguments):
        leaves = [argument.detach().clone().requires_grad_() for argument in arguments]
        act(*leaves).sum().backward()
        return tuple(leaf.grad for leaf in leaves)

    return run


@needs_spyre
@pytest.mark.parametrize("name", CASES)
def test_an_op_gives_what_the_cpu_gives(name):
    compare(*split(CASES[name]), torch.float32)


@needs_spyre
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", [name for name in CASES if name not in {"prod", "cumprod", "sort", "topk"}])
def test_other_floats_are_as_good(name, dtype):
    act, arguments = split(CASES[name])
    if dtype.itemsize == 2:
        # Sums of many numbers: the CPU rounds in between, the card does not.
        return compare(act, arguments, dtype, rtol=2e-2, atol=5e-2)
    compare(act, arguments, dtype)


@needs_spyre
@pytest.mark.parametrize("name", BACKWARD)
def test_gradients_are_the_cpus(name):
    act, arguments = split(BACKWARD[name])
    compare(gradients(act), arguments, torch.float32, rtol=1e-4, atol=1e-4)


@needs_spyre
def test_a_sort_of_many_numbers_has_room():
    x = torch.rand(11_000_000)
    found, places = x.to("spyre").sort()
    assert torch.equal(found.cpu(), x.sort().values) and torch.equal(x[places.cpu()], found.cpu())


@needs_spyre
def test_an_index_out_of_range_raises_with_its_numbers():
    x = X.to("spyre")
    with pytest.raises(IndexError, match="index 40 is out of range for dimension 0 with size 33"):
        x.index_select(0, torch.tensor([40]).to("spyre")).cpu()
    assert torch.equal((x + 1).cpu(), X + 1)


@needs_spyre
def test_ranges_are_made_on_the_card():
    assert torch.equal(torch.arange(10, device="spyre").cpu(), torch.arange(10))
    assert torch.equal(torch.arange(0, 1, 0.1, device="spyre").cpu(), torch.arange(0, 1, 0.1))


@needs_spyre
def test_no_kernel_hides_the_gradient_of_a_composite_op():
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
    composite = [name for name in names if name.startswith("aten::") and has(name, "CompositeImplicitAutograd")]
    # The norm has a gradient of its own beside its parts. The other two are asked for by the gradients of silu and mish
    # alone, and only where nothing is differentiated again. What works by address and has no gradient is the CPU's.
    # Classes are whole numbers, which have no gradient.
    # Whether a tensor may take over data of another is no number.
    by_address = ["aten::_saturate_weight_to_fp16", "aten::choose_qparams_optimized"]
    others = ["aten::_has_compatible_shallow_copy_type", *by_address]
    expected = ["aten::_fused_rms_norm", "aten::mish_backward", "aten::silu_backward", "aten::one_hot", *others]
    assert sorted(composite) == sorted(expected)


@needs_spyre
@pytest.mark.parametrize("act", [F.silu, F.mish])
def test_gradients_of_gradients_go_through_the_parts(act):
    x = torch.randn(5, dtype=torch.float64, device="spyre", requires_grad=True)
    assert torch.autograd.gradgradcheck(act, (x,))


def split(case):
    act, *arguments = case
    return act, arguments
