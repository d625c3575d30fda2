"""Sums of products: matrices, attention, convolutions."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..case import SMALL, Case

KIND = "products"


def product(name: str, function, operands, sizes=SMALL) -> Case:
    return Case(name, function, operands, sizes=sizes, grows=True)


def inner(make, size):
    return [make(5, size), make(size, 7)]


def outer(make, size):
    return [make(size, 5), make(5, size)]


def batches(make, size):
    return [make(2, 3, size), make(2, size, 5)]


def heads(make, size):
    return [make(2, 4, size, 8), make(2, 2, size, 8), make(2, 2, size, 8)]


def image(make, size):
    return [make(2, 4, 5, size), make(6, 4, 3, 3), make(6)]


def attended(**options):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)


def bytes_of(make, *shape):
    """Every number of int8."""
    return make(*shape, low=-128, high=127, dtype=torch.int8)


def scaled(make, size):
    """Eight-bit matrices, and a scale of each row and column."""
    sides = [make(5, size), make(size, 7)]
    return [*sides, *(make(*shape, low=0.5, high=2, dtype=torch.float32) for shape in ((5, 1), (1, 7)))]


def per_tensor(a, b, scale_a, scale_b):
    one = [scale[:1, :1] for scale in (scale_a, scale_b)]
    return torch._scaled_mm(a, b, *one, out_dtype=torch.bfloat16)


def per_row(a, b, *scales):
    return torch._scaled_mm(a, b, *(scale.contiguous() for scale in scales), out_dtype=torch.float32)


def by_recipe(a, b, scale_a, scale_b):
    one = [[scale[:1, :1]] for scale in (scale_a, scale_b)]
    return torch._scaled_mm_v2(a, b, one[0], [0], [0], one[1], [0], [0], None, torch.float32)


def weight_only(make, size):
    return [make(5, size), bytes_of(make, 7, size), make(7, low=0.5, high=2)]


def gradients(function):
    """Gradients of all operands. The result is its own gradient: with ones, a norm would give only rounding errors."""

    def every(*operands):
        inputs = [value.detach().requires_grad_() for value in operands]
        result = function(*inputs)
        return torch.autograd.grad(result, inputs, result.detach())

    return every


CASES: list[Case] = [
    product("mm", torch.mm, inner, (*SMALL, 4000)),
    product("mm", torch.mm, outer),
    product("mm", lambda a, b: a.mm(a.t()), inner),
    product("bmm", torch.bmm, batches, (*SMALL, 4000)),
    product("mv", torch.mv, lambda make, size: [make(5, size), make(size)], (*SMALL, 4000)),
    product("dot", torch.dot, lambda make, size: [make(size), make(size)], (*SMALL, 4000)),
    product("addmm", torch.addmm, lambda make, size: [make(7), *inner(make, size)]),
    product("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3),
            lambda make, size: [make(5, 7), *inner(make, size)]),
    product("baddbmm", torch.baddbmm, lambda make, size: [make(2, 3, 5), *batches(make, size)]),
    product("addmv", torch.addmv, lambda make, size: [make(5), make(5, size), make(size)]),
    product("addbmm", torch.addbmm, lambda make, size: [make(3, 5), *batches(make, size)]),
    product("addr", torch.addr, lambda make, size: [make(size, 5), make(size), make(5)]),
    product("outer", torch.outer, lambda make, size: [make(size), make(5)]),
    product("matmul", torch.matmul, lambda make, size: [make(2, 3, 4, size), make(size, 6)]),
    product("linear", F.linear, lambda make, size: [make(2, 3, size), make(7, size), make(7)]),
    product("linear", F.linear, lambda make, size: [make(2, 3, 5), make(size, 5)]),
    product("linear_int8", lambda x, weight, scale: F.linear(x, weight.to(x.dtype)) * scale, weight_only),
    product("linear_float8", lambda x, weight: F.linear(x, weight.to(x.dtype)),
            lambda make, size: [make(5, size), make(7, size, dtype=torch.float8_e4m3fn)]),
    # With ragged rows of bfloat16 PyTorch's CPU ends the process: test_quantised.py has those.
    product("_weight_int8pack_mm", torch._weight_int8pack_mm, weight_only, (64,)),
    product("_weight_int8pack_mm", torch._weight_int8pack_mm,
            lambda make, size: [make(5, 64), bytes_of(make, size, 64), make(size, low=0.5, high=2)]),
    product("_scaled_mm", per_tensor, scaled, (*SMALL[1:], 4000)),
    product("_scaled_mm", per_row, scaled, (*SMALL[1:], 4000)),
    product("_scaled_mm_v2", by_recipe, scaled, SMALL[1:]),
    product("_int_mm", torch._int_mm,
            lambda make, size: [make(5, size, low=-128, high=127), bytes_of(make, size, 7)], (*SMALL, 4000)),
    product("einsum", lambda a, b: torch.einsum("bij,bjk->ik", a, b), batches),
    product("scaled_dot_product_attention", attended(), heads),
    product("scaled_dot_product_attention", attended(is_causal=True), heads),
    product(
        "scaled_dot_product_attention",
        lambda q, k, v, mask: attended(attn_mask=mask)(q, k, v),
        lambda make, size: [*heads(make, size), make(size, size)],
    ),
    product("attention_backward", gradients(attended(is_causal=True)), heads),
    product("conv1d", F.conv1d, lambda make, size: [make(2, 4, size), make(6, 4, 3), make(6)], SMALL[2:]),
    product("conv1d", lambda x, w: F.conv1d(x, w, padding=2, dilation=2, stride=2, groups=2),
            lambda make, size: [make(2, 4, size), make(6, 2, 3)], SMALL[1:]),
    product("conv2d", F.conv2d, image, SMALL[2:]),
    product("conv2d", lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), image, SMALL[1:]),
    product("conv2d", lambda x, w: F.conv2d(x, w, padding=1, groups=4),
            lambda make, size: [make(2, 4, 5, size), make(4, 1, 3, 3)], SMALL[1:]),
    product("conv3d", lambda x, w: F.conv3d(x, w, padding=1),
            lambda make, size: [make(1, 2, 3, 4, size), make(3, 2, 3, 3, 3)], SMALL[1:]),
    product("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
            lambda make, size: [make(2, 4, 5, size), make(4, 3, 3, 3)], SMALL[1:]),
    product("convolution_backward", gradients(lambda x, w, b: F.conv2d(x, w, b, padding=1)), image, SMALL[1:]),
]  # fmt: skip
