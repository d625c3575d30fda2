"""Calls of programs besides the collectives themselves: groups, meshes, futures, coalescing, objects."""

from __future__ import annotations

import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.distributed.device_mesh import init_device_mesh

from . import ranks

RANK, SIZE = ranks.join(None, device_id=torch.device("spyre", int(os.environ["LOCAL_RANK"])))
DEVICE = torch.device("spyre", torch.spyre.current_device())


def ones(*shape: int, **options) -> torch.Tensor:
    return torch.ones(*shape, device=DEVICE, **options)


def equal(got: torch.Tensor, want: torch.Tensor) -> None:
    torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0)


def backend_of_the_device() -> None:
    assert dist.get_default_backend_for_device("spyre") == "spyreccl"
    assert DEVICE.index == RANK
    assert type(dist.group.WORLD._get_backend(DEVICE)).__name__ == "SpyreCCL"


def views_and_strides() -> None:
    tensor = torch.arange(12.0, device=DEVICE).reshape(3, 4).t()
    dist.all_reduce(tensor)
    equal(tensor, torch.arange(12.0).reshape(3, 4).t() * SIZE)
    base = torch.zeros(4, 70, device=DEVICE)
    dist.broadcast(base[:, 1:66], 0)
    dist.all_reduce(base[1, 3:68].add_(RANK + 1))
    want = torch.zeros(4, 70)
    want[1, 3:68] = sum(range(1, SIZE + 1))
    equal(base, want)
    outputs = [torch.zeros(5, 3, device=DEVICE).t() for _ in range(SIZE)]
    dist.all_gather(outputs, torch.full((3, 5), float(RANK), device=DEVICE))
    for rank, output in enumerate(outputs):
        equal(output, torch.full((3, 5), float(rank)))


def shapes_of_many_dims() -> None:
    own = torch.arange(2 * 3 * 65.0, device=DEVICE).reshape(2, 3, 65) + RANK
    whole = torch.empty(2 * SIZE, 3, 65, device=DEVICE)
    dist.all_gather_into_tensor(whole, own)
    parts = [torch.arange(2 * 3 * 65.0).reshape(2, 3, 65) + rank for rank in range(SIZE)]
    equal(whole, torch.cat(parts))
    share = torch.empty(2, 3, 65, device=DEVICE)
    dist.reduce_scatter_tensor(share, whole)
    equal(share, parts[RANK] * SIZE)
    scalar = torch.tensor(RANK + 1.0, device=DEVICE)
    dist.all_reduce(scalar)
    equal(scalar, torch.tensor(float(sum(range(1, SIZE + 1)))))


def parameters_that_need_gradients() -> None:
    parameter = torch.nn.Parameter(torch.full((65,), float(RANK), device=DEVICE))
    dist.broadcast(parameter.data, 0)
    with torch.no_grad():
        dist.all_reduce(parameter)
    equal(parameter.detach(), torch.zeros(65))
    assert parameter.requires_grad


def averages_and_factors() -> None:
    tensor = ones(65, dtype=torch.bfloat16) * (RANK + 1)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    equal(tensor, torch.full((65,), (SIZE + 1) / 2, dtype=torch.bfloat16))
    tensor = ones(65)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    equal(tensor, torch.full((65,), 0.5 * SIZE))


def work_and_futures() -> None:
    tensor = ones(1000)
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future().then(lambda done: done.value()[0] * 2)
    assert work.wait(timedelta(seconds=30))
    assert work.is_completed() or work.wait()
    equal(future.wait(), torch.full((1000,), 2.0 * SIZE))
    equal(tensor, torch.full((1000,), float(SIZE)))


def works_of_many_at_once() -> None:
    tensors = [ones(100 + n) for n in range(8)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    for n, tensor in enumerate(tensors):
        equal(tensor, torch.full((100 + n,), float(SIZE)))


def collectives_follow_the_stream() -> None:
    stream = torch.spyre.Stream()
    tensor = ones(512, 512)
    with torch.spyre.stream(stream):
        stream.wait_stream(torch.spyre.default_stream())
        for _ in range(3):
            tensor = tensor @ tensor / 512
        dist.all_reduce(tensor)
        result = tensor + 1
    torch.spyre.current_stream().wait_stream(stream)
    equal(result, torch.full((512, 512), SIZE + 1.0))


def groups() -> None:
    pairs = [dist.new_group([rank]) for rank in range(SIZE)]
    alone = ones(65)
    dist.all_reduce(alone, group=pairs[RANK])
    equal(alone, torch.ones(65))
    everyone = dist.new_group(timeout=timedelta(seconds=20))
    dist.all_reduce(alone, group=everyone)
    equal(alone, torch.full((65,), float(SIZE)))
    dist.destroy_process_group(everyone)
    split = dist.split_group(split_ranks=[list(range(SIZE))])
    dist.all_reduce(alone, group=split)
    equal(alone, torch.full((65,), float(SIZE * SIZE)))


def meshes() -> None:
    mesh = init_device_mesh("spyre", (SIZE,), mesh_dim_names=("all",))
    tensor = ones(3)
    dist.all_reduce(tensor, group=mesh.get_group("all"))
    equal(tensor, torch.full((3,), float(SIZE)))
    plane = init_device_mesh("spyre", (1, SIZE), mesh_dim_names=("outer", "inner"))
    dist.all_reduce(tensor, group=plane["inner"].get_group())
    dist.all_reduce(tensor, group=plane["outer"].get_group())
    equal(tensor, torch.full((3,), float(SIZE * SIZE)))


def coalescing() -> None:
    with dist._coalescing_manager(device=DEVICE, async_ops=True) as works:
        tensors = [ones(n) for n in (1, 64, 65)]
        for tensor in tensors:
            dist.all_reduce(tensor)
    works.wait()
    for tensor in tensors:
        equal(tensor, torch.full(tensor.shape, float(SIZE)))


def pairs_of_messages() -> None:
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    for elements in (1, 65, 200_000):
        given, taken = ones(elements) * RANK, torch.zeros(elements, device=DEVICE)
        sent = dist.isend(given, after, tag=elements)
        received = dist.irecv(taken, before, tag=elements)
        received.wait()
        sent.wait()
        equal(taken, torch.full((elements,), float(before)))
    if RANK == 0:
        dist.send(ones(5), 1)
    elif RANK == 1:
        taken = torch.zeros(5, device=DEVICE)
        assert dist.recv(taken) == 0
        equal(taken, torch.ones(5))


def objects() -> None:
    gathered = [None] * SIZE
    dist.all_gather_object(gathered, {"rank": RANK})
    assert gathered == [{"rank": rank} for rank in range(SIZE)]
    listed = [f"from {RANK}", RANK]
    dist.broadcast_object_list(listed, src=SIZE - 1)
    assert listed == [f"from {SIZE - 1}", SIZE - 1]


def barriers() -> None:
    dist.barrier()
    dist.barrier(device_ids=[DEVICE.index])
    dist.barrier(async_op=True).wait()


def functional_collectives() -> None:
    group = dist.group.WORLD
    equal(funcol.all_reduce(ones(65), "sum", group), torch.full((65,), float(SIZE)))
    equal(funcol.all_gather_tensor(ones(3, 5), 0, group), torch.ones(3 * SIZE, 5))
    equal(funcol.all_gather_tensor(ones(3, 5), 1, group), torch.ones(3, 5 * SIZE))
    equal(funcol.reduce_scatter_tensor(ones(4 * SIZE), "sum", 0, group), torch.full((4,), float(SIZE)))
    equal(funcol.all_to_all_single(ones(SIZE) * RANK, None, None, group), torch.arange(float(SIZE)))
    equal(funcol.broadcast(ones(2) * RANK, 0, group), torch.zeros(2))


def modelled_times() -> None:
    """A ring over links of 25 GB/s, of which each step has 10 us before its first byte."""
    tensor = ones(1_000_000)
    with torch.spyre.trace() as trace:
        dist.all_reduce(tensor)
        torch.spyre.synchronize()
    step = 10e-6 + 4e6 / SIZE / 25e9
    assert abs(trace.modelled_collective_seconds - 2 * (SIZE - 1) * step) < 1e-8, trace
    assert SIZE == 1 or "collectives" in repr(trace), trace


def host_tensors() -> None:
    both = dist.new_group(backend="spyreccl")
    host, device = torch.ones(3), ones(3)
    dist.all_reduce(host, group=both)
    dist.all_reduce(device, group=both)
    equal(host, torch.full((3,), float(SIZE)))
    equal(device, torch.full((3,), float(SIZE)))


def serving_engines() -> None:
    """Calls of vLLM's workers: a group of the device and one of the CPU for each dimension, and these calls of them."""
    everyone = list(range(SIZE))
    device_group = dist.new_group(everyone, backend="cpu:gloo,spyre:spyreccl")
    cpu_group = dist.new_group(everyone, backend="gloo")
    hidden = torch.full((2, 3, 65), RANK + 1.0, device=DEVICE)
    dist.all_reduce(hidden, group=device_group)
    equal(hidden, torch.full((2, 3, 65), float(sum(range(1, SIZE + 1)))))

    logits = torch.arange(2 * 65.0, device=DEVICE).reshape(2, 65) + 1000 * RANK
    whole = torch.empty((2 * SIZE, 65), device=DEVICE)
    dist.all_gather_into_tensor(whole, logits, group=device_group)
    along_last = whole.reshape(SIZE, 2, 65).movedim(0, 1).reshape(2, SIZE * 65)
    parts = [torch.arange(2 * 65.0).reshape(2, 65) + 1000 * rank for rank in everyone]
    equal(along_last, torch.cat(parts, -1))
    share = torch.empty((2, 65), device=DEVICE)
    dist.reduce_scatter_tensor(share, whole, group=device_group)
    equal(share, parts[RANK] * SIZE)
    gathered = [torch.empty_like(logits) for _ in everyone] if RANK == 0 else None
    dist.gather(logits, gathered, dst=0, group=device_group)
    for got, want in zip(gathered or [], parts):
        equal(got, want)

    described = [[("hidden", hidden.dtype, hidden.shape)] if RANK == 0 else None]
    dist.broadcast_object_list(described, src=0, group=cpu_group)
    taken = {name: torch.zeros(shape, dtype=dtype, device=DEVICE) for name, dtype, shape in described[0]}
    if RANK == 0:
        taken = {"hidden": hidden}
    works = [dist.broadcast(tensor, src=0, group=device_group, async_op=True) for tensor in taken.values()]
    for work in works:
        work.wait()
    equal(taken["hidden"], torch.full((2, 3, 65), float(sum(range(1, SIZE + 1)))))
    if RANK == 0:  # from one stage of a pipeline to the next
        dist.send(logits, dst=1, group=device_group)
    elif RANK == 1:
        received = torch.empty_like(logits)
        dist.recv(received, src=0, group=device_group)
        equal(received, parts[0])
    dist.barrier(group=cpu_group)


CHECKS = [
    backend_of_the_device, views_and_strides, shapes_of_many_dims, parameters_that_need_gradients, averages_and_factors,
    work_and_futures, works_of_many_at_once, collectives_follow_the_stream, groups, meshes, coalescing,
    pairs_of_messages, objects, barriers, functional_collectives, host_tensors, modelled_times, serving_engines,
]  # fmt: skip

if __name__ == "__main__":
    ranks.report({check.__name__: check for check in CHECKS})
