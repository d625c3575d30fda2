"""Steps that give a view of the same memory."""

from __future__ import annotations

import math

import torch

from .draws import SMALL_FLOATS, UNSIGNED, Draw, Step


def select(host, draw):
    dim = draw.below(host.dim()) if host.dim() else None
    if dim is None or not host.size(dim):
        return None
    index = draw.below(host.size(dim)) - draw.pick([0, host.size(dim)])
    return Step(f".select({dim}, {index})", lambda side, t: t.select(dim, index))


def slice_(host, draw):
    if not host.dim():
        return None
    dim = draw.below(host.dim())
    size = host.size(dim)
    start = draw.below(size + 1)
    stop = start + draw.below(size - start + 2)
    stride = draw.pick([1, 1, 2, 3])
    index = (slice(None),) * dim + (slice(start, stop, stride),)
    return Step(f"[{':, ' * dim}{start}:{stop}:{stride}]", lambda side, t: t[index])


def narrow(host, draw):
    if not host.dim():
        return None
    dim = draw.below(host.dim())
    start = draw.below(host.size(dim) + 1)
    length = draw.below(host.size(dim) - start + 1)
    return Step(f".narrow({dim}, {start}, {length})", lambda side, t: t.narrow(dim, start, length))


def transpose(host, draw):
    if host.dim() < 2:
        return None
    left, right = draw.dims(host, 2)
    return Step(f".transpose({left}, {right})", lambda side, t: t.transpose(left, right))


def permute(host, draw):
    order = draw.dims(host, host.dim())
    return Step(f".permute({order})", lambda side, t: t.permute(order))


def movedim(host, draw):
    if host.dim() < 2:
        return None
    source, target = draw.below(host.dim()), draw.below(host.dim())
    return Step(f".movedim({source}, {target})", lambda side, t: t.movedim(source, target))


def expand(host, draw):
    size = [draw.pick([1, 2, 3, 5]) if n == 1 else n for n in host.size()]
    if host.numel() < 2000 and draw.below(3) == 0:
        size.insert(0, draw.pick([1, 2, 4]))
    if len(size) > (6 if draw.card else 9):
        return None
    return Step(f".expand({size})", lambda side, t: t.expand(size))


def unsqueeze(host, draw):
    if host.dim() >= (6 if draw.card else 9):
        return None
    dim = draw.below(host.dim() + 1)
    return Step(f".unsqueeze({dim})", lambda side, t: t.unsqueeze(dim))


def squeeze(host, draw):
    return Step(".squeeze()", lambda side, t: t.squeeze())


def diagonal(host, draw):
    if host.dim() < 2:
        return None
    left, right = draw.dims(host, 2)
    offset = draw.below(5) - 2
    text = f".diagonal({offset}, {left}, {right})"
    return Step(text, lambda side, t: t.diagonal(offset, left, right))


def unfold(host, draw):
    if not host.dim() or host.dim() >= (6 if draw.card else 9):
        return None
    dim = draw.below(host.dim())
    if not host.size(dim):
        return None
    length = 1 + draw.below(min(host.size(dim), 8))
    step = 1 + draw.below(4)
    if host.numel() * length > 60_000:
        return None
    return Step(f".unfold({dim}, {length}, {step})", lambda side, t: t.unfold(dim, length, step))


def chunk(host, draw):
    if not host.dim():
        return None
    dim = draw.below(host.dim())
    parts = 1 + draw.below(4)
    index = draw.below(parts)
    text = f".chunk({parts}, {dim})[{index} % n]"
    return Step(text, lambda side, t: (lambda all_: all_[index % len(all_)])(t.chunk(parts, dim)))


def as_strided(host, draw):
    elements = host.untyped_storage().nbytes() // host.element_size()
    if not elements or host.is_conj() or host.is_neg():
        return None
    size, stride, room = [], [], elements - 1
    offset = draw.below(elements)
    room -= offset
    for _ in range(draw.below(4)):
        step = draw.pick([0, 1, 1, 2, 3, 7, 16, 64, 100])
        most = min(room // step if step else 4, 40)
        count = 1 + draw.below(most + 1) if most else 1
        room -= (count - 1) * step
        size.append(count)
        stride.append(step)
    if math.prod(size) > 20_000:
        return None
    text = f".as_strided({size}, {stride}, {offset})"
    return Step(text, lambda side, t: t.as_strided(size, stride, offset))


def factorised(count: int, draw: Draw) -> list[int]:
    size = []
    while count > 1 and len(size) < 5:
        factors = [n for n in (2, 3, 4, 5, 7, 8, 16, 32, 64, 128) if count % n == 0]
        if not factors or draw.below(4) == 0:
            break
        size.append(draw.pick(factors))
        count //= size[-1]
    size.append(count)
    draw.random.shuffle(size)
    return size


def view(host, draw):
    size = factorised(host.numel(), draw)
    return Step(f".view({size})", lambda side, t: t.view(size))


def reshape(host, draw):
    size = factorised(host.numel(), draw)
    return Step(f".reshape({size})", lambda side, t: t.reshape(size))


def flatten(host, draw):
    if host.dim() < 2:
        return None
    first = draw.below(host.dim())
    last = first + draw.below(host.dim() - first)
    return Step(f".flatten({first}, {last})", lambda side, t: t.flatten(first, last))


def view_dtype(host, draw):
    dtype = draw.dtype()
    inexact = {torch.float16, torch.bfloat16, torch.bool, torch.int64, torch.uint8}
    refusable = draw.card and bool({dtype, host.dtype} & inexact)
    if draw.card and (dtype.is_floating_point or dtype == torch.bool):
        # Any bits are a number of these: the card rounds them, so that only integers are exact.
        return None
    if dtype == torch.bool:
        return None
    return Step(f".view({dtype})", lambda side, t: t.view(dtype), refusable=refusable)


def set_storage(host, draw):
    if host.is_conj() or host.is_neg():
        return None
    dtype = host.dtype if draw.card else draw.dtype()
    if dtype == torch.bool != host.dtype:
        return None
    width = dtype.itemsize
    elements = host.untyped_storage().nbytes() // width
    offset = draw.below(elements + 1)
    count = draw.below(elements - offset + 1)

    def run(side, t):
        empty = torch.empty(0, dtype=dtype, device=side.device)
        return empty.set_(t.untyped_storage(), offset, (count,), (1,))

    return Step(f".set_(storage as {dtype}, {offset}, ({count},))", run)


def view_as_real(host, draw):
    if not host.is_complex() or host.is_conj():
        return None
    return Step(".view_as_real()", lambda side, t: torch.view_as_real(t))


def view_as_complex(host, draw):
    if host.dtype not in (torch.float16, torch.float32, torch.float64) or draw.card:
        return None
    return Step(".view_as_complex()", lambda side, t: torch.view_as_complex(t))


def conj(host, draw):
    return None if not host.is_complex() else Step(".conj()", lambda side, t: t.conj())


def part(host, draw):
    if not host.is_complex():
        return None
    name = draw.pick(["real", "imag"])
    return Step(f".{name}", lambda side, t: getattr(t, name))


def neg_view(host, draw):
    if host.dtype == torch.bool or host.dtype in SMALL_FLOATS or host.dtype in UNSIGNED:
        return None
    if host.is_complex():
        return None  # how the CPU negates a complex zero depends on its strides
    return Step("._neg_view()", lambda side, t: torch._neg_view(t))


def detach(host, draw):
    return Step(".detach()", lambda side, t: t.detach())


VIEWS = [
    select,
    slice_,
    slice_,
    narrow,
    transpose,
    transpose,
    permute,
    movedim,
    expand,
    expand,
    unsqueeze,
    squeeze,
    diagonal,
    unfold,
    chunk,
    as_strided,
    view,
    reshape,
    flatten,
    view_dtype,
    set_storage,
    view_as_real,
    view_as_complex,
    conj,
    part,
    neg_view,
    detach,
]
