"""Random ops on the card: Philox, without the CPU, and with the distributions that they say."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch_spyre.ops.fallbacks import set_fallback_mode

from conftest import needs_spyre

pytestmark = needs_spyre
COUNT = 40_000
# Means of so many numbers stray by five deviations about once in two million tests; the seed is fixed.
SIGMAS = 5


@pytest.fixture(autouse=True)
def seeded(no_fallback):
    torch.manual_seed(1234)


def filled(name, *parameters, dtype=torch.float32, **others):
    tensor = torch.empty(COUNT, device="spyre", dtype=dtype)
    return getattr(tensor, name)(*parameters, **others).cpu().double()


def full(value):
    return torch.full((COUNT,), value, device="spyre")


# What is drawn, its mean and its variance.
MOMENTS = {
    "uniform": (lambda: filled("uniform_"), 0.5, 1 / 12),
    "uniform in a range": (lambda: filled("uniform_", -3, 5), 1, 64 / 12),
    "uniform in half": (lambda: filled("uniform_", dtype=torch.float16), 0.5 - 2**-12, 1 / 12),
    "uniform in bfloat16": (lambda: filled("uniform_", dtype=torch.bfloat16), 0.5 - 2**-9, 1 / 12),
    "uniform in double": (lambda: filled("uniform_", dtype=torch.float64), 0.5, 1 / 12),
    "normal": (lambda: filled("normal_"), 0, 1),
    "normal, moved": (lambda: filled("normal_", 3, 0.5), 3, 0.25),
    "normal in double": (lambda: filled("normal_", dtype=torch.float64), 0, 1),
    "exponential": (lambda: filled("exponential_", 2), 0.5, 0.25),
    "log_normal": (lambda: filled("log_normal_", 0, 0.25), math.exp(1 / 32), math.exp(1 / 16) * math.expm1(1 / 16)),
    "geometric": (lambda: filled("geometric_", 0.3), 1 / 0.3, 0.7 / 0.09),
    "geometric in whole": (lambda: filled("geometric_", 0.3, dtype=torch.int64), 1 / 0.3, 0.7 / 0.09),
    "bernoulli": (lambda: filled("bernoulli_", 0.3), 0.3, 0.21),
    "bernoulli of truth": (lambda: filled("bernoulli_", 0.3, dtype=torch.bool), 0.3, 0.21),
    "bernoulli of a tensor": (lambda: filled("bernoulli_", torch.full((1,), 0.3, device="spyre")), 0.3, 0.21),
    "bernoulli of itself": (lambda: full(0.3).bernoulli().cpu().double(), 0.3, 0.21),
    "random": (lambda: filled("random_", 10), 4.5, 99 / 12),
    "random in a range": (lambda: filled("random_", -5, 5, dtype=torch.int32), -0.5, 99 / 12),
    "random bytes": (lambda: filled("random_", dtype=torch.uint8), 127.5, (256**2 - 1) / 12),
    "random truth": (lambda: filled("random_", dtype=torch.bool), 0.5, 0.25),
    "random in half": (lambda: filled("random_", dtype=torch.float16), 1024, (2049**2 - 1) / 12),
    "randint": (lambda: torch.randint(3, 9, (COUNT,), device="spyre").cpu().double(), 5.5, 35 / 12),
    "normal of tensors": (lambda: torch.normal(full(2.0), full(3.0)).cpu().double(), 2, 9),
    "normal of a tensor": (lambda: torch.normal(full(2.0), 3.0).cpu().double(), 2, 9),
    "normal of deviations": (lambda: torch.normal(2.0, full(3.0)).cpu().double(), 2, 9),
    "normal of a shape": (lambda: torch.normal(2.0, 3.0, (COUNT,), device="spyre").cpu().double(), 2, 9),
    "randn_like": (lambda: torch.randn_like(torch.empty(COUNT, device="spyre")).cpu().double(), 0, 1),
    "dropout": (lambda: F.dropout(torch.ones(COUNT, device="spyre"), 0.2).cpu().double(), 1, 0.25),
}  # fmt: skip


@pytest.mark.parametrize("name", MOMENTS)
def test_means_and_variances_are_the_distributions(name):
    draw, mean, variance = MOMENTS[name]
    drawn = draw()

    assert abs(drawn.mean() - mean) < SIGMAS * math.sqrt(variance / COUNT)
    # The fourth moment of these distributions is at most about thirty times the square of the second.
    assert abs(drawn.var() - variance) < SIGMAS * variance * math.sqrt(30 / COUNT)


def test_cauchys_quartiles():
    quartiles = torch.quantile(filled("cauchy_", 2, 3), torch.tensor([0.25, 0.5, 0.75]).double())
    torch.testing.assert_close(quartiles, torch.tensor([-1.0, 2, 5]).double(), atol=0.2, rtol=0)


def test_normal_numbers_have_their_tails():
    drawn = filled("normal_")
    for limit in (1, 2, 3):
        share = math.erfc(limit / math.sqrt(2))
        assert abs((drawn.abs() > limit).double().mean() - share) < SIGMAS * math.sqrt(share / COUNT)
    halves = drawn.view(2, -1)
    assert abs((halves[0] * halves[1]).mean()) < SIGMAS / math.sqrt(COUNT / 2), "neighbours are independent"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_the_end_of_a_range_is_not_drawn(dtype):
    drawn = torch.empty(COUNT, device="spyre", dtype=dtype).uniform_(0.1, 0.3).cpu()
    assert drawn.min() >= torch.tensor(0.1, dtype=dtype) and drawn.max() < torch.tensor(0.3, dtype=dtype)
    assert filled("exponential_", dtype=dtype).min() > 0
    assert filled("random_", 7, dtype=dtype).unique().tolist() == list(range(7))


def test_all_bits_of_a_whole_number_are_drawn():
    drawn = torch.empty(COUNT, device="spyre", dtype=torch.int64).random_().cpu()
    assert drawn.min() >= 0
    for bit in range(63):
        assert abs((drawn >> bit & 1).double().mean() - 0.5) < SIGMAS * 0.5 / math.sqrt(COUNT), bit


@pytest.mark.parametrize("size", [(60, 70), (3, 4, 5, 70), (7,), ()], ids=str)
def test_numbers_do_not_depend_on_strides(size):
    turned = torch.empty(tuple(reversed(size)), device="spyre").permute(tuple(reversed(range(len(size)))))
    torch.spyre.manual_seed(3)
    expected = torch.empty(size, device="spyre").normal_().cpu()
    torch.spyre.manual_seed(3)
    assert torch.equal(turned.normal_().cpu(), expected)


def test_a_part_of_a_tensor_is_filled_alone():
    x = torch.zeros(6, 100, device="spyre")
    x[1:3, 5:70].uniform_(1, 2)
    host = x.cpu()
    assert (host[1:3, 5:70] >= 1).all()
    assert host.count_nonzero() == 2 * 65


@pytest.mark.parametrize("count", [0, 1, 2, 1000, 5000])
def test_permutations_have_each_number_once(count):
    order = torch.randperm(count, device="spyre")
    assert order.cpu().sort().values.tolist() == list(range(count))
    again = torch.randperm(count, device="spyre", dtype=torch.int32)
    assert count < 100 or not torch.equal(order.cpu(), again.cpu().long())


def test_all_permutations_are_as_likely():
    seen = {}
    for _ in range(600):
        order = tuple(torch.randperm(3, device="spyre").tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 6
    assert max(abs(times - 100) for times in seen.values()) < SIGMAS * 10


def test_dropout_is_its_mask():
    x = torch.randn(50, 70).to("spyre").requires_grad_()
    y, mask = torch.native_dropout(x, 0.25, True)
    y.sum().backward()

    kept = mask.cpu().float() / 0.75
    torch.testing.assert_close(y.detach().cpu(), x.detach().cpu() * kept)
    torch.testing.assert_close(x.grad.cpu(), kept)
    assert abs(mask.float().mean().item() - 0.75) < 0.04
    assert torch.equal(F.dropout(x, 0.25, training=False).detach().cpu(), x.detach().cpu())
    assert F.dropout(x, 1.0).detach().cpu().count_nonzero() == 0


WEIGHTS = torch.tensor([[1.0, 2, 3, 4], [0, 1, 0, 9]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_samples_come_as_often_as_their_weights_say(dtype):
    samples = torch.multinomial(WEIGHTS.to("spyre", dtype), 10_000, replacement=True).cpu()
    shares = torch.stack([row.bincount(minlength=4) for row in samples]) / 10_000
    torch.testing.assert_close(shares, WEIGHTS / 10, atol=0.025, rtol=0)
    assert shares[1, [0, 2]].count_nonzero() == 0


def test_samples_without_replacement_do_not_repeat():
    samples = torch.multinomial(WEIGHTS.to("spyre").expand(500, 2, 4).reshape(-1, 4)[::2], 3).cpu()
    assert all(len(set(row.tolist())) == 3 for row in samples)
    firsts = torch.multinomial(WEIGHTS[:1].to("spyre").expand(4000, 4), 1).cpu().flatten().bincount() / 4000
    torch.testing.assert_close(firsts, WEIGHTS[0] / 10, atol=0.04, rtol=0)


@pytest.mark.parametrize(
    ("weights", "why"),
    [([1.0, -1], "element < 0"), ([1.0, math.nan], "nan"), ([0.0, 0], "sum of probabilities <= 0")],
)
def test_weights_that_are_none_are_refused(weights, why):
    with pytest.raises(RuntimeError, match=why):
        torch.multinomial(torch.tensor(weights).to("spyre"), 1)


def test_each_call_moves_a_generator_on():
    mine = torch.Generator(device="spyre").manual_seed(7)
    offsets = [mine.get_offset()]
    for draw in (torch.rand, torch.randn):
        draw(3, device="spyre", generator=mine)
        offsets.append(mine.get_offset())
    torch.multinomial(WEIGHTS.to("spyre"), 9, replacement=True, generator=mine)
    offsets.append(mine.get_offset())
    assert offsets == sorted(set(offsets))


def test_bad_parameters_are_the_cpus_errors():
    set_fallback_mode("silent")
    x = torch.empty(3, device="spyre")
    with pytest.raises(RuntimeError, match="normal expects std >= 0.0"):
        x.normal_(0, -1)
    with pytest.raises(RuntimeError, match="uniform_ expects to return a .from, to. range"):
        x.uniform_(2, 1)
    with pytest.raises(RuntimeError, match="std >= 0.0"):
        torch.normal(x.zero_(), torch.full((3,), -1.0, device="spyre"))
