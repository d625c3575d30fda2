"""Steps that write to the tensor that they are given."""

from __future__ import annotations

import torch

from .draws import CARD_CASTS, Step, can_become, host_values, same_memory


def fill(host, draw):
    value = draw.value(host.dtype)
    return Step(f".fill_({value})", lambda side, t: t.fill_(value), writes=True)


def zero(host, draw):
    return Step(".zero_()", lambda side, t: t.zero_(), writes=True)


def has_bfloat16_nan(host):
    """The CPU's vector code gives 0xffff where the rest of it gives 0x7fc0: there is no bit to compare."""
    return host.dtype == torch.bfloat16 and bool(host.isnan().any())


def add(host, draw):
    if host.dtype == torch.bool or has_bfloat16_nan(host):
        return None
    return Step(".add_(1)", lambda side, t: t.add_(1), writes=True)


def negate(host, draw):
    if not host.dtype.is_signed or has_bfloat16_nan(host):
        return None
    if host.is_complex():
        return None  # a zero keeps its sign in the CPU's vector code, and loses it in the rest
    return Step(".neg_()", lambda side, t: t.neg_(), writes=True)


def write_host(host, draw):
    """Host to device, from any strides and any dtype, blocking or not, pinned or not."""
    dtype = draw.dtype() if not draw.card else host.dtype
    source = host_values(draw, host.size(), dtype)
    if not can_become(source, host.dtype):
        return None
    if source.dim() >= 2 and draw.below(2):
        source = source.transpose(0, -1).contiguous().transpose(0, -1)
    if source.dim() and source.size(0) and draw.below(4) == 0:
        source = source[:1].expand(source.size())
    if dtype.is_complex and draw.below(3) == 0:
        source = source.conj()
    later = draw.below(2) == 1
    refusable = draw.card and (dtype, host.dtype) not in CARD_CASTS and dtype != host.dtype
    text = f".copy_(host {dtype} {tuple(source.stride())}, non_blocking={later})"
    run = lambda side, t: t.copy_(source, non_blocking=later)  # noqa: E731
    return Step(text, run, writes=True, refusable=refusable)


def write_other(host, draw):
    """Writes from another tensor of the chain, which may share its storage."""
    fitting = []
    for number, other in enumerate(draw.others):
        try:
            other.expand(host.size())
        except RuntimeError:
            continue
        if can_become(other, host.dtype):
            fitting.append(number)
    if not fitting:
        return None
    number = draw.pick(fitting)
    source = draw.others[number]
    apart = same_memory(host, source)
    refusable = draw.card and source.dtype != host.dtype
    refusable = refusable and (source.dtype, host.dtype) not in CARD_CASTS

    def run(side, t):
        other = side.others[number]
        return t.copy_(other.clone() if apart else other)

    return Step(f".copy_(t{number})", run, writes=True, refusable=refusable)


def set_item(host, draw):
    if not host.dim() or not host.size(0):
        return None
    start = draw.below(host.size(0))
    value = draw.value(host.dtype)

    def run(side, t):
        t[start::2] = value
        return t

    return Step(f"[{start}::2] = {value}", run, writes=True)


def masked_fill(host, draw):
    value = draw.value(host.dtype)
    seed = draw.below(1 << 30)

    def run(side, t):
        keep = torch.arange(t.numel()).mul_(2654435761).add_(seed).remainder_(3).eq_(0)
        return t.masked_fill_(keep.bool().reshape(t.size()).to(side.device), value)

    return Step(f".masked_fill_(mask, {value})", run, writes=True)


def index_put(host, draw):
    if not host.dim() or not host.size(0):
        return None
    rows = draw.random.sample(range(host.size(0)), 1 + draw.below(min(host.size(0), 5)))
    value = draw.value(host.dtype)

    def run(side, t):
        t[torch.tensor(rows, device=side.device)] = value
        return t

    return Step(f"[tensor({rows})] = {value}", run, writes=True)


WRITES = [
    fill,
    zero,
    add,
    negate,
    write_host,
    write_host,
    write_other,
    write_other,
    set_item,
    masked_fill,
    index_put,
]
