"""Graphs, as other devices have them: recorded once, replayed often. This device does not have them yet."""

from __future__ import annotations

import itertools
from typing import Any, NoReturn

__all__ = [
    "SpyreGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]

_REASON = "graphs are not supported on spyre: a loaded plan is replayed by launch_kernel at the same cost"
_handles = itertools.count(1)


class SpyreGraph:
    """Cannot be made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(_REASON)


class graph:  # noqa: N801  the name that other devices have
    """Cannot be made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(_REASON)


def make_graphed_callables(*args: Any, **kwargs: Any) -> NoReturn:
    """Not supported."""
    raise NotImplementedError(_REASON)


def is_current_stream_capturing() -> bool:
    """Returns False: work on the current stream is never captured into a graph."""
    return False


def graph_pool_handle() -> tuple[int, int]:
    """A name for a pool of memory that graphs would share."""
    return (next(_handles), 0)
