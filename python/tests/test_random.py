"""Seeds and states of the device's generators, and random operations that use them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from contextlib import nullcontext

import pytest
import torch

from torch_spyre.ops.fallbacks import fallback_stats

DEVICE = torch.device("spyre:0")


@pytest.fixture(autouse=True)
def a_known_seed():
    torch.manual_seed(1234)


def draw(**kwargs):
    return torch.rand(8, device="spyre", **kwargs).cpu()


def test_a_seed_gives_the_same_numbers_again():
    torch.spyre.manual_seed(7)
    first, second = draw(), draw()
    torch.spyre.manual_seed(7)

    assert torch.equal(draw(), first)
    assert torch.equal(draw(), second)
    assert not torch.equal(first, second)
    torch.spyre.manual_seed(8)
    assert not torch.equal(draw(), first)
    assert torch.spyre.initial_seed() == 8


def test_pytorchs_seed_seeds_the_device():
    torch.manual_seed(99)
    first = draw()

    assert torch.spyre.initial_seed() == 99
    torch.manual_seed(99)
    assert torch.equal(draw(), first)


def test_the_devices_numbers_are_not_the_hosts():
    torch.manual_seed(5)
    host = torch.get_rng_state()
    draw()
    assert torch.equal(torch.get_rng_state(), host), "drawing on the device leaves the host's generator alone"


@pytest.mark.parametrize("device", ["spyre", "spyre:0", 0, DEVICE])
def test_states_are_kept_and_given_back(device):
    draw()
    state = torch.spyre.get_rng_state(device)
    assert (state.dtype, state.device.type) == (torch.uint8, "cpu")
    first = draw()

    torch.spyre.set_rng_state(state, device)
    assert torch.equal(draw(), first)
    assert torch.spyre.initial_seed(device) == 1234


def test_all_states():
    states = torch.spyre.get_rng_state_all()
    assert len(states) == torch.spyre.device_count() == len(torch.spyre.default_generators)
    first = draw()

    torch.spyre.set_rng_state_all(states)
    assert torch.equal(draw(), first)


def test_a_bad_state_is_refused():
    with pytest.raises(RuntimeError):
        torch.spyre.set_rng_state(torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="out of range"):
        torch.spyre.get_rng_state(9)


def test_seeds_of_chance_differ():
    seeds = set()
    for _ in range(5):
        torch.spyre.seed()
        seeds.add(torch.spyre.initial_seed())
    torch.spyre.seed_all()
    seeds.add(torch.spyre.initial_seed())

    assert len(seeds) == 6


def test_default_generators():
    generator = torch.spyre.default_generators[0]

    assert generator is torch.spyre.default_generators[-1]
    assert generator.device == DEVICE
    generator.manual_seed(3)
    assert torch.spyre.initial_seed() == 3
    assert len(list(torch.spyre.default_generators)) == torch.spyre.device_count()
    with pytest.raises(IndexError, match="there is no device 8"):
        torch.spyre.default_generators[8]


def test_generators_of_ones_own():
    mine = torch.Generator(device="spyre").manual_seed(11)
    state = mine.get_state()
    default = torch.spyre.get_rng_state()
    first = draw(generator=mine)

    assert torch.equal(torch.spyre.get_rng_state(), default), "the default one is untouched"
    assert mine.initial_seed() == 11
    assert not torch.equal(draw(generator=mine), first)
    mine.set_state(state)
    assert torch.equal(draw(generator=mine), first)
    same = torch.Generator(device="spyre:0").manual_seed(11)
    assert torch.equal(draw(generator=same), first)
    assert torch.equal(draw(generator=mine.clone_state()), draw(generator=mine))


# What draws, on a device and with a generator.
DRAWS = {
    "rand": lambda device, g: torch.rand(5, 33, generator=g, device=device),
    "randn": lambda device, g: torch.randn(5, 33, generator=g, device=device),
    "randn of few": lambda device, g: torch.randn(7, generator=g, device=device),
    "randn float16": lambda device, g: torch.randn(40, dtype=torch.float16, generator=g, device=device),
    "randn transposed": lambda device, g: torch.empty(5, 33, device=device).t().normal_(generator=g),
    "randn of a slice": lambda device, g: torch.zeros(9, 70, device=device)[1::2, 3:50].normal_(2, 3, generator=g),
    "randint": lambda device, g: torch.randint(-9, 1000, (64,), generator=g, device=device),
    "randperm": lambda device, g: torch.randperm(77, generator=g, device=device),
    "rand_like": lambda device, g: torch.rand_like(torch.ones(40, device=device), generator=g),
    "random_": lambda device, g: torch.empty(64, dtype=torch.int32, device=device).random_(generator=g),
    "random_ to": lambda device, g: torch.empty(64, device=device).random_(50, generator=g),
    "random_ from": lambda device, g: torch.empty(64, dtype=torch.uint8, device=device).random_(3, 90, generator=g),
    "uniform_": lambda device, g: torch.empty(3, 50, device=device).uniform_(-4, 9, generator=g),
    "exponential_": lambda device, g: torch.empty(64, device=device).exponential_(2, generator=g),
    "geometric_": lambda device, g: torch.empty(64, device=device).geometric_(0.3, generator=g),
    "cauchy_": lambda device, g: torch.empty(64, device=device).cauchy_(generator=g),
    "log_normal_": lambda device, g: torch.empty(64, device=device).log_normal_(generator=g),
    "bernoulli_": lambda device, g: torch.empty(64, device=device).bernoulli_(0.4, generator=g),
    "bernoulli": lambda device, g: torch.bernoulli(torch.full((64,), 0.4, device=device), generator=g),
    "normal": lambda device, g: torch.normal(torch.arange(64.0).to(device), 2.0, generator=g),
    "poisson": lambda device, g: torch.poisson(torch.full((64,), 3.0, device=device), generator=g),
    "multinomial": lambda device, g: torch.multinomial(torch.arange(1.0, 9).to(device), 5, generator=g),
    "out": lambda device, g: torch.rand(40, generator=g, out=torch.empty(0, device=device)),
}


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("stream", ["default", "another"])
@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_of_the_host_gives_the_hosts_numbers(name, stream, no_fallback):
    make = DRAWS[name]
    ours, theirs = (torch.Generator().manual_seed(31) for _ in range(2))
    counted, default = fallback_stats(), torch.spyre.get_rng_state()
    with torch.spyre.Stream() if stream == "another" else nullcontext():
        for _ in range(2):
            drawn = make("spyre", ours)
            assert drawn.device.type == "spyre"
            assert torch.equal(drawn.cpu(), make("cpu", theirs))
    assert torch.equal(ours.get_state(), theirs.get_state()), "it has moved on as on the CPU"
    assert torch.equal(torch.spyre.get_rng_state(), default), "the device's own has not"
    assert fallback_stats() == counted, "the CPU was asked for"


def test_a_generator_of_no_device_here_is_refused():
    with pytest.raises(RuntimeError, match="(?i)generator"):
        torch.rand(3, device="cpu", generator=torch.Generator(device="spyre"))


def test_offsets():
    mine = torch.Generator(device="spyre").manual_seed(4)
    mine.set_offset(64)
    assert mine.get_offset() == 64
    first = draw(generator=mine)
    assert mine.get_offset() > 64

    mine.set_offset(64)
    assert torch.equal(draw(generator=mine), first)
    torch.spyre._set_rng_state_offset(128)
    assert torch.spyre._get_rng_state_offset() == 128


def test_forks_of_the_state():
    torch.manual_seed(21)
    with torch.random.fork_rng(devices=[0], device_type="spyre"):
        inside = draw()
        torch.manual_seed(22)
    assert torch.spyre.initial_seed() == 21
    assert torch.equal(draw(), inside)
    with torch.random.fork_rng(device_type="spyre"):
        draw()


@pytest.mark.parametrize(
    "operation",
    [
        lambda: torch.randn(64, device="spyre"),
        lambda: torch.randint(0, 100, (64,), device="spyre"),
        lambda: torch.randperm(64, device="spyre"),
        lambda: torch.empty(64, device="spyre").uniform_(),
        lambda: torch.empty(64, device="spyre").normal_(),
        lambda: torch.empty(64, device="spyre").exponential_(),
        lambda: torch.full((64,), 0.5, device="spyre").bernoulli(),
        lambda: torch.multinomial(torch.ones(64, device="spyre"), 64),
        lambda: torch.nn.functional.dropout(torch.ones(64, device="spyre")),
        lambda: torch.rand_like(torch.ones(64, device="spyre")),
    ],
    ids="randn randint randperm uniform_ normal_ exponential_ bernoulli multinomial dropout rand_like".split(),
)
def test_random_operations_follow_the_devices_seed(operation):
    host = torch.get_rng_state()
    torch.spyre.manual_seed(5)
    first, second = operation(), operation()
    torch.spyre.manual_seed(5)
    again = operation()

    assert first.device == DEVICE
    assert torch.equal(again.cpu(), first.cpu())
    assert not torch.equal(second.cpu(), first.cpu())
    assert torch.equal(torch.get_rng_state(), host)


def test_numbers_look_as_they_should():
    x = torch.rand(100_000, device="spyre").cpu()
    assert 0 <= x.min() and x.max() < 1
    assert abs(x.mean() - 0.5) < 0.01 and abs(x.var() - 1 / 12) < 0.01
    y = torch.randn(100_000, device="spyre").cpu()
    assert abs(y.mean()) < 0.02 and abs(y.std() - 1) < 0.02


def test_seeds_start_nothing():
    code = """
        import torch
        torch.manual_seed(3); torch.spyre.manual_seed(4); torch.spyre.manual_seed_all(5)
        assert torch.spyre.initial_seed() == 5
        assert not torch.spyre.is_initialized()
        a = torch.rand(4, device="spyre").cpu()
        torch.spyre.manual_seed(5)
        print(torch.equal(torch.rand(4, device="spyre").cpu(), a))
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == "True", run.stderr


def test_states_under_fake_tensors_are_real(python):
    """LocalTensorMode asks for the state in a mode of fake tensors; what it gets must have memory."""
    code = """
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            state = torch.spyre.get_rng_state()
            torch.spyre.set_rng_state(state)
        print(type(state).__name__, state.numel())
    """
    assert python(code).stdout.split() == ["Tensor", "16"]
