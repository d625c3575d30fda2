"""Ranks that die, stop or come late: what the others say, and that they can go on."""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from . import ranks


def failure(limit: float) -> str:
    """Text of the error that ends a collective within a time."""
    began = time.monotonic()
    try:
        for _ in range(1000):
            tensor = torch.ones(1000, device="spyre")
            dist.all_reduce(tensor)
            tensor.cpu()
    except dist.DistBackendError as error:
        took = time.monotonic() - began
        assert took < limit, f"{took:.1f} s"
        return str(error)
    raise AssertionError("a rank was missing, and the collective ended well")


def says_again(first: str) -> None:
    """Later calls of the group repeat its first cause."""
    cause = first[first.index("rank 1 (pid") :]
    try:
        dist.all_reduce(torch.ones(2, device="spyre"))
        raise AssertionError("the group goes on after a failure")
    except dist.DistBackendError as error:
        assert cause in str(error), f"{error} does not repeat {cause}"


def new_group_of_one() -> None:
    """The device and the process are good for another group."""
    dist.destroy_process_group()
    store = dist.HashStore()
    dist.init_process_group("spyreccl", store=store, rank=0, world_size=1)
    tensor = torch.full((65,), 3.0, device="spyre")
    dist.all_reduce(tensor)
    assert tensor.cpu().tolist() == [3.0] * 65
    dist.destroy_process_group()


def killed() -> None:
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    first = failure(limit=3)
    assert "rank 1 (pid" in first and "SIGKILL" in first and "all_reduce #2" in first, first
    says_again(first)
    new_group_of_one()


def late() -> None:
    dist.group.WORLD.set_timeout(timedelta(seconds=2))
    if dist.get_rank() == 1:
        time.sleep(8)
        return
    first = failure(limit=7.5)
    assert "timeout" in first and "rank 1 (pid" in first and "has not arrived" in first, first
    says_again(first)
    new_group_of_one()


def left() -> None:
    """Ends the program in the middle of things: without destroy_process_group, with work that was not waited for."""
    works = [dist.all_reduce(torch.ones(size, device="spyre"), async_op=True) for size in (3, 1_000_000)]
    if dist.get_rank() == 1:
        works.append(dist.irecv(torch.ones(3, device="spyre"), 0))  # which no rank sends
    print("passed", flush=True)
    sys.exit(0)


def main() -> None:
    ranks.join("cpu:gloo,spyre:spyreccl", seconds=30)
    dist.all_reduce(torch.ones(3, device="spyre"))
    dist.barrier()
    {"killed": killed, "late": late, "left": left}[sys.argv[1]]()
    print("passed", flush=True)
    os._exit(0)  # the group's other rank is not there to say goodbye to


if __name__ == "__main__":
    main()
