"""Groups of processes: made for ``init_process_group``, ``new_group`` and their like."""

from __future__ import annotations

import sys
from datetime import timedelta
from types import ModuleType
from typing import Any

import torch.distributed as dist

from .. import _C

__all__ = ["create"]


def create(options: Any, backend_options: Any) -> Any:
    """Makes a group's backend. ``backend_options`` are what a program gave as ``pg_options``: a timeout."""
    extension = _extension()
    own = extension.Options(options.timeout)
    own.group_name = options.group_id
    own.global_ranks_in_group = options.global_ranks_in_group
    return extension.SpyreCCL(
        options.store, options.group_rank, options.group_size, own, _make_gloo, _C._group_table()
    )


def _make_gloo(store: dist.Store, rank: int, size: int, timeout: timedelta) -> Any:
    return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)


def _extension() -> ModuleType:
    try:
        from .. import _dist
    except ImportError as error:
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise dist.DistBackendError(
            f"the backend spyreccl is not built for Python {python} and torch {dist.torch.__version__}: run "
            f"tools/python-env of the source tree with this Python ({error})"
        ) from None
    return _dist
