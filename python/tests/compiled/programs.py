"""Small programs, each for something that a compiled graph may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

__all__ = ["PROGRAMS", "Program"]


class Program(NamedTuple):
    """A function, and the CPU tensors that it is called with."""

    run: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]


def _floats(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Callable[[], tuple[torch.Tensor, ...]]:
    return lambda: tuple(torch.randn(shape).to(dtype) for shape in shapes)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def _rope(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


def _scatter(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return torch.zeros(10, 8, device=x.device).index_add(0, at, x) + 1


def _mutate(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x.add_(y)
    z = x * 2
    x.mul_(3)
    return z, x.t()


def _cache(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    cache.index_copy_(1, at, new)
    return cache.sum(1)


PROGRAMS: dict[str, Program] = {
    "chain": Program(lambda x: (x * 2 + 1).relu().sum(-1), _floats((5, 70))),
    "pointwise": Program(lambda x, y: torch.sin(x) * y.sigmoid() + (x > y), _floats((7, 65), (65,))),
    "broadcast": Program(lambda x, y: x[:, None] * y[None] - x[:, None], _floats((9,), (11,))),
    "softmax": Program(_softmax, _floats((6, 130))),
    "log_softmax": Program(lambda x: F.log_softmax(x, 1), _floats((3, 5, 7))),
    "mm": Program(lambda a, b, c: (a @ b + c).relu(), _floats((17, 33), (33, 65), (65,))),
    "linear_gelu": Program(lambda x, w, b: F.gelu(F.linear(x, w, b)), _floats((4, 6, 32), (48, 32), (48,))),
    "bmm": Program(lambda a, b: torch.bmm(a, b).tanh(), _floats((3, 8, 16), (3, 16, 24))),
    "baddbmm": Program(
        lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2.0), _floats((3, 8, 24), (3, 8, 16), (3, 16, 24))
    ),
    "mlp": Program(
        lambda x, w, v: torch.softmax(F.silu(x @ w) @ v, -1), _floats((8, 32), (32, 64), (64, 16))
    ),
    "layer_norm": Program(lambda x, w, b: F.layer_norm(x, (64,), w, b), _floats((5, 64), (64,), (64,))),
    "rms_norm": Program(lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w, _floats((5, 64), (64,))),
    "gather": Program(
        lambda x, at: x.gather(1, at), lambda: (torch.randn(4, 9), torch.randint(0, 9, (4, 3)))
    ),
    "index": Program(lambda x, at: x[at] * 2, lambda: (torch.randn(9, 8), torch.tensor([0, -1, 3, -9]))),
    "embedding": Program(
        lambda at, table: F.embedding(at, table) + 1, lambda: (torch.randint(0, 20, (3, 5)), torch.randn(20, 64))
    ),
    "pad": Program(lambda x: F.pad(x, (2, 3, 1, 0)) + 1, _floats((4, 6))),
    "cat": Program(lambda x, y: torch.cat((x, y * 2), 1).relu(), _floats((4, 8), (4, 8))),
    "stack": Program(lambda x, y: torch.stack((x, y), 1).sum(0), _floats((4, 8), (4, 8))),
    "flip": Program(lambda x: x.flip(0) + x, _floats((6, 5))),
    "roll": Program(lambda x: torch.roll(x, 2, 1) * x, _floats((4, 9))),
    "transposed_sum": Program(lambda x: x.transpose(0, 1).reshape(6, 20).sum(0), _floats((4, 6, 5))),
    "slice": Program(lambda x: x[1:, ::2] * 3, _floats((5, 9))),
    "rope": Program(_rope, _floats((2, 4, 5, 16), (5, 16), (5, 16))),
    "scatter_add": Program(_scatter, lambda: (torch.randn(6, 8), torch.tensor([0, 3, 3, 9, 1, 0]))),
    "index_put": Program(
        lambda x, at, y: x.index_put((at,), y), lambda: (torch.randn(9, 4), torch.tensor([1, 5]), torch.randn(2, 4))
    ),
    "argmax": Program(lambda x: (x.argmax(1), x.argmin()), _floats((5, 33))),
    "max_with_indices": Program(lambda x: x.max(1), _floats((5, 33))),
    "cumsum": Program(lambda x: x.cumsum(1) + 1, _floats((4, 30))),
    "sort": Program(lambda x: x.sort(1).values * 2, _floats((4, 30))),
    "topk": Program(lambda x: x.topk(3).values + 1, _floats((4, 30))),
    "conv": Program(lambda x, w: F.conv2d(x, w, padding=1).relu(), _floats((2, 3, 8, 8), (4, 3, 3, 3))),
    "max_pool": Program(lambda x: F.max_pool2d(x, 2), _floats((2, 3, 8, 8))),
    "avg_pool": Program(lambda x: F.avg_pool2d(x, 3, 2, 1), _floats((2, 3, 9, 9))),
    "sdpa": Program(F.scaled_dot_product_attention, _floats((2, 4, 6, 16), (2, 4, 6, 16), (2, 4, 6, 16))),
    "sdpa_transposed": Program(
        lambda q, k, v: F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        .transpose(1, 2)
        .reshape(2, 6, 64),
        _floats((2, 6, 4, 16), (2, 6, 4, 16), (2, 6, 4, 16)),
    ),
    "attention": Program(_attention, _floats((2, 4, 6, 64), (2, 4, 9, 64), (2, 4, 9, 64))),
    "cross_entropy": Program(
        lambda x, at: F.cross_entropy(x, at), lambda: (torch.randn(6, 11), torch.randint(0, 11, (6,)))
    ),
    "where": Program(lambda x, y: torch.where(x > 0, x, y.exp()), _floats((4, 9), (4, 9))),
    "masked_fill": Program(lambda x: x.masked_fill(x < 0, float("-inf")).softmax(-1), _floats((4, 9))),
    "integers": Program(
        lambda x, y: (x // y, x % y, x & y, x << 1, x.float() / y),
        lambda: (torch.randint(-50, 50, (30,)), torch.randint(1, 9, (30,))),
    ),
    "int8": Program(
        lambda x, y: (x + y, x * y, -x), lambda: (torch.randint(-128, 127, (40,)).to(torch.int8),) * 2
    ),
    "bool": Program(lambda x: ((x > 0).any(1), (x > -9).all(), (x > 0).sum()), _floats((4, 9))),
    "std": Program(lambda x: (x.std(1), x.var(0, correction=0)), _floats((6, 19))),
    "factories": Program(
        lambda x: x + torch.arange(9, device=x.device) + torch.full((9,), 2.0, device=x.device), _floats((4, 9))
    ),
    "tril": Program(lambda x: x.tril() + x.triu(1), _floats((6, 6))),
    "double": Program(lambda x: (x.exp() / 3).sum(0), _floats((5, 7), dtype=torch.float64)),
    "bfloat16": Program(lambda a, b: (a @ b).relu().float() + 1, _floats((8, 32), (32, 16), dtype=torch.bfloat16)),
    "float16": Program(lambda x, y: (x * y + x).relu(), _floats((8, 32), (8, 32), dtype=torch.float16)),
    "addmm_half": Program(torch.addmm, _floats((16,), (8, 32), (32, 16), dtype=torch.float16)),
    "mutate": Program(_mutate, _floats((4, 5), (4, 5))),
    "cache": Program(_cache, lambda: (torch.zeros(2, 8, 4), torch.tensor([3, 5]), torch.randn(2, 2, 4))),
    "scalar": Program(lambda x, n: x * n + 1, lambda: (torch.randn(4, 5), 3)),
    "nothing": Program(lambda x: x, _floats((3,))),
    "empty": Program(lambda x: x * 2 + 1, _floats((0, 5))),
    "zero_dim": Program(lambda x, y: x * y, _floats((), (4,))),
    "prod": Program(lambda x: x.prod(1), _floats((4, 5))),
    "complex": Program(lambda x: torch.view_as_complex(x).abs(), _floats((5, 2))),
    "bucketize": Program(
        lambda x, edges: torch.bucketize(x, edges), lambda: (torch.randn(20), torch.linspace(-2, 2, 7))
    ),
    "diagonal": Program(lambda x: x.diagonal() * 2 + x[0], _floats((6, 6))),
    "upsample": Program(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), _floats((1, 2, 5, 5))),
    "group_norm": Program(lambda x: F.group_norm(x, 2), _floats((2, 4, 6, 6))),
    "batch_norm": Program(
        lambda x, m, v: F.batch_norm(x, m, v, training=True), lambda: (torch.randn(4, 3, 5), torch.zeros(3), torch.ones(3))
    ),
    "unfold": Program(lambda x: x.unfold(1, 3, 2).sum(-1), _floats((4, 9))),
    "repeat": Program(lambda x: x.repeat(2, 3) + 1, _floats((3, 4))),
    "einsum": Program(lambda a, b: torch.einsum("bij,bkj->bik", a, b), _floats((2, 3, 4), (2, 5, 4))),
    "norm": Program(lambda x: x / x.norm(dim=-1, keepdim=True), _floats((4, 9))),
    "logsumexp": Program(lambda x: torch.logsumexp(x, 0), _floats((4, 9))),
}
