"""The steps of a chain: each looks at the host tensor, draws its numbers, and gives one `Step`.

A step is carried out twice, once per side, by the same code. What it draws follows from its seed and
from the host tensor alone, so that any sub-list of a chain is a chain: that is what lets it shrink.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Callable

import torch

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SMALL_FLOATS = [
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
]
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
COMPLEX = [torch.complex32, torch.complex64, torch.complex128]
ALL = FLOATS + SMALL_FLOATS + SIGNED + UNSIGNED + COMPLEX + [torch.bool]

CARD = [torch.float16, torch.bfloat16, torch.float32, torch.bool, torch.uint8] + SIGNED
"""Dtypes that the `card` profile stores."""

CARD_CASTS = {
    (torch.float16, torch.bool),
    (torch.bool, torch.float16),
    (torch.float16, torch.bfloat16),
    (torch.bfloat16, torch.float16),
    (torch.float16, torch.float32),
    (torch.bfloat16, torch.float32),
    (torch.float32, torch.float16),
    (torch.float32, torch.bfloat16),
}
"""The conversions that the `card` profile must carry out; it may refuse every other."""


@dataclass
class Step:
    """One operation, ready to run on either side."""

    text: str
    run: Callable[["Side", torch.Tensor], torch.Tensor | None]
    writes: bool = False
    refusable: bool = False
    """The device may refuse this with a RuntimeError, and then nothing has happened."""


@dataclass
class Side:
    """One side of a comparison: the CPU, or the device under test."""

    device: torch.device
    others: list[torch.Tensor]
    peer: torch.device | None = None

    @property
    def is_host(self) -> bool:
        return self.device.type == "cpu"


@dataclass
class Draw:
    """Random numbers, and the rules of the profile under test."""

    random: Random
    card: bool
    others: list[torch.Tensor]

    def below(self, count: int) -> int:
        return self.random.randrange(count)

    def pick(self, items):
        return items[self.below(len(items))]

    def dims(self, tensor: torch.Tensor, count: int) -> list[int]:
        return self.random.sample(range(tensor.dim()), count)

    def dtype(self) -> torch.dtype:
        return self.pick(CARD if self.card else ALL)

    def value(self, dtype: torch.dtype):
        if dtype == torch.bool:
            return bool(self.below(2))
        signed = dtype.is_signed
        number = self.below(9) - (4 if signed else 0)
        if not self.card and dtype in FLOATS and self.below(8) == 0:
            return self.pick([math.inf, -math.inf, math.nan, -0.0, torch.finfo(dtype).min])
        return number


def host_values(draw: Draw, size, dtype: torch.dtype) -> torch.Tensor:
    """A fresh host tensor of small whole numbers, with specials where every dtype's rule keeps them."""
    seed = draw.below(1 << 30)
    count = math.prod(size)
    start = torch.arange(count, dtype=torch.int64).mul_(2654435761).add_(seed)
    whole = start.bitwise_right_shift_(7).remainder_(101)
    if dtype.is_signed:
        whole -= 50
    values = whole.to(dtype)
    if not draw.card and dtype in FLOATS and count and draw.below(3) == 0:
        for special in (math.nan, math.inf, -math.inf, -0.0):
            values[draw.below(count)] = special
    return values.reshape(size)


def has_windows(tensor: torch.Tensor) -> bool:
    """Returns true if two indices share an element of the storage, other than by a stride of zero.

    The result of a write through such a tensor depends on the order of its loops.
    """
    for dim, stride in enumerate(tensor.stride()):
        tensor = tensor.narrow(dim, 0, min(1, tensor.size(dim))) if stride == 0 else tensor
    if tensor.numel() < 2:
        return False
    places = element_numbers(tensor).flatten()
    return places.unique().numel() != places.numel()


def element_numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Per index of `tensor`, the storage element it stands for."""
    places = torch.full((), tensor.storage_offset(), dtype=torch.int64)
    for dim, (size, stride) in enumerate(zip(tensor.size(), tensor.stride())):
        axis = torch.arange(size, dtype=torch.int64) * stride
        places = places.unsqueeze(-1) + axis
    return places


def byte_numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Every byte of its storage that `tensor` can touch."""
    first = element_numbers(tensor).flatten() * tensor.element_size()
    return (first.unsqueeze(-1) + torch.arange(tensor.element_size())).flatten()


def same_memory(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Returns true if two host tensors have a byte in common."""
    if left.untyped_storage().data_ptr() != right.untyped_storage().data_ptr():
        return False
    return bool(torch.isin(byte_numbers(left), byte_numbers(right)).any())


def can_become(tensor: torch.Tensor, dtype: torch.dtype) -> bool:
    """Returns true if CPU PyTorch defines the cast, whatever loop it takes: no overflow, no NaN to int."""
    if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
        return True
    if not tensor.numel():
        return True
    values = tensor.detach().resolve_conj().resolve_neg()
    if values.is_complex():
        values = torch.view_as_real(values.contiguous().to(torch.complex128))
    if values.dtype == torch.uint64 and values.to(torch.float64).max() >= 2**63:
        return dtype == torch.uint64
    values = values.to(torch.float64)
    limits = torch.iinfo(dtype)
    return bool(((values >= limits.min) & (values <= limits.max)).all())


# Views.


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


# Copies.


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


# Writes.


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
