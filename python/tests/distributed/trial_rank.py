"""A rank of `distributed.trials`: collectives whose results it compares, until one of them fails."""

from __future__ import annotations

import os
import random
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from . import ranks
from .trials import MOST_SECONDS, TIMEOUT

SIZES = (1, 65, 1000, 70_001, 300_000)
MISMATCH_STEPS = (3, 60)
"""The call that does not fit is one of these."""


def main() -> None:
    kind, victim, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rank, size = ranks.join("cpu:gloo,spyre:spyreccl", seconds=30)
    shared = random.Random(seed)
    mismatch = shared.randint(*MISMATCH_STEPS) if kind == "mismatch" else -1
    dist.all_reduce(torch.ones(3, device="spyre"))
    dist.barrier()
    if kind in ("stop", "cut"):
        dist.group.WORLD.set_timeout(timedelta(seconds=TIMEOUT))
    print("begun", flush=True)
    end = time.monotonic() + MOST_SECONDS / 2
    step = 0
    try:
        while time.monotonic() < end:
            elements = shared.choice(SIZES)
            which = shared.choice((all_reduce, all_gather, broadcast, all_to_all))
            if step == mismatch and rank == victim:
                shared.choice((other_size, other_dtype, other_operation))(elements)
            elif step == mismatch:
                shared.random()
                checked_result(torch.ones(elements, device="spyre"), dist.all_reduce)
            else:
                which(rank, size, elements)
            step += 1
        raise AssertionError("nothing failed")
    except dist.DistBackendError as error:
        print(f"failed at {time.time()}: {error}", flush=True)
    dist.destroy_process_group()
    new_group_of_one()
    print("passed", flush=True)
    os._exit(0)  # the group's other ranks may not be there to say goodbye to


def checked_result(tensor: torch.Tensor, collective) -> None:
    collective(tensor)
    tensor.cpu()


def equal(got: torch.Tensor, want: float) -> None:
    assert bool((got.cpu() == want).all()), f"a sum is wrong: {got.cpu()[:3]} is not {want}"


def all_reduce(rank: int, size: int, elements: int) -> None:
    tensor = torch.full((elements,), rank + 1.0, device="spyre")
    dist.all_reduce(tensor)
    equal(tensor, size * (size + 1) / 2)


def all_gather(rank: int, size: int, elements: int) -> None:
    whole = torch.empty(size * elements, device="spyre")
    dist.all_gather_into_tensor(whole, torch.full((elements,), float(rank), device="spyre"))
    for other, part in enumerate(whole.cpu().chunk(size)):
        equal(part, other)


def broadcast(rank: int, size: int, elements: int) -> None:
    tensor = torch.full((elements,), float(rank), device="spyre")
    dist.broadcast(tensor, elements % size)
    equal(tensor, elements % size)


def all_to_all(rank: int, size: int, elements: int) -> None:
    given = torch.full((size * elements,), float(rank), device="spyre")
    taken = torch.empty_like(given)
    dist.all_to_all_single(taken, given)
    for other, part in enumerate(taken.cpu().chunk(size)):
        equal(part, other)


def other_size(elements: int) -> None:
    checked_result(torch.ones(elements + 1, device="spyre"), dist.all_reduce)


def other_dtype(elements: int) -> None:
    checked_result(torch.ones(elements, device="spyre", dtype=torch.int32), dist.all_reduce)


def other_operation(elements: int) -> None:
    checked_result(torch.ones(elements, device="spyre"), lambda tensor: dist.broadcast(tensor, 0))


def new_group_of_one() -> None:
    """The device and the process are good for another group."""
    store = dist.HashStore()
    dist.init_process_group("spyreccl", store=store, rank=0, world_size=1)
    tensor = torch.full((65,), 3.0, device="spyre")
    dist.all_reduce(tensor)
    equal(tensor, 3.0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
