"""Streams that carry out Operations."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .. import _C, kernel_gradients
from ..kernels import _OWN_FUNCTION, call_site, scalar_words
from ..streams import Stream
from .operations import Operation
from .tensors import spyre_tensors


class SpyreStream(Stream):
    """A stream that Operations are launched on: the one way for all of a device's work.

    It is a ``torch.spyre.Stream``, and a new one is the next of its priority. Everything but ``synchronize`` returns
    at once; Operations of a stream are carried out one after another, those of different streams in any order.
    """

    def launch(
        self, operation: Operation, tensors: Sequence[torch.Tensor] = (), scalars: Sequence[int | float] = ()
    ) -> None:
        """Queues an Operation's blocks, for tensors that measure what it was compiled for; others are refused."""
        self._launch(operation, tensors, scalars, False)

    def launch_tiled(
        self, operation: Operation, tensors: Sequence[torch.Tensor] = (), scalars: Sequence[int | float] = ()
    ) -> None:
        """Queues an Operation's blocks for every tile of tensors larger than what it was compiled for."""
        self._launch(operation, tensors, scalars, True)

    def _launch(
        self, operation: Operation, tensors: Sequence[torch.Tensor], scalars: Sequence[int | float], is_tiled: bool
    ) -> None:
        site = call_site(self, depth=3)
        given = spyre_tensors(tensors)
        kernel_gradients.refuse(f"SpyreStream.launch({operation.name!r})", tensors, _OWN_FUNCTION)
        _C._launch_operation(operation._raw, given, scalar_words(scalars), is_tiled, site)
        operation._note_written(tensors)


class ControlBlockStream:
    """Control blocks of Operations, put together once and queued as often as one likes, as one.

        blocks = ControlBlockStream(stream)
        blocks.append(operation, [a, b, c])
        blocks.finalize()
        blocks.replay()

    Operations are appended while it is open. It belongs to a stream, keeps the tensors that it was given, and has
    programs of its own, which other launches do not correct.
    """

    def __init__(self, stream: torch.Stream | None = None) -> None:
        self._stream = Stream.of(torch.spyre.current_stream() if stream is None else stream)
        self._raw = _C.Composition(self._stream.device_index, self._stream.stream_id)
        self._kept: list[tuple[Operation, list[torch.Tensor]]] = []

    @property
    def stream(self) -> Stream:
        """The stream that it is queued on."""
        return self._stream

    @property
    def is_final(self) -> bool:
        """True if it can be replayed."""
        return self._raw.is_final

    def append(
        self, operation: Operation, tensors: Sequence[torch.Tensor] = (), scalars: Sequence[int | float] = ()
    ) -> None:
        """Adds the blocks of an Operation, for every tile of larger tensors. Its plan has been loaded."""
        given = spyre_tensors(tensors)
        kernel_gradients.refuse(f"ControlBlockStream.append({operation.name!r})", tensors, _OWN_FUNCTION)
        self._raw.append(operation._raw, given, scalar_words(scalars))
        self._kept.append((operation, list(tensors)))

    def finalize(self) -> None:
        """Ends the composing."""
        self._raw.finalize()

    def replay(self) -> None:
        """Queues all blocks, as one."""
        self._raw.replay(call_site(self._stream, depth=2))
        for operation, tensors in self._kept:
            operation._note_written(tensors)

    def __len__(self) -> int:
        return len(self._raw)

    def __repr__(self) -> str:
        state = "final" if self.is_final else "open"
        return f"<ControlBlockStream of {len(self)} blocks on stream {self._stream.id}, {state}>"
