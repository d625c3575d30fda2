"""One random program: cold and warm kernels on several streams, with faults among them.

The model has a CPU tensor for each tensor of the device, and knows which were to be written by work that was
cancelled. A fault cancels what is queued behind it on its stream until it is reported; a stream that waits for
a failing one fails with it.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

CAUSE = "out of range"
POISONED = "holds no result"
SHAPES = [(7,), (64,), (3, 5), (16, 64), (33, 65)]


class Wrong(AssertionError):
    """The device did not do what the model says."""


@dataclass
class Pair:
    """A tensor of the device, what it must hold, the stream that wrote it last, and those that read it since."""

    there: torch.Tensor
    here: torch.Tensor
    stream: int
    is_poisoned: bool = False
    readers: set[int] = field(default_factory=set)


def part_of(tensor: torch.Tensor) -> torch.Tensor:
    """All but the first row, or all but the first column where there is one row only."""
    return tensor[1:] if len(tensor) > 1 else tensor[..., 1:]


class Program:
    """A seed's program: `run` carries it out and compares everything with the model."""

    def __init__(self, seed: int, streams: list[torch.spyre.Stream]):
        self.draw = random.Random(seed)
        self.seed = seed
        self.streams = streams
        self.failing: set[int] = set()
        self.pairs: list[Pair] = []
        self.faults = 0

    def run(self, steps: int) -> None:
        for _ in range(4):
            self.make()
        for step in range(steps):
            kind = self.draw.choices(
                [self.make, self.pointwise, self.cold, self.write, self.write_part, self.fault, self.report,
                 self.reset, self.read],
                [3, 8, 3, 3, 2, 2, 2, 1, 2],
            )[0]  # fmt: skip
            self.do(step, kind)
        self.do(steps, self.finish)

    def do(self, step: int, kind: Callable[[], None]) -> None:
        try:
            kind()
        except Wrong as wrong:
            raise Wrong(f"seed {self.seed}, step {step}, {kind.__name__}: {wrong}") from wrong

    def make(self) -> None:
        """A new tensor: filled on the device, or copied there."""
        shape, stream = self.draw.choice(SHAPES), self.stream()
        value = float(self.draw.randint(-8, 8))
        with torch.spyre.stream(self.streams[stream]):
            if self.draw.random() < 0.5:
                there = torch.full(shape, value, device="spyre")
            else:
                there = torch.empty(shape, device="spyre")
                there.copy_(torch.full(shape, value), non_blocking=True)
        self.pairs.append(Pair(there, torch.full(shape, value), stream, stream in self.failing))

    def pointwise(self) -> None:
        """A warm kernel, out of place or in place."""
        op = self.draw.choice([torch.neg, torch.relu, lambda x: x + 1, lambda x: x * 0.5])
        self.launch(op)

    def cold(self) -> None:
        """A kernel that this process has never launched."""
        number = self.draw.randint(0, 1 << 40)
        constant = 1.0 + (number % 1000) / 8
        text = f"kernel k{number}(n) {{\n in x: float32[n]\n out y: float32[n]\n y = x * {constant}\n}}"
        kernel = torch.spyre.compile(text)
        self.launch(lambda x: x * constant, lambda x: kernel(x.reshape(-1)).reshape(x.shape))

    def launch(self, here_op, there_op=None) -> None:
        there_op = there_op or here_op
        pair = self.draw.choice(self.pairs)
        stream = self.stream()
        in_place = self.draw.random() < 0.3
        readers = set(pair.readers)
        self.order(stream, pair, is_written=in_place)
        with torch.spyre.stream(self.streams[stream]):
            try:
                result = there_op(pair.there)
                if in_place:
                    pair.there.copy_(result)
            except RuntimeError as error:
                pair.readers = readers
                return self.refused(pair, stream, error)
        if pair.is_poisoned and stream not in self.failing:
            raise Wrong("a poisoned tensor was read without a word")
        poisoned = stream in self.failing
        if in_place:
            pair.stream, pair.is_poisoned = stream, poisoned or pair.is_poisoned
            if not poisoned:
                pair.here = here_op(pair.here)
        else:
            self.pairs.append(Pair(result, here_op(pair.here), stream, poisoned))

    def write(self) -> None:
        """A write of all of a tensor, which heals it."""
        pair, stream = self.draw.choice(self.pairs), self.stream()
        value = float(self.draw.randint(-8, 8))
        self.order(stream, pair, is_written=True)
        with torch.spyre.stream(self.streams[stream]):
            if self.draw.random() < 0.5:
                pair.there.fill_(value)
            else:
                pair.there.copy_(torch.full(pair.here.shape, value), non_blocking=True)
        pair.stream = stream
        if stream in self.failing:
            pair.is_poisoned = True
        else:
            pair.here, pair.is_poisoned = torch.full(pair.here.shape, value), False

    def write_part(self) -> None:
        """A write of a part, which heals nothing."""
        pair, stream = self.draw.choice(self.pairs), self.stream()
        value = float(self.draw.randint(-8, 8))
        self.order(stream, pair, is_written=True)
        with torch.spyre.stream(self.streams[stream]):
            part_of(pair.there).fill_(value)
        pair.stream = stream
        if stream in self.failing:
            pair.is_poisoned = True
        elif not pair.is_poisoned:
            part_of(pair.here).fill_(value)

    def fault(self) -> None:
        """An index that is out of range."""
        stream = self.stream()
        with torch.spyre.stream(self.streams[stream]):
            table = torch.zeros(4, 64, device="spyre")
            index = torch.tensor([99]).to("spyre", non_blocking=True)
            result = self.draw.choice([torch.index_select, self.embedding])(table, 0, index)
        self.failing.add(stream)
        self.faults += 1
        self.pairs.append(Pair(result, torch.zeros(result.shape), stream, True))

    @staticmethod
    def embedding(table, _, index):
        return torch.nn.functional.embedding(index, table)

    def report(self) -> None:
        """A call that synchronizes: it raises the stream's own fault, once, and nothing else."""
        at = self.stream()
        raised = None
        try:
            self.streams[at].synchronize()
        except (RuntimeError, IndexError) as error:
            raised = str(error)
        if (at in self.failing) != (raised is not None):
            raise Wrong(f"stream {at} of {sorted(self.failing)} raised {raised}")
        if raised is not None and CAUSE not in raised:
            raise Wrong(f"stream {at} does not name the first cause: {raised}")
        self.failing.discard(at)
        self.streams[at].synchronize()

    def reset(self) -> None:
        """A stream that is let go on: a fault that it had goes unreported, one that is still to come does not."""
        at = self.stream()
        self.streams[at].reset()
        try:
            self.streams[at].synchronize()
        except (RuntimeError, IndexError) as error:
            if at not in self.failing or CAUSE not in str(error):
                raise Wrong(f"stream {at} of {sorted(self.failing)} raised {error}") from error
        self.failing.discard(at)

    def read(self) -> None:
        """A copy to the host, on the stream that wrote the tensor."""
        self.compare(self.draw.choice(self.pairs))

    def compare(self, pair: Pair) -> None:
        stream = pair.stream
        is_failing = stream in self.failing
        try:
            with torch.spyre.stream(self.streams[stream]):
                found = pair.there.cpu()
        except (RuntimeError, IndexError) as error:
            if not is_failing and not pair.is_poisoned:
                raise Wrong(f"a sound tensor raised {error}") from error
            if CAUSE not in str(error):
                raise Wrong(f"the first cause is not named: {error}") from error
            if POISONED not in str(error):  # else it was refused, and the stream's own fault is still to come
                self.failing.discard(stream)
            elif not pair.is_poisoned:
                raise Wrong(f"a sound tensor was refused: {error}") from error
            return
        if is_failing or pair.is_poisoned:
            raise Wrong("a poisoned tensor was read without a word")
        if not torch.equal(found, pair.here):
            raise Wrong(f"{found} is not {pair.here}")

    def finish(self) -> None:
        """Every fault is reported, every tensor compared, every poisoned one healed, and all works again."""
        for at in range(len(self.streams)):
            with contextlib.suppress(RuntimeError, IndexError):
                self.streams[at].synchronize()
        self.failing.clear()
        for pair in self.pairs:
            self.compare(pair)
            if pair.is_poisoned:
                pair.there.copy_(pair.here)
            torch.spyre.synchronize()
            if not torch.equal((pair.there + 1).cpu(), (pair.here + 1)):
                raise Wrong("a tensor that was written anew is not what was written")

    def stream(self) -> int:
        return self.draw.randrange(len(self.streams))

    def order(self, stream: int, pair: Pair, is_written: bool) -> None:
        """Has a stream wait for those that wrote a tensor, or still read it; if one fails, it fails, too."""
        before = {pair.stream} | (pair.readers if is_written else set())
        for other in sorted(before - {stream}):
            self.streams[stream].wait_stream(self.streams[other])
            if other in self.failing:
                self.failing.add(stream)
        pair.readers = set() if is_written else pair.readers | {stream}

    def refused(self, pair: Pair, stream: int, error: RuntimeError) -> None:
        """An op was refused at the call: only where it reads what is poisoned, or what a failing stream wrote."""
        if POISONED not in str(error) or CAUSE not in str(error):
            raise Wrong(f"refused for another reason: {error}") from error
        if not pair.is_poisoned:
            raise Wrong(f"a sound tensor was refused on stream {stream}: {error}") from error
