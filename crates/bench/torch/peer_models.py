"""Rows of `peers.py` for layers and models: convolutions, transformer blocks, generation and training steps."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from peer_cases import Case, llama_block_parts, random
from torch import Tensor, nn

SLOW = 9
"""Pairs of a row whose calls take a tenth of a second and more."""


def pair(run: Callable[..., Tensor], module: nn.Module, *inputs: Tensor, goal: float, pairs: int = SLOW) -> Case:
    """Case of one call of a module, on the device and on the CPU."""
    there, given = copy.deepcopy(module).to("spyre"), [tensor.to("spyre") for tensor in inputs]
    return Case(lambda: run(there, *given), [lambda: run(module, *inputs)], [], there=[], goal=goal, pairs=pairs)


def forward(module: nn.Module, *inputs: Tensor) -> Tensor:
    return module(*inputs)


def convolution(channels: tuple[int, int], size: int, kernel: int, stride: int = 1) -> Case:
    """A layer of ResNet-50, of four images."""
    layer = nn.Conv2d(*channels, kernel, stride, kernel // 2, bias=False).eval()
    return pair(forward, layer, random(4, channels[0], size, size), goal=0.9)


def resnet() -> Case:
    import timm

    torch.manual_seed(0)
    return pair(forward, timm.create_model("resnet50").eval(), random(1, 3, 224, 224), goal=0.85)


def block(dtype: torch.dtype, goal: float) -> Case:
    module, tensors = llama_block_parts(1024, 16)
    return pair(forward, module.to(dtype), *(tensor.to(dtype) for tensor in tensors), goal=goal)


def block_backward() -> Case:
    """Forward and backward of a block; the gradient of its input is compared."""

    def run(module: nn.Module, x: Tensor, *angles: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            module(x, *angles).square().mean().backward()
        for parameter in module.parameters():
            parameter.grad = None
        return x.grad

    module, tensors = llama_block_parts(1024, 16)
    return pair(run, module, *tensors, goal=0.95)


def llama(dtype: torch.dtype) -> nn.Module:
    """A Llama of about 100 million parameters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=12,
        vocab_size=8192, max_position_embeddings=1024,
    )  # fmt: skip
    return LlamaForCausalLM(config).to(dtype).eval()


def prefill() -> Case:
    def run(model: nn.Module, ids: Tensor) -> Tensor:
        return model(ids, use_cache=True).logits[:, -1]

    return pair(run, llama(torch.float32), torch.arange(512)[None] % 8192, goal=1.0)


def generation(dtype: torch.dtype, goal: float) -> Case:
    """Sixteen tokens after a short prompt, one by one."""

    def run(model: nn.Module, ids: Tensor) -> Tensor:
        return model.generate(ids, max_new_tokens=16, min_new_tokens=16, do_sample=False, pad_token_id=0)[:, :20]

    return pair(run, llama(dtype), torch.arange(16)[None], goal=goal)


def compiled_step(goal: float) -> Case:
    """One token of a compiled model with a cache of fixed size, on both sides."""

    def made(model: nn.Module, device: str) -> Callable[[], Tensor]:
        from transformers import StaticCache

        cache = StaticCache(config=model.config, max_cache_len=256)
        at, ids = torch.arange(32, device=device), torch.arange(32, device=device)[None]
        model(ids, past_key_values=cache, cache_position=at)
        step = torch.compile(model)
        token, place = torch.full((1, 1), 7, device=device), torch.full((1,), 32, device=device)
        return lambda: step(token, past_key_values=cache, cache_position=place).logits[:, -1]

    model = llama(torch.float32)
    own, peer = made(copy.deepcopy(model).to("spyre"), "spyre"), made(model, "cpu")
    return Case(own, [peer], [], there=[], goal=goal, pairs=SLOW)


def training(module: nn.Module, inputs: Tensor, targets: Tensor) -> Case:
    """A step of AdamW; the loss is compared."""

    def made(module: nn.Module, inputs: Tensor, targets: Tensor) -> Callable[[], Tensor]:
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)

        def step() -> Tensor:
            with torch.enable_grad():
                loss = F.cross_entropy(module(inputs).flatten(0, -2), targets.flatten())
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return step

    own = made(copy.deepcopy(module).to("spyre"), inputs.to("spyre"), targets.to("spyre"))
    return Case(own, [made(module, inputs, targets)], [], there=[], goal=0.95, pairs=SLOW)


class Gpt(nn.Module):
    """A small transformer that predicts the next token."""

    def __init__(self, layers: int = 4, width: int = 256, vocabulary: int = 4096, tokens: int = 128):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("at", torch.arange(tokens))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(tokens))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(self.at)
        return self.head(self.layers(x, mask=self.mask, is_causal=True))


def gpt_training() -> Case:
    torch.manual_seed(0)
    ids = torch.randint(4096, (4, 129))
    return training(Gpt(), ids[:, :-1].contiguous(), ids[:, 1:].contiguous())


def cnn_training() -> Case:
    torch.manual_seed(0)
    stages = [
        part
        for inner, outer in ((3, 32), (32, 64), (64, 128))
        for part in (nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(), nn.MaxPool2d(2))
    ]
    model = nn.Sequential(*stages, nn.Flatten(), nn.Linear(128 * 16, 10))
    return training(model, random(32, 3, 32, 32), torch.randint(10, (32,)))


def model_cases() -> list[tuple[str, Callable[[], Case]]]:
    """Rows, and what makes each: models are made when it is their turn."""
    half, brain = torch.float16, torch.bfloat16
    return [
        ("conv2d 3x3, 4 of 128x28x28", lambda: convolution((128, 128), 28, 3)),
        ("conv2d 1x1, 4 of 256x56x56 to 64", lambda: convolution((256, 64), 56, 1)),
        ("conv2d 7x7 by 2, 4 of 3x224x224 to 64", lambda: convolution((3, 64), 224, 7, 2)),
        ("resnet-50, an image", resnet),
        ("llama block, 512 tokens of 1024, bf16", lambda: block(brain, 3.0)),
        ("llama block, 512 tokens of 1024, backward", block_backward),
        ("llama of 100 M, 512 tokens at once", prefill),
        ("llama of 100 M, token by token, f32", lambda: generation(torch.float32, 1.1)),
        ("llama of 100 M, token by token, bf16", lambda: generation(brain, 1.5)),
        ("llama of 100 M, token by token, f16", lambda: generation(half, 5.0)),
        ("llama of 100 M, a token, both compiled", lambda: compiled_step(1.2)),
        ("training step of a small GPT", gpt_training),
        ("training step of a small CNN", cnn_training),
    ]
