"""Packages beside PyTorch: each finds the device by itself and runs on it, with tiny models made here."""

from __future__ import annotations

import importlib
import logging
import os

import pytest
import torch
from torch import nn

import children
from conftest import needs_spyre

pytestmark = needs_spyre
CARD = os.environ.get("SPYRE_PROFILE", "open").strip().lower() == "card"


def package(name: str):
    """A package that CI has, or that `make integrations` installs: there, one that is missing is a failure."""
    if os.environ.get("SPYRE_INTEGRATIONS") == "all":
        return importlib.import_module(name)
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


def test_a_trainer_uses_the_cpu_if_it_is_asked_to(tmp_path):
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
def test_a_package_that_imports_torch_itself_finds_the_device(first, tmp_path):
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


def boxes(count: int, seed: int) -> torch.Tensor:
    make = torch.Generator().manual_seed(seed)
    corners = torch.rand(count, 2, generator=make) * 40
    return torch.cat([corners, corners + torch.rand(count, 2, generator=make) * 20], 1)


@pytest.mark.parametrize("count", [0, 1, 50, 2500])
@pytest.mark.parametrize("threshold", [0.1, 0.5])
def test_torchvision_drops_overlapping_boxes_on_the_device(no_fallback, count, threshold):
    ops = package("torchvision").ops
    some, scores = boxes(count, 1), torch.rand(count, generator=torch.Generator().manual_seed(2)).round(decimals=2)

    for stream in (torch.spyre.default_stream(), torch.spyre.Stream()):
        with stream:
            ours = ops.nms(some.to("spyre"), scores.to("spyre"), threshold)
            assert ours.device.type == "spyre"
            assert torch.equal(ours.cpu(), ops.nms(some, scores, threshold))


def test_torchvision_compares_overlaps_with_the_exact_threshold(no_fallback):
    ops = package("torchvision").ops
    some = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 3]])
    for threshold in (0.3, 0.30000001192092896):
        ours = ops.nms(some.to("spyre"), torch.tensor([2.0, 1.0]).to("spyre"), threshold)
        assert torch.equal(ours.cpu(), ops.nms(some, torch.tensor([2.0, 1.0]), threshold))


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("sampling", [-1, 2])
def test_torchvision_pools_regions_on_the_device(no_fallback, aligned, sampling):
    ops = package("torchvision").ops
    x = torch.randn(2, 3, 24, 20, generator=torch.Generator().manual_seed(3))
    # Regions that reach out of the image, and one that is empty.
    rois = [boxes(9, 4) - 3, torch.cat([boxes(5, 5) * 2, torch.zeros(1, 4)])]

    def pooled(device):
        there = x.to(device).requires_grad_()
        regions = [part.to(device) for part in rois]
        y = ops.roi_align(there, regions, (3, 5), spatial_scale=0.5, sampling_ratio=sampling, aligned=aligned)
        (y * torch.linspace(-1, 1, y.numel()).view(y.shape).to(device)).sum().backward()
        return y.detach().cpu(), there.grad.cpu()

    for ours, theirs in zip(pooled("spyre"), pooled("cpu"), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(CARD, reason="the card does not cast bytes")
def test_torchvision_transforms_images_on_the_device(no_fallback):
    package("torchvision")
    from torchvision.transforms import v2

    pipeline = v2.Compose([v2.Resize((12, 9), antialias=True), v2.CenterCrop(8), v2.ToDtype(torch.float32, scale=True),
                           v2.Normalize([0.5] * 3, [0.2] * 3)])  # fmt: skip
    image = torch.randint(256, (2, 3, 20, 30), dtype=torch.uint8, generator=torch.Generator().manual_seed(6))
    torch.testing.assert_close(pipeline(image.to("spyre")).cpu(), pipeline(image), rtol=0.01, atol=1 / 255 / 0.2 + 1e-4)


def test_torchvision_models_run_on_the_device():
    torchvision = package("torchvision")
    torch.manual_seed(7)
    model = torchvision.models.squeezenet1_1(num_classes=5).eval()
    x = torch.randn(1, 3, 64, 64)
    theirs = model(x).detach()
    torch.testing.assert_close(model.to("spyre")(x.to("spyre")).detach().cpu(), theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
@pytest.mark.parametrize("accelerator", ["spyre", "auto"])
@pytest.mark.parametrize("precision", ["32-true", "16-mixed", "bf16-mixed"])
def test_lightning_trains_on_the_device(name, accelerator, precision, tmp_path):
    pl = package(name)

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.seen = nn.Linear(4, 2), []

        def training_step(self, batch, index):
            assert batch[0].device.type == self.device.type == "spyre"
            loss = self.layer(batch[0]).float().square().mean()
            self.seen.append(loss.item())
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    torch.manual_seed(8)
    model = Model()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(16, 4)), batch_size=4)
    runner = pl.Trainer(
        accelerator=accelerator, precision=precision, max_epochs=2, logger=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    runner.fit(model, data)

    assert runner.strategy.root_device == torch.device("spyre", 0)
    assert len(model.seen) == 8 and model.seen[-1] < model.seen[0]
    resumed = Model()
    pl.Trainer(accelerator=accelerator, max_epochs=3, logger=False, enable_progress_bar=False,
               enable_model_summary=False, default_root_dir=tmp_path, enable_checkpointing=False,
               ).fit(resumed, data, ckpt_path=runner.checkpoint_callback.best_model_path)  # fmt: skip
    assert len(resumed.seen) == 4 and resumed.seen[0] < model.seen[0]


def test_lightning_refuses_cards_that_are_not_there():
    pl = package("lightning.pytorch")
    with pytest.raises(RuntimeError, match=r"out of range \[0, 1\)"):
        pl.Trainer(accelerator="spyre", devices=3, logger=False)


def test_lightning_fabric_chooses_the_device():
    fabric = package("lightning.fabric").Fabric(accelerator="auto", precision="bf16-mixed")
    model = fabric.setup(nn.Linear(3, 3))
    assert fabric.device.type == "spyre" and model(torch.ones(1, 3, device="spyre")).device.type == "spyre"


def test_sentence_transformers_choose_the_device(tmp_path):
    package("sentence_transformers")
    transformers = package("transformers")
    from sentence_transformers import SentenceTransformer, models

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "card", "of", "sticks"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    torch.manual_seed(9)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
    )  # fmt: skip
    transformers.BertModel(config).eval().save_pretrained(tmp_path)

    def embedded(**settings):
        word = models.Transformer(str(tmp_path))
        model = SentenceTransformer(modules=[word, models.Pooling(16)], **settings)
        return model.device.type, torch.as_tensor(model.encode(["a card of sticks", "a card"]))

    device, ours = embedded()
    assert device == "spyre"
    torch.testing.assert_close(ours, embedded(device="cpu")[1], rtol=1e-3, atol=1e-4)


def test_diffusers_choose_the_device():
    diffusers = package("diffusers")
    from diffusers.utils.torch_utils import get_device, randn_tensor

    assert get_device() == "spyre"
    torch.manual_seed(10)
    unet = diffusers.UNet2DModel(
        sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip

    def drawn(device):
        pipeline = diffusers.DDPMPipeline(unet, diffusers.DDPMScheduler(num_train_timesteps=4)).to(device)
        pipeline.set_progress_bar_config(disable=True)
        assert pipeline.device.type == device
        return pipeline(generator=torch.Generator().manual_seed(1), num_inference_steps=3, output_type="np").images

    ours, theirs = (torch.as_tensor(drawn(device)) for device in ("spyre", "cpu"))
    torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-2)
    assert randn_tensor((2,), device=torch.device("spyre")).device.type == "spyre"


def test_peft_trains_and_loads_adapters_on_the_device(tmp_path):
    peft = package("peft")
    torch.manual_seed(11)
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    model = peft.get_peft_model(tiny_llama().to("spyre"), config)
    tokens = torch.arange(10).view(1, 10).to("spyre")
    model(tokens, labels=tokens).loss.backward()
    assert {p.grad.device.type for p in model.parameters() if p.requires_grad} == {"spyre"}
    model.save_pretrained(tmp_path)

    loaded = peft.PeftModel.from_pretrained(tiny_llama().to("spyre"), tmp_path)
    assert {parameter.device.type for parameter in loaded.parameters()} == {"spyre"}
    torch.testing.assert_close(loaded(tokens).logits.cpu(), model(tokens).logits.cpu())
    assert peft.utils.other.infer_device() == "spyre"
    merged = loaded.merge_and_unload()
    torch.testing.assert_close(merged(tokens).logits.cpu(), model(tokens).logits.cpu(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["resnet10t", "vit_tiny_patch16_224"])
def test_timm_trains_on_the_device(name):
    timm = package("timm")
    from timm.optim import create_optimizer_v2
    from timm.utils import NativeScaler

    torch.manual_seed(12)
    sizes = {"img_size": 32} if name.startswith("vit") else {}
    model = timm.create_model(name, num_classes=3, **sizes).eval()
    x = torch.randn(2, 3, 32, 32)
    theirs = model(x).detach()
    model.to("spyre")
    torch.testing.assert_close(model(x.to("spyre")).detach().cpu(), theirs, rtol=1e-3, atol=1e-3)

    optimizer = create_optimizer_v2(model, opt="sgd", lr=0.01)
    scaler = NativeScaler(device="spyre")
    before = [p.detach().cpu().clone() for p in model.parameters()]
    with torch.autocast("spyre", dtype=torch.float16):
        loss = model(x.to("spyre")).float().square().mean()
    scaler(loss, optimizer, parameters=model.parameters())
    assert any(not torch.equal(p.detach().cpu(), old) for p, old in zip(model.parameters(), before, strict=True))
