"""The calls of `peers.py`: on the card, and as fast as the CPU has them."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ATEN = torch.ops.aten
SQUARE = (4096, 4096)

GATED = """
kernel gated(i, j) {
    in x: float32[i, j]
    in y: float32[i, j]
    in z: float32[i, j]
    out result: float32[i, j]
    result = x * sigmoid(x) * y + z
}
"""
SCALED = """
kernel scaled(i, j) {
    in x: float32[i, j]
    in y: float32[i, j]
    in z: float32[i, j]
    out result: float32[i, j]
    result = relu(x * y + z) * 0.5
}
"""
RMS_NORM = """
kernel rms_norm(i, j) {
    in x: float32[i, j]
    in weight: float32[j]
    out y: float32[i, j]
    mean = sum<j>(x * x) / f32(size(j))
    y = x * rsqrt(mean + 0.000001) * weight
}
"""
ATTENTION = """
kernel attention(b, h, q, t, d, e) {{
    in query: float32[b, h, q, d]
    in key: float32[b, h, t, d]
    in value: float32[b, h, t, e]
    out y: float32[b, h, q, e]
    s = {scores}
    p = exp(s - max<t>(s))
    y = sum<t>(p * value) / sum<t>(p)
}}
"""


class Case:
    """One result, computed on the device and, in some ways, on the CPU."""

    def __init__(self, own: Callable[..., Tensor], peers: list[Callable[..., Tensor]], tensors: list[Tensor],
                 bar: float | None = None, there: list | None = None, goal: float | None = None,
                 pairs: int | None = None):  # fmt: skip
        there = [tensor.to("spyre") for tensor in tensors] if there is None else there
        self.own = lambda: own(*there)
        self.peers = [lambda peer=peer: peer(*tensors) for peer in peers]
        self.bar = bar
        self.goal = goal
        self.pairs = pairs
        """Pairs of runs, if its calls are too slow for as many as others have."""

    def check(self) -> None:
        """Checks the results: a fast wrong one does not count."""
        result, expected = self.own().cpu().float(), self.peers[0]().float()
        scale = expected.abs().max().item()
        assert torch.allclose(result, expected, rtol=0.02, atol=0.01 * scale), "the results differ"


def random(*size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(size))
    return torch.randn(size, generator=generator).to(dtype)


def product(m: int, n: int, k: int, dtype=torch.float32, is_turned=False, bar=None, goal=None) -> Case:
    def call(a, b, out):
        return torch.mm(a, b.t() if is_turned else b, out=out)

    right = (n, k) if is_turned else (k, n)
    tensors = [random(m, k, dtype=dtype), random(*right, dtype=dtype), torch.empty(m, n, dtype=dtype)]
    return Case(call, [call], tensors, bar, goal=goal)


def linear(m: int, n: int, k: int, dtype=torch.float32, goal=None) -> Case:
    return product(m, n, k, dtype, is_turned=True, goal=goal)


def weight_only(m: int, n: int, k: int, dtype: torch.dtype, goal=None) -> Case:
    generator = torch.Generator().manual_seed(n)
    weight = torch.randint(-127, 128, (n, k), dtype=torch.int8, generator=generator)
    scale = torch.rand(n, generator=generator).to(dtype) / 128
    tensors = [random(m, k, dtype=dtype), weight, scale]
    return Case(torch._weight_int8pack_mm, [torch._weight_int8pack_mm], tensors, goal=goal)


def batches(count: int, m: int, n: int, k: int) -> Case:
    def call(a, b, out):
        return torch.bmm(a, b, out=out)

    return Case(call, [call], [random(count, m, k), random(count, k, n), torch.empty(count, m, n)], goal=1.0)


def added() -> Case:
    def call(x, y, out):
        return torch.add(x, y, out=out)

    return Case(call, [call], [random(*SQUARE), random(*SQUARE), torch.empty(SQUARE)], goal=1.0)


def gated() -> Case:
    kernel = torch.spyre.compile(GATED)

    def own(x, y, z, out):
        kernel(x, y, z, out)
        return out

    def by_silu(x, y, z, out):
        ATEN.silu.out(x, out=out)
        return out.mul_(y).add_(z)

    def by_sigmoid(x, y, z, out):
        torch.sigmoid(x, out=out)
        return out.mul_(x).mul_(y).add_(z)

    return Case(own, [by_silu, by_sigmoid], [random(*SQUARE) for _ in range(3)] + [torch.empty(SQUARE)], 0.7)


def scaled() -> Case:
    kernel = torch.spyre.compile(SCALED)

    def own(x, y, z, out):
        kernel(x, y, z, out)
        return out

    def by_steps(x, y, z, out):
        torch.mul(x, y, out=out)
        return out.add_(z).relu_().mul_(0.5)

    def by_addcmul(x, y, z, out):
        torch.addcmul(z, x, y, out=out)
        return out.relu_().mul_(0.5)

    return Case(own, [by_steps, by_addcmul], [random(*SQUARE) for _ in range(3)] + [torch.empty(SQUARE)], 0.7)


def gelu(dtype: torch.dtype, goal: float) -> Case:
    def call(x, out):
        return ATEN.gelu.out(x, out=out)

    return Case(call, [call], [random(*SQUARE, dtype=dtype), torch.empty(SQUARE, dtype=dtype)], goal=goal)


def softmax(dtype=torch.float32, bar: float | None = 0.7, goal: float | None = None) -> Case:
    def call(x, out):
        return torch.softmax(x, -1, out=out)

    return Case(call, [call], [random(*SQUARE, dtype=dtype), torch.empty(SQUARE, dtype=dtype)], bar, goal=goal)


def half_layer_norm() -> Case:
    def plain(x, weight, bias):
        return F.layer_norm(x, SQUARE[1:], weight, bias)

    half = torch.float16
    tensors = [random(*SQUARE, dtype=half), random(4096, dtype=half), random(4096, dtype=half)]
    return Case(plain, [plain], tensors, goal=1.4)


def layer_norm() -> Case:
    def call(x, weight, bias, out, mean, spread):
        outs = {"out0": out, "out1": mean, "out2": spread}
        return ATEN.native_layer_norm.out(x, SQUARE[1:], weight, bias, 1e-5, **outs)[0]

    def plain(x, weight, bias, *_):
        return F.layer_norm(x, SQUARE[1:], weight, bias)

    rows = (SQUARE[0], 1)
    results = [torch.empty(SQUARE), torch.empty(rows), torch.empty(rows)]
    return Case(plain, [call, plain], [random(*SQUARE), random(4096), random(4096), *results], 0.7)


def rms_norm() -> Case:
    kernel = torch.spyre.compile(RMS_NORM)

    def own(x, weight, out):
        kernel(x, weight, out)
        return out

    def plain(x, weight, out):
        return F.rms_norm(x, SQUARE[1:], weight, 1e-6)

    def by_steps(x, weight, out):
        torch.mul(x, x, out=out)
        factor = out.mean(-1, keepdim=True).add_(1e-6).rsqrt_()
        return torch.mul(x, factor, out=out).mul_(weight)

    return Case(own, [plain, by_steps], [random(*SQUARE), random(4096), torch.empty(SQUARE)], 0.7)


def attention(tokens: int, is_causal: bool = False) -> Case:
    scores = "sum<d>(query * key) * 0.125"
    scores = f"where(t <= q, {scores}, -inf)" if is_causal else scores
    kernel = torch.spyre.compile(ATTENTION.format(scores=scores))

    def peer(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    return Case(kernel, [peer], [random(1, 8, tokens, 64) for _ in range(3)], 0.5)


def decode(heads: int, tokens: int, width: int, dtype: torch.dtype) -> Case:
    """One token's attention to those before."""

    def call(q, k, v):
        return F.scaled_dot_product_attention(q, k, v)

    sizes = [(1, heads, 1, width), (1, heads, tokens, width), (1, heads, tokens, width)]
    return Case(call, [call], [random(*size, dtype=dtype) for size in sizes], goal=2.5)


def attention_op(tokens: int) -> Case:
    def call(q, k, v):
        return F.scaled_dot_product_attention(q, k, v)

    return Case(call, [call], [random(1, 8, tokens, 64) for _ in range(3)])


class Block(nn.Module):
    """A layer of a Llama: attention and a gated pair of linears, each behind a norm."""

    def __init__(self, hidden: int, heads: int):
        super().__init__()
        wide = hidden * 8 // 3 // 64 * 64
        self.heads = heads
        self.norms = nn.ModuleList(nn.RMSNorm(hidden, eps=1e-6) for _ in range(2))
        self.qkvo = nn.ModuleList(nn.Linear(hidden, hidden, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(hidden, wide, bias=False) for _ in range(2))
        self.down = nn.Linear(wide, hidden, bias=False)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        normed = self.norms[0](x)
        q, k, v = (linear(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2) for linear in self.qkvo[:3])
        q, k = (t * cosine + turned(t) * sine for t in (q, k))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.qkvo[3](mixed.transpose(1, 2).flatten(2))
        normed = self.norms[1](x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


def turned(x: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    return torch.cat((-high, low), -1)


def llama_block_parts(hidden: int, heads: int, tokens: int = 512) -> tuple[Block, list[Tensor]]:
    """A block, its input, and the cosines and sines of its rotary embedding."""
    torch.manual_seed(1)
    block = Block(hidden, heads).eval()
    width = hidden // heads
    angles = torch.arange(tokens)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    angles = torch.cat((angles, angles), -1)
    return block, [random(1, tokens, hidden), angles.cos(), angles.sin()]


def llama_block(hidden: int, heads: int) -> Case:
    block, tensors = llama_block_parts(hidden, heads)
    return Case(copy.deepcopy(block).to("spyre"), [block], tensors, 0.55)


def of_tier(plain: float, amx: float) -> float:
    """A goal on this CPU: PyTorch's own kernels differ with what it has."""
    try:
        with open("/proc/cpuinfo") as file:
            return amx if " amx_tile" in file.read() else plain
    except OSError:
        return plain


def device_cases() -> list[tuple[str, Callable[[], Case]]]:
    """Rows, and what makes each: tensors are made when it is their turn."""
    half, brain = torch.float16, torch.bfloat16
    # With AMX, PyTorch has it for bfloat16; in half precision it has AVX-512 there, and without that next to nothing.
    wide = of_tier(3.5, amx=0.9)
    narrow = of_tier(100.0, amx=1.9)
    return [
        ("mm 1024x1024 1024x1024 f32", lambda: product(1024, 1024, 1024, bar=0.6)),
        ("mm 512x4096 4096x4096 f32", lambda: product(512, 4096, 4096)),
        ("mm 64x64 64x64 f32", lambda: product(64, 64, 64)),
        ("linear 512x1024 1024x1024 f32", lambda: product(512, 1024, 1024, is_turned=True)),
        ("linear 1024x1024 1024x1024 f32", lambda: linear(1024, 1024, 1024, goal=0.95)),
        ("linear 512x4096 4096x4096 f32", lambda: linear(512, 4096, 4096, goal=1.0)),
        ("linear 512x4096 4096x4096 bf16", lambda: linear(512, 4096, 4096, brain, goal=wide)),
        ("linear 512x4096 4096x4096 f16", lambda: linear(512, 4096, 4096, half, goal=narrow)),
        ("linear 1x4096 4096x4096 f32", lambda: linear(1, 4096, 4096, goal=1.0)),
        ("linear 1x4096 4096x4096 bf16", lambda: linear(1, 4096, 4096, brain, goal=1.3)),
        ("linear 1x4096 4096x4096 f16", lambda: linear(1, 4096, 4096, half, goal=of_tier(1.5, amx=1.7))),
        ("linear 4x4096 4096x4096 f32", lambda: linear(4, 4096, 4096, goal=1.7)),
        ("linear 16x4096 4096x4096 f32", lambda: linear(16, 4096, 4096, goal=1.5)),
        ("mm 1024x1024 1024x1024 f16", lambda: product(1024, 1024, 1024, half, goal=narrow)),
        ("mm 1024x1024 1024x1024 bf16", lambda: product(1024, 1024, 1024, brain, goal=wide)),
        ("int8 weight 1x4096 4096x4096 bf16", lambda: weight_only(1, 4096, 4096, brain, goal=1.0)),
        ("int8 weight 512x4096 4096x4096 bf16", lambda: weight_only(512, 4096, 4096, brain)),
        ("bmm 64 of 128x64 64x128 f32", lambda: batches(64, 128, 128, 64)),
        ("torch.add 4096x4096", added),
        ("fused x * sigmoid(x) * y + z 4096x4096", gated),
        ("fused relu(x * y + z) * 0.5 4096x4096", scaled),
        ("gelu 4096x4096 f32", lambda: gelu(torch.float32, 0.95)),
        ("gelu 4096x4096 bf16", lambda: gelu(brain, 0.85)),
        ("softmax 4096x4096", softmax),
        ("softmax 4096x4096 f16", lambda: softmax(half, None, 1.4)),
        ("layer norm 4096x4096", layer_norm),
        ("layer norm 4096x4096 f16", half_layer_norm),
        ("rms norm 4096x4096", rms_norm),
        ("attention, a kernel, 8 heads of 1024x64", lambda: attention(1024)),
        ("attention, a kernel, 8 of 1024x64, causal", lambda: attention(1024, is_causal=True)),
        ("attention of a token, 32 of 4096x128 f16", lambda: decode(32, 4096, 128, half)),
        ("attention, PyTorch's op, 8 of 1024x64", lambda: attention_op(1024)),
        ("llama block, 512 tokens of 512", lambda: llama_block(512, 8)),
        ("llama block, 512 tokens of 1024", lambda: llama_block(1024, 16)),
    ]
