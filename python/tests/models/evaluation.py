"""Scores and gradients of a model, on any device and in any dtype."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

__all__ = ["gradients", "scores", "widened"]


def scores(model: Callable[..., Any], call: dict[str, torch.Tensor], device: str = "cpu") -> torch.Tensor:
    """Scores that a model gives for a call."""
    output = model(**{key: value.to(device) for key, value in call.items()})
    if isinstance(output, torch.Tensor):
        return output
    return output.logits if "logits" in output else output.logits_per_image


def widened(model: torch.nn.Module, call: dict[str, torch.Tensor]) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A model with the weights that it has in its dtype, and its arguments, in float64: for use under `Exactly`."""
    own = copy.deepcopy(model).double()
    if hasattr(getattr(own, "config", None), "_experts_implementation"):
        own.set_experts_implementation("eager")  # the grouped product of the CPU has no float64
    return own, {key: value.double() if value.is_floating_point() else value for key, value in call.items()}


def gradients(model: torch.nn.Module, logits: torch.Tensor) -> dict[str, torch.Tensor]:
    """Those of a loss that asks for another class in each row."""
    rows = logits.flatten(0, -2)
    F.cross_entropy(rows, torch.arange(len(rows), device=rows.device) % rows.size(1)).backward()
    return {key: value.grad for key, value in model.named_parameters() if value.grad is not None}
