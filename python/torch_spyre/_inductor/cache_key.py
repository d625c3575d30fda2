"""The parts of a graph's key besides PyTorch's: this package, its compiler and its profile."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphModulePass

from .. import _C

__all__ = ["CacheKey"]


class CacheKey(CustomGraphModulePass):
    """A pass that changes nothing. Its `uuid` is part of the key of every graph on the device."""

    def __call__(self, gm: torch.fx.GraphModule) -> None:
        pass

    def uuid(self) -> Any:
        return f"spyre {_digest()} {os.environ.get('SPYRE_PROFILE', '')} {os.environ.get('SPYRE_MAX_TILE', '')}"


@functools.cache
def _digest() -> str:
    """The package's own code: the extension, and all that is written in Python."""
    files = [Path(_C.__file__), *sorted(Path(_C.__file__).parent.rglob("*.py"))]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:32]
