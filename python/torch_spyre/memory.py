"""The device's memory: how much is in use, what it was taken for, and what to do when there is no more.

Bytes are those on the device: a tensor takes whole sticks of 128 bytes, so a float16 tensor of two elements
takes 128. *Allocated* is what tensors hold, *reserved* is that and what is kept for the next ones.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.accelerator.memory import empty_host_cache, get_memory_info

from . import _C
from ._devices import Device, existing_index
from ._runtime import runtime

__all__ = [
    "MemPool",
    "attach_out_of_memory_observer",
    "device_memory_used",
    "empty_cache",
    "empty_host_cache",
    "get_allocator_backend",
    "get_memory_info",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "record_memory_history",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "snapshot",
    "use_mem_pool",
]


def empty_cache() -> None:
    """Gives back the memory that is kept for tensors to come."""
    if runtime.is_initialized():
        torch.accelerator.empty_cache()


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Returns the free and the total bytes of the memory that this process may use.

    Software cards live in the host's memory: what they may use is ``SPYRE_MEMORY_LIMIT``, or what the host
    had available when the first was opened. All cards of a process share it.
    """
    runtime._lazy_init()
    return torch.accelerator.get_memory_info(existing_index(device))


def device_memory_used(device: Device = None) -> int:
    """Returns the bytes in use of the memory that :func:`mem_get_info` reports."""
    free, total = mem_get_info(device)
    return total - free


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """Returns :func:`memory_stats` as a tree. Empty while the runtime has not started."""
    if not runtime.is_initialized():
        return {}
    return torch._C._accelerator_getDeviceStats(existing_index(device))


def memory_stats(device: Device = None) -> OrderedDict[str, Any]:
    """Everything that is counted, by names such as ``allocated_bytes.all.peak``.

    The first part is what is counted: ``allocation`` (tensors' memory, by number), ``allocated_bytes``,
    ``reserved_bytes``, ``requested_bytes`` (before rounding to sticks) and others. The second is ``all``,
    ``large_pool`` (1 MiB and more) or ``small_pool``. The third is ``current``, ``peak``, ``allocated`` (all
    that was added) or ``freed`` (all that was taken away). Then there are ``num_ooms`` and its like.
    """
    return OrderedDict(sorted(_flat("", memory_stats_as_nested_dict(device))))


def memory_allocated(device: Device = None) -> int:
    """The bytes that tensors hold."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes that tensors held, since the start or :func:`reset_peak_memory_stats`."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Device = None) -> int:
    """The bytes that tensors hold and that are kept for the next ones."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Device = None) -> int:
    """The most that :func:`memory_reserved` was, since the start or :func:`reset_peak_memory_stats`."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Lets all peaks be what is in use now."""
    if runtime.is_initialized():
        torch._C._accelerator_resetPeakStats(existing_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Lets all that was ever added and taken away, and events such as ``num_ooms``, be nothing."""
    if runtime.is_initialized():
        torch._C._accelerator_resetAccumulatedStats(existing_index(device))


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Returns :func:`host_memory_stats` as a tree."""
    return _C.host_memory_stats() if runtime.is_initialized() else {}


def host_memory_stats() -> OrderedDict[str, Any]:
    """Returns the statistics of pinned host memory, such as ``active_bytes.current``."""
    return OrderedDict(sorted(_flat("", host_memory_stats_as_nested_dict())))


def reset_peak_host_memory_stats() -> None:
    """Lets the peaks of pinned host memory be what is in use now."""
    if runtime.is_initialized():
        _C.reset_peak_host_memory_stats()


def reset_accumulated_host_memory_stats() -> None:
    """Lets all that was ever added to and taken from pinned host memory be nothing."""
    if runtime.is_initialized():
        _C.reset_accumulated_host_memory_stats()


def get_per_process_memory_fraction(device: Device = None) -> float:
    """The share of memory that tensors on ``device`` may hold."""
    runtime._lazy_init()
    return _C.memory_fraction(existing_index(device))


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Sets the share of memory (of the second number of :func:`mem_get_info`) that tensors may hold."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    runtime._lazy_init()
    _C.set_memory_fraction(existing_index(device), fraction)


def get_allocator_backend() -> str:
    """Returns the name of the device memory's allocator."""
    return "flex"


def attach_out_of_memory_observer(observer: Callable[[int, int, int, int], Any]) -> None:
    """Has ``observer(device, bytes, total, free)`` called whenever memory has run out, before that is raised.

    It is for taking notes, :func:`_dump_snapshot` for instance. What it raises itself is printed, not raised.
    """
    if not callable(observer):
        raise TypeError("the observer must be callable")
    _C.attach_out_of_memory_observer(observer)


def record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "python",
    max_entries: int = sys.maxsize,
    clear_history: bool = False,
    skip_actions: list[str] | None = None,
) -> None:
    """Notes who takes and gives back memory, for :func:`snapshot`.

    Args:
        enabled: ``"all"`` keeps what happened; ``"state"`` only who holds the memory that is in use; ``None``
            stops, and forgets.
        context: which of it comes with a stack trace: ``"state"`` (memory in use), ``"alloc"`` (also every
            allocation), ``"all"`` (also every free), ``None`` (nothing).
        stacks: ``"python"``, or ``"all"`` for the frames of C++ too, which takes far longer to look up.
        max_entries: how many events are kept, the last ones.
        clear_history: forgets what was noted until now.
        skip_actions: events that are not kept, such as ``["free_requested"]``.
    """
    _one_of("enabled", enabled, (None, "state", "all"))
    _one_of("context", context, (None, "state", "alloc", "all"))
    _one_of("stacks", stacks, ("python", "all"))
    actions = ("alloc", "free_requested", "free_completed", "snapshot", "oom")
    known = (*actions, "segment_alloc", "segment_free", "segment_map", "segment_unmap")
    for action in skip_actions or ():
        _one_of("skip_actions", action, known)
    kept = [action for action in actions if action not in (skip_actions or ())]
    _C.record_memory_history(enabled, context, stacks == "all", max_entries, clear_history, kept)


def snapshot(device: Device = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """Returns the segments of memory and the recorded events: the dictionary that PyTorch's memory_viz reads.

    ``segments`` are stretches of memory with their blocks, ``device_traces`` a list of events for each
    device. ``device`` is accepted for the sake of other devices' signatures: all are in it.
    """
    if not runtime.is_initialized():
        return {"segments": [], "device_traces": [], "allocator_settings": {}, "external_annotations": []}
    taken: Any = _C.memory_snapshot()
    if augment_with_fx_traces:
        from torch._utils import _augment_memory_snapshot_stack_traces

        taken = _augment_memory_snapshot_stack_traces(taken)
    return taken


def _dump_snapshot(
    filename: str | os.PathLike[str] = "dump_snapshot.pickle", augment_with_fx_traces: bool = False
) -> None:
    """Writes :func:`snapshot` to a file, for https://pytorch.org/memory_viz."""
    with open(filename, "wb") as file:
        pickle.dump(snapshot(augment_with_fx_traces=augment_with_fx_traces), file)


_record_memory_history = record_memory_history
_snapshot = snapshot


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """The segments of :func:`snapshot`; those with blocks of one pool, if its ``id`` is given."""
    segments = snapshot()["segments"]
    if mempool_id is None:
        return segments
    return [
        {**segment, "blocks": blocks}
        for segment in segments
        if (blocks := [block for block in segment["blocks"] if block.get("pool_id") == tuple(mempool_id)])
    ]


class MemPool:
    """A name for memory that is taken inside :func:`use_mem_pool`, to tell it from other memory.

    All memory of a device comes from one allocator, which needs no pools to be quick. What a pool is good for
    here: :meth:`snapshot` tells what was taken in it and is still held.
    """

    _ids = itertools.count(1)

    def __init__(self, allocator: None = None, use_on_oom: bool = False) -> None:
        if allocator is not None:
            raise NotImplementedError("memory of the device is given out by one allocator, which cannot be replaced")
        self._id = (0, next(MemPool._ids))
        self._uses = 0

    @property
    def id(self) -> tuple[int, int]:
        """Its number, in the form of other devices' pools."""
        return self._id

    @property
    def allocator(self) -> None:
        """The allocator of its own, which it never has."""
        return None

    def use_count(self) -> int:
        """Returns its number of uses: the pool itself, and each :func:`use_mem_pool` that has not ended."""
        return 1 + self._uses

    def snapshot(self) -> list[dict[str, Any]]:
        """The segments that hold blocks of this pool, with these blocks only."""
        return memory_snapshot(self.id)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Device = None) -> Iterator[None]:
    """Has what this thread takes on ``device`` meanwhile counted to ``pool``."""
    runtime._lazy_init()
    index = existing_index(device)
    previous = _C.exchange_pool(index, pool.id[1])
    pool._uses += 1
    try:
        yield
    finally:
        pool._uses -= 1
        _C.exchange_pool(index, previous)


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """A table of :func:`memory_stats`, to print."""
    runtime._lazy_init()
    index = existing_index(device)
    stats = memory_stats(index)
    pools = {"all": ""} if abbreviated else {"all": "", "large_pool": "  large", "small_pool": "  small"}
    rule = "-" * 77
    lines = [
        "=" * 77,
        f"{f'Memory of spyre:{index}':<29}out of memory: {stats['num_ooms']}, after a retry: {stats['num_alloc_retries']}",
        "=" * 77,
        f"{'':<25}" + "".join(f"{title:>13}" for title in ("now", "peak", "taken", "given back")),
    ]
    for key, title, show in _SUMMARY:
        lines.append(rule)
        for pool, suffix in pools.items():
            numbers = (stats[f"{key}.{pool}.{metric}"] for metric in ("current", "peak", "allocated", "freed"))
            lines.append(f"{suffix or title:<25}" + "".join(f"{show(number):>13}" for number in numbers))
    return "\n".join([*lines, "=" * 77, ""])


def _shown_bytes(number: int) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 10_000:
            return f"{number} {unit}"
        number //= 1024
    return f"{number} TiB"


_SUMMARY = (
    ("allocated_bytes", "allocated", _shown_bytes),
    ("requested_bytes", "requested", _shown_bytes),
    ("reserved_bytes", "reserved", _shown_bytes),
    ("allocation", "allocations", str),
    ("active", "active blocks", str),
)


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), inner)
    else:
        yield prefix, value


def _one_of(name: str, value: object, known: tuple[object, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}, which is none of {', '.join(map(repr, known))}")
