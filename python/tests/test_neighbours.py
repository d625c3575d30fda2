"""Packages beside PyTorch: each finds the device by itself and runs on it, with tiny models made here."""

from __future__ import annotations

import importlib
import logging

import pytest
import torch
from torch import nn

import children
from conftest import needs_spyre

pytestmark = needs_spyre


def package(name: str):
    """A package that CI has, or that `make neighbours` installs."""
    return pytest.importorskip(name, exc_type=ImportError)


@pytest.fixture(autouse=True)
def accelerate_state():
    """Has accelerate forget which device an earlier test chose."""
    yield
    try:
        state = importlib.import_module("accelerate.state")
    except ImportError:
        return
    state.AcceleratorState._reset_state(reset_partial_state=True)


def tiny_llama(dropout: float = 0.0):
    transformers = package("transformers")
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, attention_dropout=dropout,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def sentences(count: int = 16) -> list[dict[str, torch.Tensor]]:
    tokens = torch.randint(64, (count, 12), generator=torch.Generator().manual_seed(2))
    return [{"input_ids": row, "labels": row} for row in tokens]


def trainer(folder, steps: int = 4, dropout: float = 0.0, count: int = 16, **settings):
    transformers = package("transformers")
    package("accelerate")
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=steps, per_device_train_batch_size=4, logging_steps=1, report_to=[],
        disable_tqdm=True, learning_rate=1e-2, **settings,
    )  # fmt: skip
    return transformers.Trainer(tiny_llama(dropout), arguments, train_dataset=sentences(count))


def losses(trained) -> list[float]:
    return [entry["loss"] for entry in trained.state.log_history if "loss" in entry]


def weights(trained) -> list[torch.Tensor]:
    return [parameter.detach().cpu() for parameter in trained.model.parameters()]


@pytest.mark.parametrize("precision", [{}, {"bf16": True}, {"fp16": True}])
def test_a_trainer_with_default_arguments_trains_on_spyre(tmp_path, precision):
    trained = trainer(tmp_path, count=4, **precision)
    assert trained.args.device == torch.device("spyre", 0) and trained.args.n_gpu == 1
    assert trained.accelerator.device.type == "spyre"

    trained.train()
    trained.evaluate(sentences(4))

    assert {parameter.device.type for parameter in trained.model.parameters()} == {"spyre"}
    cpu = trainer(tmp_path / "cpu", count=4, use_cpu=True)
    cpu.train()
    tolerance = 1e-3 if not precision else 0.05
    assert losses(trained) == pytest.approx(losses(cpu), rel=tolerance)
    assert losses(trained)[-1] < losses(trained)[0]


def test_a_trainer_that_is_told_to_use_the_cpu_does(tmp_path):
    trained = trainer(tmp_path, use_cpu=True)
    assert trained.args.device == torch.device("cpu") and trained.accelerator.device.type == "cpu"

    trained.train()

    assert {parameter.device.type for parameter in trained.model.parameters()} == {"cpu"}


@pytest.mark.parametrize("precision", [{}, {"fp16": True}])
def test_training_that_is_resumed_goes_on_as_if_it_had_not_stopped(tmp_path, precision):
    whole = trainer(tmp_path / "whole", dropout=0.3, save_steps=2, **precision)
    whole.train()

    resumed = trainer(tmp_path / "resumed", dropout=0.3, **precision)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))

    assert losses(resumed)[-2:] == losses(whole)[-2:]
    for ours, theirs in zip(weights(resumed), weights(whole), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    "first", ["from transformers import TrainingArguments", "from transformers import Trainer", "import accelerate"]
)
def test_a_package_that_imports_torch_itself_is_told_of_the_device(first, tmp_path):
    package("accelerate")
    package("transformers")
    children.script(
        f"{first}\n"
        "import warnings\n"
        "from transformers import TrainingArguments\n"
        f"arguments = TrainingArguments(output_dir={str(tmp_path)!r}, bf16=True)\n"
        "assert arguments.device.type == 'spyre', arguments.device\n",
        PYTHONWARNINGS="error::RuntimeWarning",
    )


@pytest.mark.parametrize("precision", ["no", "bf16", "fp16"])
def test_accelerate_trains_in_mixed_precision(precision):
    accelerate = package("accelerate")
    accelerator = accelerate.Accelerator(mixed_precision=precision)
    torch.manual_seed(3)
    model = nn.Linear(8, 8)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    seen = []
    for _ in range(4):
        optimizer.zero_grad()
        y = model(torch.ones(4, 8, device=accelerator.device))
        loss = y.float().square().mean()
        accelerator.backward(loss)
        optimizer.step()
        seen.append(loss.item())

    assert accelerator.device.type == "spyre"
    assert (accelerator.scaler is not None and accelerator.scaler.is_enabled()) == (precision == "fp16")
    assert seen[-1] < seen[0]


def test_accelerate_saves_the_generators_of_the_device(tmp_path):
    accelerate = package("accelerate")
    accelerator = accelerate.Accelerator()
    model = accelerator.prepare(nn.Linear(2, 2))
    accelerator.save_state(str(tmp_path))
    first = torch.rand(5, device="spyre").cpu()
    accelerator.load_state(str(tmp_path))

    assert torch.equal(torch.rand(5, device="spyre").cpu(), first)
    assert next(model.parameters()).device.type == "spyre"


def test_accelerate_splits_a_model_over_two_cards_without_a_warning(tmp_path):
    package("accelerate")
    tiny_llama().save_pretrained(tmp_path)

    said = children.script(
        "import torch, transformers\n"
        f"folder = {str(tmp_path)!r}\n"
        "model = transformers.AutoModelForCausalLM.from_pretrained(folder, device_map='auto')\n"
        "host = transformers.AutoModelForCausalLM.from_pretrained(folder)\n"
        "devices = {str(p.device) for p in model.parameters()}\n"
        "assert devices == {'spyre:0', 'spyre:1'}, devices\n"
        "tokens = torch.arange(12).view(2, 6)\n"
        "ours = model(tokens.to('spyre:0')).logits\n"
        "torch.testing.assert_close(ours.cpu(), host(tokens).logits, rtol=1e-4, atol=1e-4)\n"
        "assert model.generate(tokens.to('spyre:0'), max_new_tokens=2).shape == (2, 8)\n",
        AIU_WORLD_SIZE="2",
    )

    assert "available devices are" not in said


def test_accelerate_takes_memory_limits_for_cards(caplog):
    package("accelerate")
    from accelerate.utils import get_max_memory

    with caplog.at_level(logging.WARNING):
        assert get_max_memory({0: "1MB", "cpu": 5}) == {0: 10**6, "cpu": 5}
    assert not caplog.records
    found = get_max_memory()
    assert found[0] == pytest.approx(torch.spyre.mem_get_info(0)[0], rel=0.1) and found["cpu"] > 0
    with caplog.at_level(logging.WARNING):
        get_max_memory({7: 5})
    assert "Device 7 is not available, available devices are [0]" in caplog.text
