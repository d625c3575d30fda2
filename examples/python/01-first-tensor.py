"""A tensor on the device: made, computed with, looked at, and brought back.

    python examples/python/01-first-tensor.py
"""

import torch

x = torch.randn(512, 240, dtype=torch.float16, device="spyre")
weight = torch.randn(240, 64, dtype=torch.float16).to("spyre")
print(f"x is {tuple(x.shape)} on {x.device}, {torch.spyre.get_device_name()}")

# Views are exact, whatever they start and end with.
part = x[:, 3:].t()
assert torch.equal(part.cpu(), x.cpu()[:, 3:].t())
print(f"x[:, 3:].t() is {tuple(part.shape)}, and equal to the CPU's")

# What the device has no kernel for yet is done by the CPU, and says so once.
y = torch.relu(x @ weight)
expected = torch.relu(x.cpu().float() @ weight.cpu().float())
worst = (y.cpu().float() - expected).abs().max().item()
print(f"relu(x @ weight) is within {worst:.4f} of float32")
assert worst < 0.1

# Gradients flow, as on any device.
layer = torch.nn.Linear(240, 10).to("spyre")
loss = layer(x.float()).square().mean()
loss.backward()
print(f"the loss is {loss.item():.3f}, its gradient {tuple(layer.weight.grad.shape)} on {layer.weight.grad.device}")

for name, calls in sorted(torch.spyre.fallback_stats().items()):
    print(f"  {calls} x {name} by the CPU")
