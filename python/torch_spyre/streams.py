"""Streams and events of the device.

    side = torch.spyre.Stream()
    with side:
        y = x.to("spyre", non_blocking=True)
    torch.spyre.current_stream().wait_stream(side)

A stream is a queue: what is put on it is carried out in its order, and streams run independently of each
other. Each device has 65: number 0 is the default one, 1 to 32 are of low priority, 33 to 64 of high priority.
A new ``Stream`` is the next one of its priority, round robin.
"""

from __future__ import annotations

from typing import Any

import torch

from ._devices import Device, device_index, existing_index
from .constants import DEVICE_NAME

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
    "synchronize",
]

LAST_LOW_PRIORITY_ID = 32


class StreamDevice:
    """A stream's device. Called, it is the ``torch.device``; what one reads off that can be read off this.

    PyTorch's streams have an attribute ``device``, those of this package a method. This is both.
    """

    __slots__ = ("_device",)

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def __call__(self) -> torch.device:
        return self._device

    @property
    def type(self) -> str:
        return self._device.type

    @property
    def index(self) -> int:
        return self._device.index

    def __eq__(self, other: object) -> bool:
        return self._device == (other._device if isinstance(other, StreamDevice) else other)

    def __hash__(self) -> int:
        return hash(self._device)

    def __repr__(self) -> str:
        return repr(self._device)

    def __str__(self) -> str:
        return str(self._device)


class Stream(torch.Stream):
    """A queue of a device, and a context manager that makes it the current one.

    Args:
        device: whose; by default the current device's.
        priority: 0 is low, everything else is high.
    """

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: Any) -> Stream:
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        index = existing_index(device)
        # Priorities are two: PyTorch's own are negative where they are high.
        return super().__new__(cls, torch.device(DEVICE_NAME, index), priority=-1 if priority else 0)

    @classmethod
    def of(cls, stream: torch.Stream) -> Stream:
        """Returns ``stream`` as one of this class."""
        if isinstance(stream, cls):
            return stream
        if stream.device.type != DEVICE_NAME:
            raise ValueError(f"Expected a {DEVICE_NAME} stream, but got one of {stream.device}")
        return cls(
            stream_id=stream.stream_id,
            device_index=stream.device_index,
            device_type=stream.device_type,
        )

    @property
    def device(self) -> StreamDevice:  # type: ignore[override]
        """``stream.device()`` is its device; ``stream.device.index`` works too."""
        return StreamDevice(torch.device(DEVICE_NAME, self.device_index))

    @property
    def id(self) -> int:
        """Its number in the device's pool, 0 to 64."""
        return self.stream_id

    @property
    def priority(self) -> int:
        """0, or -1 if it is one of high priority."""
        return -1 if self.stream_id > LAST_LOW_PRIORITY_ID else 0

    def query(self) -> bool:
        """Returns True if everything that was put on it is done."""
        return super().query()

    def synchronize(self) -> None:
        """Waits until everything that was put on it is done, and raises what went wrong."""
        super().synchronize()

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Has ``event``, or a new one, happen when what was put on the stream until now is done."""
        event = torch.Event(torch.device(DEVICE_NAME, self.device_index)) if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: torch.Event) -> None:
        """Has what is put on it from now on wait for ``event``."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Has what is put on it from now on wait for what was put on ``stream`` until now."""
        self.wait_event(Stream.of(stream).record_event())

    def reset(self) -> None:
        """Lets a stream that failed be used again. What was queued on it is gone."""
        from . import _C

        _C.stream_reset(self.device_index, self.stream_id)

    def __repr__(self) -> str:
        return f"<torch_spyre.Stream device={self.device_index} id={self.stream_id}>"


class _EventType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == DEVICE_NAME


class Event(metaclass=_EventType):
    """``Event(...)`` is a ``torch.Event`` of the device: a mark on a stream that others can wait for.

    Args:
        enable_timing: whether ``elapsed_time`` can be asked.
        blocking: accepted, and without effect: who waits sleeps in any case.
        interprocess: events of other processes are not supported.
    """

    def __new__(  # type: ignore[misc]
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        if interprocess:
            raise NotImplementedError("events cannot be shared between processes")
        return torch.Event(DEVICE_NAME, enable_timing=enable_timing, blocking=blocking)


class StreamContext:
    """Makes ``stream`` the current one of its device meanwhile; ``None`` changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._entered: list[torch.Stream] = []

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            entered = Stream.of(self.stream)
            self._entered.append(entered)
            self._entered.append(Stream.of(torch.accelerator.current_stream(entered.device())))
            self._entered.append(current_stream())
            set_stream(entered)
        return self.stream

    def __exit__(self, *raised: object) -> None:
        if self.stream is not None:
            before, there, _ = self._entered.pop(), self._entered.pop(), self._entered.pop()
            set_stream(there)
            set_stream(before)


def stream(stream: torch.Stream | None) -> torch.Stream | StreamContext:
    """Returns the context manager of ``with torch.spyre.stream(s)``: the stream. ``None`` changes nothing."""
    if stream is None:
        return StreamContext(None)
    return stream if isinstance(stream, Stream) else Stream.of(stream)


def current_stream(device: Device = None) -> Stream:
    """The stream that this thread's work for ``device`` goes to."""
    return Stream.of(torch.accelerator.current_stream(existing_index(device)))


def default_stream(device: Device = None) -> Stream:
    """Stream 0 of ``device``."""
    index = existing_index(device)
    return Stream(stream_id=0, device_index=index, device_type=_device_type())


def set_stream(stream: torch.Stream | None) -> None:
    """Makes ``stream`` the current one of its device, and its device the current one of this thread."""
    if stream is not None:
        torch.accelerator.set_stream(Stream.of(stream))


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    set_stream(Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))


def synchronize(device: Device = None) -> None:
    """Waits until everything on all streams of ``device`` is done, and raises what went wrong first."""
    torch.accelerator.synchronize(device_index(device))


def _device_type() -> int:
    """Returns PyTorch's internal number of this type of device."""
    return torch.accelerator.current_stream().device_type


def get_stream_from_pool(device: Device = None, priority: int = 0) -> Stream:
    """The next stream of a priority: what ``Stream(device, priority)`` is."""
    return Stream(device, priority)


def set_current_stream(stream: torch.Stream) -> Stream:
    """Makes ``stream`` the current one of its device, and tells which one was."""
    previous = current_stream(Stream.of(stream).device_index)
    set_stream(stream)
    return previous
