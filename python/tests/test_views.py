"""Every view, write, copy and cast of a device tensor gives the CPU's bits."""

import itertools
import os
import re

import pytest
import torch

import children
from conftest import DEVICE, needs_spyre
from views import steps
from views.chains import Chain, first_difference, failure

OPEN_CHAINS = int(os.environ.get("SPYRE_VIEW_CHAINS", "10000"))
PROCESSES = 2


@pytest.mark.parametrize(
    ("profile", "cards", "chains"),
    [("open", 1, OPEN_CHAINS), ("open", 2, OPEN_CHAINS // 20), ("card", 1, OPEN_CHAINS // 4)],
)
def test_random_chains_are_exact(profile, cards, chains, tmp_path):
    share = chains // PROCESSES
    settings = {"SPYRE_PROFILE": profile, "AIU_WORLD_SIZE": str(cards)}
    under_way = []
    for number in range(PROCESSES):
        seeds = f"{number * share}:{(number + 1) * share}"
        note = tmp_path / f"seed-{number}"
        arguments = ["-m", "views.run", "--seeds", seeds, "--device", DEVICE, "--note", str(note)]
        under_way.append((children.start(arguments, **settings), note))

    exact = 0
    for child, note in under_way:
        code, output = children.finish(child, 900)
        assert code == 0, f"exit code {code}, last seed {note.read_text().strip()}\n{output}"
        exact += int(re.search(r"(\d+) of \d+ chains exact", output)[1])

    assert exact == share * PROCESSES
    print(f"{exact} chains exact ({profile}, {cards} card(s))")


def test_a_wrong_view_is_found_and_shrunk_to_a_few_steps(monkeypatch):
    """The proof's own proof: a device that loses the offset of a view cannot pass."""
    from views import chains

    right = steps.BY_NAME["slice_"]

    def wrong(host, draw):
        step = right(host, draw)
        if step is not None:
            run = step.run
            step.run = lambda side, t: run(side, t) if side.others is draw.others else lost(run(side, t))
        return step

    def lost(view):
        return view.as_strided(view.size(), view.stride(), 0)

    monkeypatch.setitem(steps.BY_NAME, "slice_", wrong)
    cpu = torch.device("cpu")
    failing = next(seed for seed in range(500) if failure(Chain.of(seed, False), cpu))
    shrunk = chains.shrink(Chain.of(failing, False), cpu)

    assert len(shrunk.steps) <= 2


@pytest.mark.parametrize("source", steps.ALL, ids=str)
def test_bits_seen_as_another_dtype_are_the_same_bits(source, device):
    bits = torch.arange(48 * 16, dtype=torch.int64).mul_(2654435761).view(torch.uint8)
    host = bits.view(source) if source != torch.bool else bits.remainder(2).view(torch.bool)
    host = host.reshape(48, -1)
    there = host.to(device)

    for target in steps.ALL:
        if target == torch.bool != source:
            continue
        for view in (lambda t: t, lambda t: t[3:7], lambda t: t[:, :16]):
            expected = view(host).view(target)
            assert first_difference(expected, view(there).view(target).cpu()) is None, target


@pytest.mark.parametrize("pair", list(itertools.product(steps.ALL, steps.ALL)), ids=str)
def test_a_cast_is_the_cpus_cast_in_every_direction(pair, device):
    source, target = pair
    host = torch.arange(100).remainder(50).to(source).reshape(4, 25)
    expected = host.to(target)

    assert first_difference(expected, host.to(device).to(target).cpu()) is None
    assert first_difference(expected, host.to(device, target).cpu()) is None
    assert first_difference(expected, host.to(device).to("cpu", target)) is None
    assert first_difference(expected, torch.empty_like(expected, device=device).copy_(host).cpu()) is None


def ulps_between(left, right):
    """Largest distance between elements of two positive tensors, in numbers of their dtype."""
    bits = {2: torch.int16, 4: torch.int32}[left.element_size()]
    left, right = (x.nan_to_num(0).view(bits).long() for x in (left, right))
    return (left - right).abs().max().item()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("low", ["-inf", "finfo.min"])
def test_masks_go_through_softmax_as_on_the_cpu(dtype, low, device):
    value = float("-inf") if low == "-inf" else torch.finfo(dtype).min
    scores = torch.randn(2, 4, 33, 65, generator=torch.Generator().manual_seed(1)).to(dtype)
    hidden = torch.ones(33, 65, dtype=torch.bool).triu(1)
    hidden[5] = True  # a row with nothing left: NaN for -inf, even shares for finfo.min

    def attention(scores, hidden):
        mask = torch.zeros(hidden.shape, dtype=scores.dtype, device=scores.device)
        mask = mask.masked_fill(hidden, value)
        return (scores + mask).softmax(-1), scores.masked_fill(hidden, value).softmax(-1)

    expected = attention(scores, hidden)
    given = attention(scores.to(device), hidden.to(device))

    for left, right in zip(expected, given):
        # Both sum in an order of their own: neither is the nearest number in every last bit.
        assert ulps_between(left, right.cpu()) <= (4 if dtype == torch.float32 else 1)
        # What is hidden has no share at all.
        assert torch.equal(right.cpu() == 0, left == 0)
        assert torch.equal(right.cpu().isnan(), left.isnan())
    assert bool(expected[0][0, 0, 5].isnan().all()) == (low == "-inf")


@pytest.mark.parametrize("dtype", steps.FLOATS, ids=str)
def test_infinities_and_nans_are_distinguished(dtype, device):
    low = torch.finfo(dtype)
    values = [0.0, -0.0, 1.0, float("inf"), float("-inf"), float("nan"), low.min, low.max, low.tiny]
    host = torch.tensor(values, dtype=dtype)
    there = host.to(device)

    for question in ("isinf", "isfinite", "isnan", "isposinf", "isneginf", "signbit"):
        expected = getattr(torch, question)(host)
        assert torch.equal(getattr(torch, question)(there).cpu(), expected), question
    assert first_difference(host, there.cpu()) is None


@needs_spyre
def test_the_card_refuses_bit_views_of_its_sixteen_bit_float():
    children.script(
        """
import torch
x = torch.ones(4, dtype=torch.float16, device="spyre")
try:
    x.view(torch.int16)
except RuntimeError as error:
    print(error)
else:
    raise SystemExit("not refused")
""",
        SPYRE_PROFILE="card",
    )
