"""Models of ``transformers`` on the device: the CPU's numbers and the CPU's tokens, and nothing runs on the CPU.

The models are tiny, their weights random and made here. ``SPYRE_TEST_MODELS=all`` generates for longer, and
compares gradients in the dtypes of 16 bits, too.

Numbers of 16 bits are compared with float64, and not with the CPU's element by element: after two layers the
CPU's own are 3 to 1,500 times farther from what is right than the tolerance of one op.
"""

from __future__ import annotations

import copy
import functools
import os

import pytest
import torch

from conftest import DEVICE, needs_spyre

pytest.importorskip("transformers", reason="transformers is not installed")

from compiled import models as compiled_models  # noqa: E402
from models import FAMILIES, Exactly, gradients, scores, widened  # noqa: E402

IS_LONG = os.environ.get("SPYRE_TEST_MODELS") == "all"
TOKENS = 24 if IS_LONG else 6
HALVES = [torch.bfloat16, torch.float16]
GENERATES = [name for name, family in FAMILIES.items() if family.generates]


@pytest.fixture(autouse=True)
def nothing_on_the_cpu():
    """An op that would run on the CPU fails the test."""
    if DEVICE != "spyre":
        yield
        return
    from torch_spyre.ops.fallbacks import fallback_mode, set_fallback_mode

    mode = fallback_mode()
    set_fallback_mode("error")
    yield
    set_fallback_mode(mode)


@functools.cache
def model(name: str, dtype: torch.dtype = torch.float32, device: str = "cpu") -> torch.nn.Module:
    """A family's model: the same one for all tests."""
    if device == "cpu":
        return FAMILIES[name].make(dtype)
    return copy.deepcopy(model(name, dtype)).to(device)


def exact(name: str, dtype: torch.dtype) -> tuple[torch.nn.Module, torch.Tensor]:
    """The model with the weights that it has in a dtype, and what it gives if nothing is rounded."""
    own, call = widened(model(name, dtype), FAMILIES[name].call(dtype))
    with Exactly():
        return own, scores(own, call)


def distance(given: torch.Tensor, right: torch.Tensor) -> float:
    """Relative error of a result."""
    return ((given.detach().cpu().double() - right).norm() / right.norm()).item()


@torch.no_grad()
@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_the_cpus(name):
    cpu, given = (scores(model(name, device=device), FAMILIES[name].call(), device) for device in ("cpu", DEVICE))
    torch.testing.assert_close(given.cpu(), cpu)


@torch.no_grad()
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", FAMILIES)
def test_logits_of_16_bits_are_as_good_as_the_cpus(name, dtype):
    call = FAMILIES[name].call(dtype)
    cpu, given = (scores(model(name, dtype, device), call, device) for device in ("cpu", DEVICE))
    _, right = exact(name, dtype)
    assert given.dtype == cpu.dtype
    assert distance(given, right) <= 2 * distance(cpu, right)


@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_are_as_good_as_the_cpus(name):
    compare_gradients(name, torch.float32)


@pytest.mark.skipif(not IS_LONG, reason="SPYRE_TEST_MODELS is not all")
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_of_16_bits_are_as_good_as_the_cpus(name, dtype):
    compare_gradients(name, dtype)


def compare_gradients(name: str, dtype: torch.dtype) -> None:
    own, logits = exact(name, dtype)
    right = gradients(own, logits)
    cpu, given = (gradients_on(device, name, dtype) for device in ("cpu", DEVICE))
    assert given.keys() == cpu.keys() == right.keys()
    everything = (torch.cat([grad[key].flatten().cpu().double() for key in right]) for grad in (given, cpu, right))
    given, cpu, right = everything
    assert distance(given, right) <= 2 * distance(cpu, right)


def gradients_on(device: str, name: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    own = copy.deepcopy(model(name, dtype)).to(device)
    return gradients(own, scores(own, FAMILIES[name].call(dtype), device))


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", GENERATES)
def test_generated_tokens_are_the_cpus(name, cache):
    expected, given = (generate(name, cache, device) for device in ("cpu", DEVICE))
    assert given.tolist() == expected.tolist()


def generate(name: str, cache: str, device: str) -> torch.Tensor:
    family = FAMILIES[name]
    call = {key: value.to(device) for key, value in family.call().items() if key != "decoder_input_ids"}
    settings = {**family.generation, "cache_implementation": cache} if family.has_static_cache else family.generation
    own = model(name, torch.float32, device)
    return own.generate(**call, do_sample=False, max_new_tokens=TOKENS, min_new_tokens=TOKENS, **settings).cpu()


# Compiled.

COMPILED = list(FAMILIES) if IS_LONG else ["llama", "bert", "vit", "t5"]


@needs_spyre
@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_model_has_the_scores_and_gradients_of_the_eager_one(name):
    """`python -m compiled.models` compiles all of them, in all dtypes."""
    torch._dynamo.reset()
    compiled_models.backward(name, torch.float32)


@needs_spyre
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_a_compiled_decoder_says_the_tokens_of_the_eager_one(name):
    torch._dynamo.reset()
    own = copy.deepcopy(model(name, device=DEVICE))
    call = {key: value.to(DEVICE) for key, value in FAMILIES[name].call().items()}
    settings = {"max_new_tokens": TOKENS, "do_sample": False}
    expected = own.generate(**call, **settings)
    own.forward = torch.compile(own.forward, mode="reduce-overhead", fullgraph=True)
    assert torch.equal(own.generate(**call, **settings, cache_implementation="static").cpu(), expected.cpu())
