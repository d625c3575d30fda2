"""Compositions of operations for which PyTorch has no decomposition that suits the device.

Each function computes anew, from tensors of the device; forms that write are made from it
(:mod:`..decompositions`). A function that does not take what it is given raises, and the CPU is asked.
"""

from . import (
    antialiasing,
    bags,
    borders,
    boxes,
    bytes_images,
    cells,
    complexes,
    counting,
    distances,
    elimination,
    factories,
    fourier,
    hashing,
    indices,
    losses,
    matrices,
    norms,
    ordering,
    pools,
    reflections,
    sampling,
    scans,
    triangles,
    unique,
)
from .table import CPU_ONLY, FUNCTIONS

__all__ = [
    "CPU_ONLY", "FUNCTIONS", "antialiasing", "bags", "borders", "boxes", "bytes_images", "cells",
    "complexes", "counting", "distances", "elimination", "factories", "fourier",
    "hashing", "indices", "losses", "matrices", "norms", "ordering", "pools", "reflections", "sampling",
    "scans", "triangles", "unique",
]  # fmt: skip
