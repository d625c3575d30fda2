"""Operators of images: pooling, norms over channels, padding, resampling, folding."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..case import SMALL, Case
from .products import gradients

KIND = "images"
WIDTHS = SMALL[1:]
aten = torch.ops.aten


def lines(make, size):
    return [make(2, 3, size)]


def image(make, size):
    return [make(2, 4, 6, size)]


def volume(make, size):
    return [make(1, 2, 4, 5, size)]


def spread(make, size):
    """An image no two numbers of which are equal, where the dtype has that many."""
    return [make.distinct(1, 2, 3, size)]


def normed(make, size):
    return [make(2, 4, 3, size), make(4), make(4), make(4), make(4, low=0.5, high=2)]


def both(name: str, function, operands, sizes=WIDTHS) -> list[Case]:
    """A function, and the gradients of its operands."""
    return [
        Case(name, function, operands, sizes, grows=True),
        Case(f"{name}_backward", gradients(function), operands, sizes, grows=True),
    ]


def padded(mode: str, *sides: int):
    return lambda x: F.pad(x, sides, mode=mode)


def resized(mode: str, **options):
    return lambda x: F.interpolate(x, scale_factor=1.5, mode=mode, **options)


def with_gradient(make, size):
    """Operands of a norm, and a random gradient: with the norm's own result as the gradient, only rounding errors would
    be left."""
    return [*normed(make, size), make(2, 4, 3, size)]


def gradients_for(function, operands, grad):
    inputs = [value.detach().requires_grad_() for value in operands]
    return torch.autograd.grad(function(*inputs), inputs, grad)


def batch_normed(x, w, b, mean, variance):
    return F.batch_norm(x, mean.detach().clone(), variance.detach().clone(), w, b, training=True)


def updated(x, w, b, mean, variance):
    mean, variance = mean.clone(), variance.clone()
    return (*aten._batch_norm_with_update(x, w, b, mean, variance, 0.1, 1e-5)[:3], mean, variance)


def update_backward(x, w, b, mean, variance, grad):
    made = aten._batch_norm_with_update(x, w, b, mean.clone(), variance.clone(), 0.1, 1e-5)
    return aten.batch_norm_backward(grad, x, w, mean, variance, made[1], made[2], True, 1e-5, [True] * 3, made[3])


CASES: list[Case] = [
    *both("avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), lines),
    *both("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), image),
    *both("avg_pool3d", lambda x: F.avg_pool3d(x, 2, 1, 1), volume),
    *both("max_pool1d", lambda x: F.max_pool1d(x, 3, 2, 1), lines),
    *both("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), spread),
    *both("max_pool3d", lambda x: F.max_pool3d(x, 2, 1, 1), volume),
    Case("max_pool2d", lambda x: F.max_pool2d(x, 2, 1, 1, return_indices=True), spread, WIDTHS),
    *both("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 5)), image),
    *both("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, (2, 3, 5)), volume),
    *both("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (3, 5)), spread),
    *both("adaptive_max_pool3d", lambda x: F.adaptive_max_pool3d(x, (2, 3, 5)), volume),
    Case("batch_norm", batch_normed, normed, WIDTHS, grows=True),
    Case("batch_norm", lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b), normed, WIDTHS, grows=True),
    Case(
        "batch_norm_backward",
        lambda x, w, b, m, v, g: gradients_for(lambda x, w, b: batch_normed(x, w, b, m, v), (x, w, b), g),
        with_gradient,
        WIDTHS,
        grows=True,
    ),
    Case("_native_batch_norm_legit", lambda x, w, b, m, v: aten._native_batch_norm_legit(x, w, b, True, 0.1, 1e-5),
         normed, WIDTHS, grows=True),
    Case("_batch_norm_with_update", updated, normed, WIDTHS, grows=True),
    Case("_batch_norm_with_update_backward", update_backward, with_gradient, WIDTHS, grows=True),
    Case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), lambda make, size: normed(make, size)[:3], WIDTHS,
         grows=True),
    Case("group_norm_backward", lambda x, w, b, m, v, g: gradients_for(lambda *o: F.group_norm(o[0], 2, *o[1:]),
                                                                      (x, w, b), g),
         with_gradient, WIDTHS, grows=True),
    *both("instance_norm", lambda x: F.instance_norm(x), image),
    *both("reflection_pad1d", padded("reflect", 2, 1), lines, WIDTHS[1:]),
    *both("reflection_pad2d", padded("reflect", 2, 1, 1, 2), image, WIDTHS[1:]),
    *both("reflection_pad3d", padded("reflect", 2, 1, 1, 2, 1, 1), volume, WIDTHS[1:]),
    *both("replication_pad1d", padded("replicate", 2, 1), lines),
    *both("replication_pad2d", padded("replicate", 2, 1, 1, 2), image),
    *both("replication_pad3d", padded("replicate", 2, 1, 1, 2, 1, 1), volume),
    *both("upsample_nearest1d", resized("nearest"), lines),
    *both("upsample_nearest2d", resized("nearest"), image),
    *both("upsample_nearest3d", resized("nearest"), volume),
    *both("upsample_nearest_exact1d", resized("nearest-exact"), lines),
    *both("upsample_nearest_exact2d", resized("nearest-exact"), image),
    *both("upsample_nearest_exact3d", resized("nearest-exact"), volume),
    *both("upsample_linear1d", resized("linear"), lines),
    *both("upsample_bilinear2d", resized("bilinear", align_corners=True), image),
    *both("upsample_bicubic2d", resized("bicubic"), image),
    *both("upsample_trilinear3d", resized("trilinear"), volume),
    *both("unfold (im2col)", lambda x: F.unfold(x, 3, padding=1, stride=2), image),
    *both("fold (col2im)", lambda x: F.fold(F.unfold(x, 3, padding=1), x.shape[2:], 3, padding=1), image),
    Case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), image, WIDTHS),
    *both("grid_sample", lambda x: F.grid_sample(x, torch.zeros(2, 3, 3, 2, device=x.device, dtype=x.dtype),
                                                 align_corners=False), image),
]  # fmt: skip
