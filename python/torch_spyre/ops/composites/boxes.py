"""Boxes in images, as torchvision has them: which of them overlap, and what lies in them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from .table import Declined, composite

_BLOCK = 1024
"""Number of boxes that are compared at once with all that were kept before: bounds the memory."""

_ELEMENTS = 1 << 22
"""Number of elements that a group of regions may have between its two products."""


@composite("nms", namespace="torchvision")
def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Boxes from the best score on, without those that overlap a kept one too much."""
    is_right = boxes.dim() == 2 and boxes.size(1) == 4 and scores.shape == boxes.shape[:1]
    if not is_right or scores.dtype != boxes.dtype or boxes.dtype not in (torch.float32, torch.float64):
        raise Declined("the CPU says what is wrong")
    order = torch.sort(scores, stable=True, descending=True).indices
    boxes = boxes.index_select(0, order)
    kept: list[Tensor] = []
    for start in range(0, boxes.size(0), _BLOCK):
        block = boxes[start : start + _BLOCK]
        free = torch.ones(block.size(0), dtype=torch.bool, device=boxes.device)
        for at in kept:
            free &= ~_overlap(boxes.index_select(0, at), block, iou_threshold).any(0)
        kept.append(_first_come(block, free, iou_threshold).nonzero().reshape(-1) + start)
    return order.index_select(0, torch.cat(kept)) if kept else order


def _first_come(boxes: Tensor, free: Tensor, threshold: float) -> Tensor:
    """Those of the free boxes that no kept one before them overlaps.

    Each round is right for one more box at least, and usually for all after a few; the answer is the one that does
    not change.
    """
    overlaps = _ones(_overlap(boxes, boxes, threshold)).triu(1)
    kept = free
    for _ in range(boxes.size(0)):
        left = free & ((_ones(kept) @ overlaps) == 0)
        if bool((left == kept).all()):
            break
        kept = left
    return kept


def _ones(marks: Tensor) -> Tensor:
    return torch.where(marks, 1.0, 0.0)


def _overlap(first: Tensor, second: Tensor, threshold: float) -> Tensor:
    """Marks pairs of boxes whose shared part of their union is above the threshold."""
    low = torch.maximum(first[:, None, :2], second[None, :, :2])
    high = torch.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(2)
    union = _area(first)[:, None] + _area(second)[None, :] - shared
    return shared / union > _floor(threshold, first.dtype)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def _floor(threshold: float, dtype: torch.dtype) -> float:
    """The largest number of a dtype that is not above the threshold: to be above either is the same then."""
    rounded = torch.tensor(threshold, dtype=dtype)
    below = torch.nextafter(rounded, torch.tensor(-torch.inf, dtype=dtype)) if rounded.item() > threshold else rounded
    return below.item()


@composite("roi_align", namespace="torchvision")
def roi_align(
    x: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int,
    aligned: bool,
) -> Tensor:  # fmt: skip
    """The mean of samples in each bin of each region. Samples lie on a grid, so rows and columns are two products."""
    regions = _Regions(x, rois, spatial_scale, (pooled_height, pooled_width), sampling_ratio, aligned, x.shape)
    result = torch.zeros(rois.size(0), x.size(1), pooled_height, pooled_width, dtype=regions.dtype, device=x.device)
    for image, at, rows, columns in regions.groups():
        lines = rows.reshape(-1, rows.size(2)) @ x[image].to(regions.dtype).transpose(0, 1).reshape(x.size(2), -1)
        lines = lines.reshape(at.numel(), pooled_height * x.size(1), x.size(3))
        bins = (lines @ columns.transpose(1, 2)).reshape(-1, pooled_height, x.size(1), pooled_width)
        result.index_copy_(0, at, bins.transpose(1, 2).contiguous())
    return result.to(x.dtype)


@composite("_roi_align_backward", namespace="torchvision")
def roi_align_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, batch_size: int,
    channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    shape = (batch_size, channels, height, width)
    regions = _Regions(grad, rois, spatial_scale, (pooled_height, pooled_width), sampling_ratio, aligned, shape)
    result = torch.zeros(shape, dtype=regions.dtype, device=grad.device)
    for image, at, rows, columns in regions.groups():
        bins = grad.index_select(0, at).to(regions.dtype).transpose(1, 2).reshape(at.numel(), -1, pooled_width)
        lines = (bins @ columns).reshape(-1, channels * width)
        image_rows = rows.reshape(-1, height).t() @ lines
        result[image] += image_rows.reshape(height, channels, width).transpose(0, 1)
    return result.to(grad.dtype)


class _Regions:
    """Regions of images, and how much each row and column of an image counts for their bins."""

    def __init__(
        self, x: Tensor, rois: Tensor, scale: float, bins: tuple[int, int], sampling: int, aligned: bool,
        shape: tuple[int, ...] | torch.Size,
    ) -> None:  # fmt: skip
        if len(shape) != 4 or rois.dim() != 2 or rois.size(1) != 5 or not x.is_floating_point():
            raise Declined("the CPU says what is wrong")
        self.dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        self._rois, self._scale, self._bins = rois.to(self.dtype), scale, bins
        self._sampling, self._aligned, self._shape = sampling, aligned, shape

    def groups(self) -> Iterator[tuple[int, Tensor, Tensor, Tensor]]:
        """An image, some of its regions, and the weights of its rows and columns for their bins."""
        most = max(1, _ELEMENTS // max(1, self._bins[0] * self._shape[1] * self._shape[3]))
        for image in range(self._shape[0]):
            inside = (self._rois[:, 0].trunc() == image).nonzero().reshape(-1)
            for at in inside.split(most) if inside.numel() else ():
                rois = self._rois.index_select(0, at)
                rows = self._weights(rois[:, 2], rois[:, 4], self._bins[0], self._shape[2])
                columns = self._weights(rois[:, 1], rois[:, 3], self._bins[1], self._shape[3])
                yield image, at, rows, columns

    def _weights(self, start: Tensor, end: Tensor, bins: int, size: int) -> Tensor:
        """[region, bin, pixel]: the share of each pixel along one dim."""
        offset = 0.5 if self._aligned else 0.0
        start, end = start * self._scale - offset, end * self._scale - offset
        length = end - start if self._aligned else (end - start).clamp(min=1)
        bin_length = length / bins
        samples = torch.full_like(length, self._sampling) if self._sampling > 0 else bin_length.ceil()
        most = self._sampling if self._sampling > 0 else int(samples.max())
        first = start[:, None] + torch.arange(bins, dtype=self.dtype, device=start.device) * bin_length[:, None]
        pixel = torch.arange(size, dtype=self.dtype, device=start.device)
        total = torch.zeros(len(start), bins, size, dtype=self.dtype, device=start.device)
        for sample in range(most):
            place = first + ((sample + 0.5) * bin_length / samples)[:, None]
            is_used = (place >= -1) & (place <= size) & (sample < samples)[:, None]
            share = (1 - (pixel - place.clamp(0, size - 1)[:, :, None]).abs()).clamp(min=0)
            total += torch.where(is_used[:, :, None], share, torch.zeros_like(share))
        return total / samples.clamp(min=1)[:, None, None]
