"""A small model is trained on the card as well as it is on the CPU, and without it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_spyre.ops.fallbacks import fallback_mode, set_fallback_mode

from conftest import needs_spyre

pytestmark = needs_spyre
LETTERS, WIDTH, LENGTH, BATCH, STEPS = 32, 64, 16, 8, 200


@pytest.fixture(autouse=True)
def no_fallback():
    mode = fallback_mode()
    set_fallback_mode("error")
    yield
    set_fallback_mode(mode)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Work this small is done before a second thread is awake."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Block(nn.Module):
    """Attention, and what is done with each position."""

    def __init__(self):
        super().__init__()
        self.before_attention, self.before_rest = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.heads, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.rest = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        heads = self.heads(self.before_attention(x)).unflatten(-1, (3, 4, WIDTH // 4))
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.joined(y.transpose(1, 2).flatten(2))
        return x + self.rest(self.before_rest(x))


class Model(nn.Module):
    """Which letter comes next?"""

    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.next = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, LETTERS)

    def forward(self, letters):
        places = torch.arange(letters.shape[1], device=letters.device)
        return self.next(self.norm(self.blocks(self.letters(letters) + self.places(places))))


def batches():
    """Letters that count up by one or two."""
    generator = torch.Generator().manual_seed(3)
    for _ in range(STEPS):
        first = torch.randint(LETTERS, (BATCH, 1), generator=generator)
        steps = torch.randint(1, 3, (BATCH, LENGTH), generator=generator)
        yield torch.cat([first, first + steps.cumsum(1)], 1) % LETTERS


def losses(device, dtype=torch.float32, lower=None, **options):
    """The loss of each step."""
    torch.manual_seed(7)
    model = Model().to(device, dtype)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, **options)
    told = []
    for batch in batches():
        batch = batch.to(device)
        with torch.autocast(device, dtype=lower or torch.bfloat16, enabled=lower is not None):
            logits = model(batch[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        told.append(loss.detach())
    return torch.stack(told).cpu().double()


@pytest.fixture(scope="module")
def exact():
    return losses("cpu", torch.float64)


@pytest.fixture(scope="module")
def host_error(exact):
    return (losses("cpu") - exact).norm()


@pytest.mark.parametrize("form", ["foreach", "fused"])
def test_losses_are_as_near_to_the_exact_ones_as_the_cpus(form, exact, host_error):
    on_card = losses("spyre", **{form: True})
    assert exact[-20:].mean() < exact[:20].mean() / 2, "it learns"
    assert (on_card - exact).norm() <= 2 * host_error


def test_lower_precision_learns_as_much(exact):
    on_card = losses("spyre", lower=torch.bfloat16, fused=True)
    assert abs(on_card[-20:].mean() / exact[-20:].mean() - 1) < 0.02
