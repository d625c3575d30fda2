"""Ranks as child processes: `start` and `run` from outside, `join` and `report` inside."""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta

import children


def start(module: str, size: int, *arguments: str, wrappers: list[list[str]] | None = None, **settings: str) -> list:
    """Starts `python -m distributed.module arguments...` once per rank, as torchrun would.

    ``wrappers`` are commands that run each rank's Python for it.
    """
    shared = {
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "OMP_NUM_THREADS": "1",
        "SPYRE_MEMORY_LIMIT": "1G",
        **settings,
    }
    ranks = [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)]
    command = ["-m", f"distributed.{module}", *arguments]
    wrappers = wrappers or [[]] * size
    return [children.start(command, wrapper=wrapper, **own) for wrapper, own in zip(wrappers, ranks)]


def run(module: str, size: int, *arguments: str, seconds: float = 150, **settings: str) -> list[str]:
    """Runs all ranks to their end and gives what each printed; fails if one of them does."""
    ended = [children.finish(child, seconds) for child in start(module, size, *arguments, **settings)]
    for rank, (code, output) in enumerate(ended):
        assert code == 0, f"rank {rank} of {size} ended with {code}:\n{output}"
    return [output for _, output in ended]


def join(backend: str | None = "cpu:gloo,spyre:spyreccl", seconds: float = 60, **options) -> tuple[int, int]:
    """Makes the group of all ranks, and gives this one's number and how many there are."""
    import torch.distributed as dist

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        backend, rank=rank, world_size=size, timeout=timedelta(seconds=seconds), **options
    )
    return rank, size


def report(checks: dict[str, Callable[[], None]]) -> None:
    """Runs checks in their order on all ranks, says how each ended, and leaves the group.

    A rank that fails a check goes on: collectives of the next one fit together unless this one broke off in the
    middle, which the group's timeout ends.
    """
    import torch.distributed as dist

    faulthandler.dump_traceback_later(300, exit=True)  # a rank that hangs says where
    failed = 0
    for name, check in checks.items():
        try:
            check()
            print(f"passed {name}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()
    sys.exit(1 if failed else 0)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
