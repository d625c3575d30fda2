"""Uses of a device from other projects' scripts, with only its name changed."""

from __future__ import annotations

import json
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from conftest import needs_spyre


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def same(ours, theirs):
    torch.testing.assert_close(ours.detach().cpu(), theirs.detach().cpu())


def train(device, workers=0):
    """Four steps on batches of a loader, as a tutorial would have it."""
    make = torch.Generator().manual_seed(5)
    data = TensorDataset(torch.randn(32, 6, generator=make), torch.randint(4, (32,), generator=make))
    is_pinned = torch.device(device).type != "cpu"
    loader = DataLoader(data, batch_size=8, num_workers=workers, pin_memory=is_pinned)
    model = network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, target in loader:
        assert x.is_pinned() == is_pinned
        x, target = x.to(device, non_blocking=True), target.to(device, non_blocking=True)
        optimizer.zero_grad()
        F.cross_entropy(model(x), target).backward()
        optimizer.step()
    return model


@needs_spyre
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_with_pinned_memory(device, workers):
    for ours, theirs in zip(train(device, workers).parameters(), train("cpu").parameters(), strict=True):
        same(ours, theirs)


def test_safetensors(device, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    model = network().to(device)
    safetensors.save_model(model, tmp_path / "model.safetensors")

    loaded = safetensors.load_file(tmp_path / "model.safetensors", device=str(device))
    assert {value.device.type for value in loaded.values()} == {device.type}
    for key, value in network().state_dict().items():
        same(loaded[key], value)
    other = nn.Sequential(*[type(layer)(*arguments) for layer, arguments in zip(
        network(), [(6, 16), (), (16,), (16, 4)], strict=True)]).to(device)  # fmt: skip
    safetensors.load_model(other, tmp_path / "model.safetensors", device=str(device))
    x = torch.randn(3, 6)
    same(other(x.to(device)), network()(x))


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing(device, reentrant):
    def gradients(device, checkpoints):
        model, x = network().to(device), torch.ones(5, 6, device=device, requires_grad=True)
        y = checkpoint(model, x, use_reentrant=reentrant) if checkpoints else model(x)
        y.square().sum().backward()
        return [x.grad, *(parameter.grad for parameter in model.parameters())]

    for ours, theirs in zip(gradients(device, True), gradients("cpu", False), strict=True):
        same(ours, theirs)


def test_gradient_checkpointing_of_transformers(device):
    pytest.importorskip("transformers")
    from models import FAMILIES

    def gradients(device, checkpoints):
        model = FAMILIES["llama"].make().to(device).train()
        if checkpoints:
            model.gradient_checkpointing_enable()
        tokens = FAMILIES["llama"].call()["input_ids"].to(device)
        model(tokens, labels=tokens).loss.backward()
        return [parameter.grad for parameter in model.parameters()]

    for ours, theirs in zip(gradients(device, True), gradients("cpu", False), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)


def test_functions_of_torch_func(device):
    def results(device):
        model, x = network().to(device), torch.linspace(-1, 1, 30, device=device).view(5, 6)
        weights = dict(model.named_parameters())

        def loss(weights, row):
            return torch.func.functional_call(model, weights, (row,)).square().sum()

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, x)
        jacobian = torch.func.jacrev(lambda row: model(row))(x[0])
        forward = torch.func.jvp(lambda row: model(row), (x,), (torch.ones_like(x),))[1]
        return [*each.values(), jacobian, forward, torch.func.vmap(torch.dot)(x, x)]

    for ours, theirs in zip(results(device), results("cpu"), strict=True):
        same(ours, theirs)


@needs_spyre
def test_accelerate_places_a_model(device, tmp_path):
    pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")
    from models import FAMILIES

    model = FAMILIES["llama"].make()
    model.save_pretrained(tmp_path)
    placed = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, device_map="auto")
    assert {parameter.device.type for parameter in placed.parameters()} == {device.type}

    tokens = FAMILIES["llama"].call()["input_ids"]
    same(placed(tokens.to(placed.device)).logits, model(tokens).logits)


@needs_spyre
def test_accelerate_trains(device):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator()
    assert accelerator.device.type == device.type
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.ones(8, 6), torch.zeros(8, dtype=torch.int64)), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for x, target in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        accelerator.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    assert losses[1] < losses[0]


@needs_spyre
def test_a_profile(device, tmp_path):
    from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

    model, x = network().to(device), torch.ones(5, 6, device=device)
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1],
        schedule=schedule(wait=1, warmup=1, active=2),
        on_trace_ready=tensorboard_trace_handler(str(tmp_path)),
        record_shapes=True, profile_memory=True, with_stack=True,
    ) as profiler:  # fmt: skip
        for _ in range(4):
            model(x).sum().backward()
            profiler.step()
    (written,) = tmp_path.glob("*.json")
    names = {event.get("name") for event in json.loads(written.read_text())["traceEvents"]}
    assert "aten::addmm" in names and any(str(name).startswith("aten_addmm") for name in names)
    assert "aten::addmm" in profiler.key_averages(group_by_input_shape=True).table(sort_by="self_cpu_time_total")


@needs_spyre
def test_a_memory_snapshot(tmp_path):
    torch.spyre.memory._record_memory_history(max_entries=1000)
    kept = train("spyre")
    torch.spyre.memory._dump_snapshot(str(tmp_path / "memory.pickle"))
    torch.spyre.memory._record_memory_history(enabled=None)

    snapshot = pickle.loads((tmp_path / "memory.pickle").read_bytes())
    events = snapshot["device_traces"][0]
    assert {event["action"] for event in events} >= {"alloc", "free_completed"}
    files = {frame["filename"] for event in events for frame in event.get("frames", [])}
    assert __file__ in files
    held = sum(block["size"] for segment in snapshot["segments"] for block in segment["blocks"] if block["state"] == "active_allocated")
    assert held >= sum(parameter.nbytes for parameter in kept.parameters())


def test_an_optimizer_that_was_made_before_the_model_moved(device):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to(device)
    before = model[0].weight.detach().clone()
    model(torch.ones(2, 6, device=device)).sum().backward()
    optimizer.step()
    assert not torch.equal(model[0].weight, before)
