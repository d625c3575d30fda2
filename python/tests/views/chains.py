"""A chain: a base tensor and a list of steps, run on the CPU and on the device in lock step."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from random import Random

import torch

from . import steps as kinds
from .steps import Draw, Side

SIZES = [0, 1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 100, 127, 128, 129, 200]
MOST_ELEMENTS = 12_000
KEPT = 6


class Mismatch(AssertionError):
    """The device does not give what the CPU gives."""


class Beyond(Exception):
    """The device did what the CPU has no code for: there is nothing more to compare with."""


@dataclass(frozen=True)
class Chain:
    """Test case of a seed. `steps` are (kind, seed) pairs: any part of them is a chain too."""

    card: bool
    size: tuple[int, ...]
    dtype: torch.dtype
    seed: int
    steps: tuple[tuple[str, int], ...]

    @staticmethod
    def of(seed: int, card: bool) -> "Chain":
        random = Random(seed)
        size = random_size(random, most=6 if card else 8)
        dtype = random.choice(kinds.CARD if card else kinds.ALL)
        steps = []
        for _ in range(random.randint(3, 14)):
            group = random.choices([kinds.VIEWS, kinds.COPIES, kinds.WRITES], [5, 2, 3])[0]
            steps.append((random.choice(group).__name__, random.randrange(1 << 40)))
        return Chain(card, size, dtype, random.randrange(1 << 30), tuple(steps))

    def without(self, start: int, count: int) -> "Chain":
        return replace(self, steps=self.steps[:start] + self.steps[start + count :])


def random_size(random: Random, most: int) -> tuple[int, ...]:
    rank = min(random.choice([0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 8]), most)
    size = [random.choice(SIZES) for _ in range(rank)]
    while math.prod(max(1, length) for length in size) > MOST_ELEMENTS:
        at = max(range(rank), key=lambda dim: size[dim])
        size[at] = max(1, size[at] // random.choice([2, 3]))
    return tuple(size)


class Run:
    """One chain under way: the tensors of both sides, and the text of what was done."""

    def __init__(self, chain: Chain, device: torch.device, peer: torch.device | None = None):
        self.chain = chain
        self.text: list[str] = []
        self.host = Side(torch.device("cpu"), [])
        self.device = Side(device, [], peer)
        self.roots = 0
        draw = Draw(Random(chain.seed), chain.card, [])
        base = kinds.host_values(draw, chain.size, chain.dtype)
        self.keep(base.clone(), base.to(device), f"{chain.dtype} {list(chain.size)}")

    def all(self) -> None:
        """Carries the chain out, and compares everything at its end."""
        try:
            for name, seed in self.chain.steps:
                self.one(name, Random(seed))
        except Beyond:
            return
        self.compare_all()

    def one(self, name: str, random: Random) -> None:
        last = len(self.host.others) - 1
        number = last if random.random() < 0.7 else random.randint(0, last)
        host, device = self.host.others[number], self.device.others[number]
        draw = Draw(random, self.chain.card, self.host.others)
        step = kinds.BY_NAME[name](host, draw)
        if step is None:
            return
        if step.writes and name not in ("fill", "zero") and kinds.has_windows(host):
            return
        before = len(self.text)
        self.text.append(f"t{number}{step.text}")
        raised, result = self.attempt(step, self.host, host)
        refused, given = self.attempt(step, self.device, device)
        if refused is not None and raised is None:
            if type(refused) is RuntimeError and (step.refusable or self.is_card_format(refused)):
                if step.writes:
                    # The host has written: bring the device to the same values.
                    self.text.append("  refused; host values brought over")
                    self.device.others[number].copy_(self.host.others[number])
                return
            raise Mismatch(f"{self.text[before]}: the CPU does this, the device says {refused!r}")
        if raised is not None:
            self.text[-1] += f"   # {type(raised).__name__}"
            if refused is None and isinstance(raised, NotImplementedError):
                raise Beyond
            if refused is None:
                raise Mismatch(f"{self.text[before]}: the CPU says {raised!r}, the device does it")
            if isinstance(raised, NotImplementedError) and step.writes:
                raise Beyond  # half done: the CPU copies, and then cannot negate
            if type(raised) is not type(refused):
                raise Mismatch(f"{self.text[before]}: CPU {raised!r}, device {refused!r}")
            return
        if not step.writes:
            self.keep(result, given, self.text.pop())

    def is_card_format(self, error: RuntimeError) -> bool:
        """Returns true if the CPU would have given a result in a memory format that the card lacks."""
        return self.chain.card and "only supports contiguous memory format" in str(error)

    def attempt(self, step, side: Side, tensor: torch.Tensor):
        try:
            return None, step.run(side, tensor)
        except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError) as error:
            return error, None

    def keep(self, host: torch.Tensor, device: torch.Tensor, text: str) -> None:
        shares = any(
            host.untyped_storage()._cdata == other.untyped_storage()._cdata
            for other in self.host.others
        )
        if len(self.host.others) >= KEPT:
            # A root shows that a write through a view left the rest alone: drop views first.
            at = 1 + len(self.host.others) // 2
            del self.host.others[at], self.device.others[at]
        self.host.others.append(host)
        self.device.others.append(device)
        mark = "" if shares else "   # owns its storage"
        self.text.append(f"t{len(self.host.others) - 1} = {text}{mark}")
        self.compare_shape(host, device)

    def compare_shape(self, host: torch.Tensor, device: torch.Tensor) -> None:
        for fact in ("dtype", "shape", "is_conj", "is_neg", "stride", "storage_offset"):
            left, right = getattr(host, fact), getattr(device, fact)
            left, right = (left(), right()) if callable(left) else (left, right)
            if left != right:
                raise Mismatch(f"{self.text[-1]}: {fact} is {left} on the CPU, {right} here")
        if device.device.type != self.device.device.type:
            raise Mismatch(f"{self.text[-1]}: the result is on {device.device}")

    def compare_all(self) -> None:
        for number, (host, device) in enumerate(zip(self.host.others, self.device.others)):
            difference = first_difference(host, device.cpu(), self.chain.card)
            if difference:
                raise Mismatch(f"t{number}: {difference}")


def first_difference(left: torch.Tensor, right: torch.Tensor, card: bool = False) -> str | None:
    """None if both hold the same bits, NaNs aside; under `card` zeros have no sign."""
    left, right = plain(left), plain(right)
    if left.shape != right.shape or left.dtype != right.dtype:
        return f"{left.dtype} {tuple(left.shape)} against {right.dtype} {tuple(right.shape)}"
    if torch.equal(left.reshape(-1).view(torch.uint8), right.reshape(-1).view(torch.uint8)):
        return None
    same = left.reshape(-1, 1).view(torch.uint8) == right.reshape(-1, 1).view(torch.uint8)
    same = same.all(-1).reshape(left.shape)
    if left.is_floating_point():
        wide_left, wide_right = left.to(torch.float64), right.to(torch.float64)
        same |= wide_left.isnan() & wide_right.isnan()
        if card:
            same |= wide_left == wide_right
    if bool(same.all()):
        return None
    at = tuple(torch.nonzero(~same)[0].tolist())
    count = int((~same).sum())
    return f"{count} of {left.numel()} differ, first at {at}: CPU {left[at]}, device {right[at]}"


def plain(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    tensor = tensor.clone(memory_format=torch.contiguous_format)
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def failure(chain: Chain, device: torch.device, peer=None) -> tuple[Exception, list[str]] | None:
    """Runs a chain: None, or what went wrong and what had been done."""
    run = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = Run(chain, device, peer)
            run.all()
        except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
            return error, run.text if run else []
    return None


def shrink(chain: Chain, device: torch.device, peer=None) -> Chain:
    """The smallest chain found that still fails: fewer steps, then a smaller base."""
    width = max(1, len(chain.steps) // 2)
    while width:
        start = 0
        while start < len(chain.steps):
            shorter = chain.without(start, width)
            if failure(shorter, device, peer):
                chain = shorter
            else:
                start += width
        width //= 2
    for dim in range(len(chain.size)):
        for smaller in (1, 2, 3, 8, 33, 65):
            size = chain.size[:dim] + (smaller,) + chain.size[dim + 1 :]
            if smaller < chain.size[dim] and failure(replace(chain, size=size), device, peer):
                chain = replace(chain, size=size)
                break
    return chain
