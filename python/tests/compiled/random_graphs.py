"""Random programs, compiled and beside that run eagerly: `python -m compiled.random_graphs --programs 5000`.

A program is 10 to 40 operations on a pool of tensors: functions of one and two numbers, views, reductions, products,
gathers, scatters, and writes to what was made before. The same seed gives the same program.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from collections.abc import Callable

import torch

from .judge import Limit, check, check_near

__all__ = ["Program", "compare"]

Step = Callable[[list[torch.Tensor]], torch.Tensor]
LIMIT = Limit(rtol=2e-3, atol=2e-3)


class Program:
    """A random program: a list of steps, each of which adds a tensor to the pool."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        torch.manual_seed(seed)
        sizes = [self._draw.choice((3, 5, 8, 16, 33, 64, 70)) for _ in range(3)]
        self.inputs = [torch.randn(sizes[0], sizes[1]), torch.randn(sizes[1], sizes[2]), torch.randn(sizes[0], sizes[1])]
        self.is_dynamic = self._draw.random() < 0.3
        self._steps: list[Step] = []
        pool = [tensor.clone() for tensor in self.inputs]
        while len(self._steps) < self._draw.randint(10, 40):
            step = self._step(pool)
            if step is None:
                continue
            made = step(pool)
            if made.numel() == 0 or made.numel() > 20_000 or not made.isfinite().all() or made.abs().max() > 1e4:
                continue
            self._steps.append(step)
            pool.append(made)

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        pool = [tensor.clone() for tensor in inputs]
        for step in self._steps:
            pool.append(step(pool))
        return pool[-6:]

    def _step(self, pool: list[torch.Tensor]) -> Step | None:
        at = self._draw.randrange(len(pool))
        kind = self._draw.choice(KINDS)
        return kind(self._draw, pool, at)


def _one(draw: random.Random, pool: list[torch.Tensor], at: int) -> Step:
    function = draw.choice((torch.sigmoid, torch.tanh, torch.relu, torch.sin, torch.abs, torch.neg, torch.square))
    factor = draw.uniform(-1, 1)
    return lambda pool: function(pool[at] * factor)


def _two(draw: random.Random, pool: list[torch.Tensor], at: int) -> Step | None:
    function = draw.choice((torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum))
    fitting = [other for other, tensor in enumerate(pool) if _broadcasts(tensor, pool[at])]
    other = draw.choice(fitting)
    return lambda pool: function(pool[at], pool[other])


def _broadcasts(one: torch.Tensor, two: torch.Tensor) -> bool:
    pairs = zip(reversed(one.shape), reversed(two.shape))
    return all(a == b or 1 in (a, b) for a, b in pairs)


def _where(draw: random.Random, pool: list[torch.Tensor], at: int) -> Step:
    bound = draw.uniform(-0.5, 0.5)
    return lambda pool: torch.where(pool[at] > bound, pool[at], pool[at] * 0.5 - 1)


def _view(draw: random.Random, pool: list[torch.Tensor], at: int) -> Step | None:
    tensor = pool[at]
    if tensor.dim() == 0:
        return lambda pool: pool[at].reshape(1, 1).expand(3, 2)
    dim = draw.randrange(tensor.dim())
    if tensor.dim() > 4:
        return lambda pool: pool[at].flatten()
    choice = draw.randrange(6)
    if choice == 0:
        return lambda pool: pool[at].transpose(0, -1)
    if choice == 1:
        start = draw.randrange(max(tensor.size(dim) - 1, 1))
        return lambda pool: pool[at].narrow(dim, start, pool[at].size(dim) - start)
    if choice == 2:
        return lambda pool: pool[at].flatten()
    if choice == 3:
        return lambda pool: pool[at].unsqueeze(dim)
    if choice == 4:
        return lambda pool: pool[at].flip(dim)
    return lambda pool: pool[at].select(dim, -1)


def _reduction(draw: random.Random, pool: list[torch.Tensor], at: int) -> Step | None:
    if pool[at].dim() == 0:
        return None
    dim = draw.randrange(pool[at].dim())
    keeps = draw.random() < 0.7
    function = draw.choice((torch.mean, torch.amax, torch.amin, torch.logsumexp))
    return lambda pool: function(pool[at], dim, keepdim=keeps)


def _normalised(draw: random.Random, pool: list[torch.Tensor], at: int) -> Step | None:
    if pool[at].dim() == 0:
        return None
    if draw.random() < 0.5:
        return lambda pool: torch.softmax(pool[at], -1)
    return lambda pool: torch.nn.functional.layer_norm(pool[at], pool[at].shape[-1:])


def _product(draw: random.Random, pool: list[torch.Tensor], at: int) -> Step | None:
    left = pool[at]
    if left.dim() < 2:
        return None
    fitting = [other for other, tensor in enumerate(pool) if tensor.dim() == 2 and tensor.size(0) == left.size(-1)]
    if not fitting:
        return lambda pool: pool[at] @ pool[at].transpose(-1, -2) * 0.1
    other = draw.choice(fitting)
    return lambda pool: pool[at] @ pool[other] * 0.1


def _gather(draw: random.Random, pool: list[torch.Tensor], at: int) -> Step | None:
    tensor = pool[at]
    if tensor.dim() == 0:
        return None
    dim = draw.randrange(tensor.dim())
    places = [draw.randrange(tensor.size(dim)) for _ in range(draw.randint(1, 6))]
    return lambda pool: pool[at].index_select(dim, torch.tensor(places, device=pool[at].device))


def _scatter(draw: random.Random, pool: list[torch.Tensor], at: int) -> Step | None:
    tensor = pool[at]
    if tensor.dim() == 0:
        return None
    places = [draw.randrange(5) for _ in range(tensor.size(0))]

    def step(pool: list[torch.Tensor]) -> torch.Tensor:
        index = torch.tensor(places, device=pool[at].device)
        return pool[at].new_zeros(5, *pool[at].shape[1:]).index_add(0, index, pool[at])

    return step


def _joined(draw: random.Random, pool: list[torch.Tensor], at: int) -> Step | None:
    if pool[at].dim() == 0:
        return None
    dim = draw.randrange(pool[at].dim())
    return lambda pool: torch.cat((pool[at], pool[at] * 2), dim)


def _padded(draw: random.Random, pool: list[torch.Tensor], at: int) -> Step | None:
    if pool[at].dim() == 0:
        return None
    return lambda pool: torch.nn.functional.pad(pool[at], (1, 2))


def _written(draw: random.Random, pool: list[torch.Tensor], at: int) -> Step:
    def step(pool: list[torch.Tensor]) -> torch.Tensor:
        copy = pool[at].clone()
        copy.add_(1)
        if copy.dim():
            copy[..., -1:].mul_(2)
        return copy

    return step


KINDS = [
    _one, _one, _two, _two, _two, _where, _view, _view, _reduction, _normalised, _product, _gather, _scatter, _joined,
    _padded, _written,
]  # fmt: skip


def compare(seed: int) -> str | None:
    """The difference that a program shows, if there is one."""
    torch._dynamo.reset()
    program = Program(seed)
    inputs = [tensor.to("spyre") for tensor in program.inputs]
    try:
        given = torch.compile(program, dynamic=program.is_dynamic or None)(*inputs)
        eager = program(*inputs)
        check(given, eager, program(*[tensor.double() for tensor in program.inputs]))
        check_near(given, eager, LIMIT)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
        return f"seed {seed}: {type(error).__name__}: {str(error)[:600]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    begin = time.monotonic()
    wrong = 0
    for seed in range(options.first, options.first + options.programs):
        found = compare(seed)
        if found is not None:
            wrong += 1
            print(found, flush=True)
    print(f"{options.programs} programs, {wrong} wrong, in {time.monotonic() - begin:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
