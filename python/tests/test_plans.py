"""Plans of common kernels ship with the package: what most programs begin with compiles nothing."""

from __future__ import annotations

from conftest import needs_spyre

pytestmark = needs_spyre

FIRST = """
import torch
a, b = torch.randn(3, 5), torch.randn(3, 5)
assert torch.spyre.plan_stats() == dict.fromkeys(torch.spyre.plan_stats(), 0)
c = torch.add(a.to("spyre"), b.to("spyre"))
assert torch.equal(c.cpu(), a + b)
stats = torch.spyre.plan_stats()
print(stats["compiled"], stats["bundle_hits"], stats["broken"])
"""

MANY = """
import torch
import torch.nn.functional as F

for dtype in (torch.float32, torch.float16, torch.bfloat16):
    x = torch.rand(2, 3, 64).to("spyre", dtype)
    row, column = x[0, 0].clone(), x[:, :, :1].clone()
    for y in (x, row, 0.5, 2):
        x + y, x - y, x * y, x / y
    x += x
    x *= 0.5
    x + row[None], x * column, x / column, 1 - x, x > 0, x == x, x ** 2, x.clamp(min=0)
    F.relu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), torch.tanh(x), torch.sigmoid(x)
    x.exp(), x.log(), x.sqrt(), x.rsqrt(), -x, x.abs(), x.sin(), x.cos()
    x.sum(), x.sum(-1), x.mean(), x.mean(-1, keepdim=True), x.amax(-1), x.argmax(-1)
    F.softmax(x, -1), F.log_softmax(x, -1)
    F.layer_norm(x, (64,), row, row), F.rms_norm(x, (64,), row)
    weight = torch.rand(32, 64).to("spyre", dtype)
    bias = torch.rand(32).to("spyre", dtype)
    x[0] @ weight.t(), x @ x.transpose(1, 2), F.linear(x, weight), F.linear(x, weight, bias)
    F.embedding(torch.tensor([[1, 2]], device="spyre"), weight)
    torch.cat([x, x], 0), torch.where(x > 1, x, x), x.clone(), x.to(torch.float32), x.zero_()
    heads = torch.rand(2, 4, 8, 16).to("spyre", dtype)
    F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    torch.rand(4, 4, device="spyre", dtype=dtype), torch.randn(4, 4, device="spyre", dtype=dtype)
counts = torch.arange(8, device="spyre")
counts + 1, counts * 2, counts < 4, counts.sum(), (counts < 4) & (counts > 1)
torch.spyre.synchronize()
stats = torch.spyre.plan_stats()
print(stats["compiled"], stats["bundle_hits"] > 100, stats["broken"])
"""

TRAINING = """
import torch
import torch.nn.functional as F

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
model.to("spyre")
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for _ in range(2):
    F.cross_entropy(model(torch.rand(5, 8).to("spyre")), torch.arange(5, device="spyre") % 4).backward()
    optimizer.step()
    optimizer.zero_grad()
print(torch.spyre.plan_stats()["compiled"])
"""


def test_the_first_add_compiles_nothing(python, tmp_path):
    assert python(FIRST, SPYRE_CACHE_DIR=str(tmp_path)).stdout.split() == ["0", "1", "0"]
    assert list(tmp_path.iterdir()) == []


def test_common_ops_compile_nothing(python, tmp_path):
    assert python(MANY, SPYRE_CACHE_DIR=str(tmp_path)).stdout.split() == ["0", "True", "0"]


def test_a_small_model_is_trained_and_nothing_is_compiled(python, tmp_path):
    assert python(TRAINING, SPYRE_CACHE_DIR=str(tmp_path)).stdout.split() == ["0"]


def test_what_is_nowhere_is_compiled_once_and_kept_in_the_folder(python, tmp_path):
    code = """
        import torch
        torch.ones(3, device="spyre", dtype=torch.float64).hypot(torch.ones(3, device="spyre", dtype=torch.float64))
        stats = torch.spyre.plan_stats()
        print(stats["compiled"], stats["folder_hits"])
    """
    compiled, found = python(code, SPYRE_CACHE_DIR=str(tmp_path)).stdout.split()
    assert (int(compiled), found) == (len(list(tmp_path.iterdir())), "0") and int(compiled) > 0
    assert python(code, SPYRE_CACHE_DIR=str(tmp_path)).stdout.split() == ["0", compiled]
