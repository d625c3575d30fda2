"""Models that several ranks train or run together, against one process that does it alone on the CPU."""

from __future__ import annotations

import copy
import itertools
import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from . import ranks

RANK, SIZE = ranks.join("cpu:gloo,spyre:spyreccl")
DEVICE = torch.device("spyre", torch.spyre.current_device())
WIDTH = 65
"""No multiple of a stick: shares end in the middle of one."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


def net() -> Net:
    torch.manual_seed(1)
    return Net()


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    draw = lambda: torch.randn(4 * SIZE, WIDTH, generator=generator)  # noqa: E731
    return [(draw(), draw()) for _ in range(3)]


def share(batch: torch.Tensor) -> torch.Tensor:
    return batch.chunk(SIZE)[RANK].to(DEVICE)


def train(model: nn.Module, take, optimizer=None, clip: float = 0) -> list[float]:
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for given, wanted in batches():
        loss = nn.functional.mse_loss(model(take(given)), take(wanted))
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def close(got: nn.Module, want: nn.Module, **tolerance: float) -> None:
    names = dict(want.named_parameters())
    for name, parameter in got.named_parameters():
        whole = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
        torch.testing.assert_close(whole.detach().cpu(), names[name.removeprefix("module.")].detach(), **tolerance)


def alone(clip: float = 0) -> Net:
    model = net()
    train(model, lambda batch: batch, clip=clip)
    return model


def data_parallel() -> None:
    for options in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}, {"bucket_cap_mb": 0.01}):
        model = DistributedDataParallel(net().to(DEVICE), **options)
        train(model, share)
        close(model, alone(), rtol=1e-4, atol=1e-5)


def data_parallel_without_sync() -> None:
    model = DistributedDataParallel(net().to(DEVICE))
    reference = net()
    given, wanted = batches()[0]
    with model.no_sync():
        nn.functional.mse_loss(model(share(given)), share(wanted)).backward()
    nn.functional.mse_loss(model(share(given)), share(wanted)).backward()
    (2 * nn.functional.mse_loss(reference(given), wanted)).backward()
    for got, want in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(got.grad.cpu(), want.grad, rtol=1e-4, atol=1e-6)


def sharded(mesh: DeviceMesh | None = None, **options) -> nn.Module:
    mesh = mesh or init_device_mesh("spyre", (SIZE,))
    model = net().to(DEVICE)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def fully_sharded() -> None:
    model = sharded()
    train(model, share, clip=0.1)
    close(model, alone(clip=0.1), rtol=1e-4, atol=1e-5)


def sharded_and_replicated() -> None:
    mesh = init_device_mesh("spyre", (SIZE // 2, 2), mesh_dim_names=("replicate", "shard"))
    model, reference = sharded(mesh), net()
    train(model, share, torch.optim.SGD(model.parameters(), lr=0.1), clip=0.1)
    train(reference, lambda batch: batch, torch.optim.SGD(reference.parameters(), lr=0.1), clip=0.1)
    close(model, reference, rtol=1e-4, atol=1e-5)


def fully_sharded_in_mixed_precision() -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = sharded(mp_policy=policy)
    losses = train(model, share)
    reference = net()
    wanted = train(reference, lambda batch: batch)
    own = torch.tensor(losses, device=DEVICE)
    dist.all_reduce(own, dist.ReduceOp.AVG)
    torch.testing.assert_close(own.cpu(), torch.tensor(wanted), rtol=0.03, atol=0.03)


def checkpoints() -> None:
    folder = [tempfile.mkdtemp() if RANK == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    model = sharded()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    train(model, share, optimizer)
    states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    checkpoint.save(states, checkpoint_id=folder[0])

    other = sharded()
    other_optimizer = torch.optim.AdamW(other.parameters(), lr=0.01)
    states = dict(zip(("model", "optimizer"), get_state_dict(other, other_optimizer), strict=True))
    checkpoint.load(states, checkpoint_id=folder[0])
    set_state_dict(
        other, other_optimizer, model_state_dict=states["model"], optim_state_dict=states["optimizer"]
    )
    for got, want in zip(other.parameters(), model.parameters(), strict=True):
        assert torch.equal(got.to_local().cpu(), want.to_local().cpu())
    train(model, share, optimizer)
    train(other, share, other_optimizer)
    for got, want in zip(other.parameters(), model.parameters(), strict=True):
        assert torch.equal(got.to_local().cpu(), want.to_local().cpu())


def distributed_tensors() -> None:
    mesh = init_device_mesh("spyre", (SIZE,))
    whole = torch.arange(WIDTH * 7.0).reshape(WIDTH, 7)
    for dim in (0, 1):
        tensor = distribute_tensor(whole.to(DEVICE), mesh, [Shard(dim)])
        assert torch.equal(tensor.full_tensor().cpu(), whole)
        other = tensor.redistribute(mesh, [Shard(1 - dim)])
        assert torch.equal(other.full_tensor().cpu(), whole)
        assert torch.equal((tensor + tensor.redistribute(mesh, [Replicate()])).full_tensor().cpu(), 2 * whole)
        torch.testing.assert_close(tensor.sum().full_tensor().cpu(), whole.sum())


def sharded_attention() -> None:
    """Attention of sharded tensors, by heads and by batches, with and without a mask that has a gradient."""
    mesh = init_device_mesh("spyre", (SIZE,))
    generator = torch.Generator().manual_seed(4)
    sizes = [(2 * SIZE, 2 * SIZE, 5, 16)] * 3
    masks = [None, (5, 5), (2 * SIZE, 5, 5), (2 * SIZE, 1, 5, 5), (2 * SIZE, 2 * SIZE, 5, 5)]
    for mask_size, placement in itertools.product(masks, [Shard(0), Shard(1), Replicate()]):
        drawn = [torch.randn(size, generator=generator) for size in [*sizes, mask_size] if size is not None]
        whole = [tensor.clone().requires_grad_() for tensor in drawn]
        placements = [placement] * 3 + [Replicate()]
        shards = [
            distribute_tensor(tensor.to(DEVICE), mesh, [of]).detach().requires_grad_()
            for tensor, of in zip(drawn, placements)
        ]
        for tensors in (whole, shards):
            mask = tensors[3] if len(tensors) > 3 else None
            made = nn.functional.scaled_dot_product_attention(*tensors[:3], attn_mask=mask)
            (made * made).sum().backward()
        for got, want in zip(shards, whole, strict=True):
            torch.testing.assert_close(got.grad.full_tensor().cpu(), want.grad, rtol=1e-3, atol=1e-4)


def tensor_parallel() -> None:
    mesh = init_device_mesh("spyre", (SIZE,))
    model, reference = net().to(DEVICE), net()
    for layer in model.layers:
        parallelize_module(layer, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    losses = train(model, lambda batch: batch.to(DEVICE))
    torch.testing.assert_close(losses, train(reference, lambda batch: batch), rtol=1e-4, atol=1e-5)
    close(model, reference, rtol=1e-4, atol=1e-5)


def pipeline() -> None:
    reference = net()
    own = copy.deepcopy(reference.layers[0 if RANK == 0 else 1]).to(DEVICE)
    stage = PipelineStage(own, RANK, 2, DEVICE)
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    given, wanted = batches()[0]
    losses: list[torch.Tensor] = []
    if RANK == 0:
        schedule.step(given.to(DEVICE))
    else:
        schedule.step(target=wanted.to(DEVICE), losses=losses)
    loss = nn.functional.mse_loss(reference.layers[1](reference.layers[0](given)), wanted)
    loss.backward()
    for got, want in zip(own.parameters(), reference.layers[RANK].parameters(), strict=True):
        torch.testing.assert_close(got.grad.cpu(), want.grad, rtol=1e-4, atol=1e-6)
    if RANK == 1:
        torch.testing.assert_close(torch.stack(losses).mean().cpu(), loss.detach(), rtol=1e-4, atol=1e-6)


def compiled_collectives() -> None:
    import torch.distributed._functional_collectives as funcol

    def step(x: torch.Tensor) -> torch.Tensor:
        total = funcol.all_reduce(x * 2, "sum", dist.group.WORLD)
        return funcol.all_gather_tensor(total.relu() + 1, 0, dist.group.WORLD) * 3

    given = torch.arange(WIDTH * 1.0, device=DEVICE) - 20 * RANK
    got = torch.compile(step, fullgraph=True)(given)
    torch.testing.assert_close(got.cpu(), step(given).cpu())


def llama_in_tensor_parallel() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.distributed import DistributedConfig

    config = LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    folder = [tempfile.mkdtemp() if RANK == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    torch.manual_seed(3)
    reference = LlamaForCausalLM(config).eval()
    if RANK == 0:
        reference.save_pretrained(folder[0])
    dist.barrier()
    model = LlamaForCausalLM.from_pretrained(folder[0], distributed_config=DistributedConfig(tp_plan="auto")).eval()
    tokens = torch.arange(12).reshape(1, 12)
    with torch.no_grad():
        got, want = model(tokens.to(DEVICE)).logits, reference(tokens).logits
        torch.testing.assert_close(got.cpu(), want, rtol=1e-3, atol=1e-4)
        tokens_made = model.generate(tokens.to(DEVICE), max_new_tokens=5, do_sample=False).cpu()
        assert torch.equal(tokens_made, reference.generate(tokens, max_new_tokens=5, do_sample=False))


CHECKS = [
    data_parallel, data_parallel_without_sync, fully_sharded, sharded_and_replicated, fully_sharded_in_mixed_precision,
    checkpoints, distributed_tensors, sharded_attention, tensor_parallel, pipeline, compiled_collectives, llama_in_tensor_parallel,
]  # fmt: skip

if __name__ == "__main__":
    chosen = os.environ.get("CHECKS", "").split()
    ranks.report({check.__name__: check for check in CHECKS if not chosen or check.__name__ in chosen})
