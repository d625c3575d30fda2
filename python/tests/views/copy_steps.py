"""Steps that copy, on the device or between the two sides."""

from __future__ import annotations

import torch

from .draws import CARD_CASTS, Step, can_become


def clone(host, draw):
    return Step(".clone()", lambda side, t: t.clone())


def contiguous(host, draw):
    return Step(".contiguous()", lambda side, t: t.contiguous())


def channels_last(host, draw):
    if host.dim() != 4 or draw.card:
        return None
    form = torch.channels_last
    return Step(".contiguous(channels_last)", lambda side, t: t.contiguous(memory_format=form))


def cast(host, draw):
    dtype = draw.dtype()
    if not can_become(host, dtype):
        return None
    refusable = draw.card and dtype != host.dtype and (host.dtype, dtype) not in CARD_CASTS
    return Step(f".to({dtype})", lambda side, t: t.to(dtype), refusable=refusable)


def round_trip(host, draw):
    def run(side, t):
        return t.clone() if side.is_host else t.cpu().to(side.device)

    return Step(".cpu().to(device)", run)


def cast_in_flight(host, draw):
    """A conversion on the way down: device, dtype in one call."""
    dtype = draw.dtype()
    if not can_become(host, dtype):
        return None
    refusable = draw.card and dtype != host.dtype and (host.dtype, dtype) not in CARD_CASTS

    def run(side, t):
        return t.clone().to(dtype) if side.is_host else t.cpu().to(side.device, dtype)

    return Step(f".cpu().to(device, {dtype})", run, refusable=refusable)


def peer_trip(host, draw):
    def run(side, t):
        return t.clone() if side.peer is None else t.to(side.peer).to(side.device)

    return Step(".to(peer).to(device)", run)


def like(host, draw):
    return Step(
        " -> empty_like(..).copy_(..)", lambda side, t: torch.empty_like(t).copy_(t)
    )


def into_gaps(host, draw):
    """A copy into a view with gaps, whose surroundings must stay as they are."""
    if host.dim() > (5 if draw.card else 8) or host.numel() > 20_000:
        return None
    at = draw.below(2)

    def run(side, t):
        wide = torch.ones((*t.size(), 2), dtype=t.dtype, device=side.device)
        wide.select(-1, at).copy_(t)
        return wide

    return Step(f" -> ones(..., 2)[..., {at}].copy_(..)", run)


def flip(host, draw):
    dims = draw.dims(host, draw.below(host.dim() + 1))
    return Step(f".flip({dims})", lambda side, t: t.flip(dims))


def cat(host, draw):
    if not host.dim() or host.numel() > 20_000:
        return None
    dim = draw.below(host.dim())
    return Step(f" -> cat([t, t], {dim})", lambda side, t: torch.cat([t, t], dim))


def index_select(host, draw):
    if not host.dim():
        return None
    dim = draw.below(host.dim())
    if not host.size(dim):
        return None
    index = [draw.below(host.size(dim)) for _ in range(draw.below(6))]

    def run(side, t):
        return t.index_select(dim, torch.tensor(index, dtype=torch.int64, device=side.device))

    return Step(f".index_select({dim}, {index})", run)


def mask(host, draw):
    if not host.numel() or host.numel() > 20_000:
        return None
    seed = draw.below(1 << 30)

    def run(side, t):
        keep = torch.arange(t.numel()).mul_(2654435761).add_(seed).remainder_(3).eq_(0)
        return t[keep.bool().reshape(t.size()).to(side.device)]

    return Step("[mask]", run)


def read_host(host, draw):
    """Device to host, into any strides and any dtype. The result is compared at once."""
    dtype = draw.dtype() if not draw.card else host.dtype
    if not can_become(host, dtype) or host.numel() > 20_000 or (draw.card and host.dim() > 5):
        return None
    gaps = draw.below(2) + 1

    def run(side, t):
        target = torch.zeros((*t.size(), gaps), dtype=dtype)
        target.select(-1, 0).copy_(t)
        return target.to(side.device)

    return Step(f" -> host zeros(..., {gaps})[..., 0].copy_(..) as {dtype}", run)


COPIES = [
    clone,
    contiguous,
    channels_last,
    cast,
    cast,
    round_trip,
    cast_in_flight,
    peer_trip,
    like,
    into_gaps,
    flip,
    cat,
    index_select,
    mask,
    read_host,
]
