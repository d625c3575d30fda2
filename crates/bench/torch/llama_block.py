"""A block of a Llama: the model that compiled graphs are measured with."""

from __future__ import annotations

import torch
import torch.nn.functional as F

__all__ = ["Block"]


class Block(torch.nn.Module):
    """A block of a Llama, with eight heads."""

    def __init__(self, width: int = 512, hidden: int = 1376) -> None:
        super().__init__()
        self.heads = 8
        self.attention_norm = torch.nn.RMSNorm(width)
        self.mlp_norm = torch.nn.RMSNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.gate = torch.nn.Linear(width, hidden, bias=False)
        self.up = torch.nn.Linear(width, hidden, bias=False)
        self.down = torch.nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        n = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))
