"""Models of images, from ``timm``, while they are trained: their norms take the batch's own numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

__all__ = ["IMAGE_MODELS", "ImageModel"]


@dataclass(frozen=True)
class ImageModel:
    """A model's name in ``timm``, and the settings that make it small."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    size: int = 32

    def make(self, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
        """The model, on the CPU, with the same weights every time."""
        import timm

        torch.manual_seed(7)
        return timm.create_model(self.name, num_classes=7, **self.settings).to(dtype).train()

    def call(self, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
        """Arguments of a call, on the CPU: four images."""
        make = torch.Generator().manual_seed(11)
        return {"x": torch.randn(4, 3, self.size, self.size, generator=make).to(dtype)}


IMAGE_MODELS: dict[str, ImageModel] = {
    "resnet18": ImageModel("resnet18", size=64),
    "resnet50": ImageModel("resnet50", size=64),
    "timm_vit": ImageModel(
        "vit_tiny_patch16_224", {"img_size": 32, "patch_size": 8, "embed_dim": 64, "depth": 2, "num_heads": 4}
    ),
    "convnext": ImageModel("convnext_atto", {"depths": (1, 1, 2, 1), "dims": (16, 32, 48, 64)}, size=64),
}
"""Each model under a name of its own."""
