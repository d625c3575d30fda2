"""Small models are trained on the card as well as they are on the CPU, and without it."""

from __future__ import annotations

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from conftest import needs_spyre

pytestmark = [needs_spyre, pytest.mark.usefixtures("no_fallback")]
STEPS = 200


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Work this small is done before a second thread is awake."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Letters(nn.Module):
    """A small GPT: which letter comes next?"""

    kinds, width, length, batch, rate = 32, 64, 16, 8, 3e-3

    class Block(nn.Module):
        """Attention, and what is done with each position."""

        def __init__(self, width):
            super().__init__()
            self.before_attention, self.before_rest = nn.LayerNorm(width), nn.LayerNorm(width)
            self.heads, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.rest = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            heads = self.heads(self.before_attention(x)).unflatten(-1, (3, 4, -1))
            query, key, value = heads.permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.joined(y.transpose(1, 2).flatten(2))
            return x + self.rest(self.before_rest(x))

    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(self.kinds, self.width), nn.Embedding(self.length, self.width)
        self.blocks = nn.Sequential(self.Block(self.width), self.Block(self.width))
        self.norm, self.next = nn.LayerNorm(self.width), nn.Linear(self.width, self.kinds)

    def forward(self, letters):
        places = torch.arange(letters.shape[1], device=letters.device)
        return self.next(self.norm(self.blocks(self.letters(letters) + self.places(places)))).flatten(0, 1)

    @classmethod
    def examples(cls, generator):
        """Letters that count up by one or two."""
        first = torch.randint(cls.kinds, (cls.batch, 1), generator=generator)
        steps = torch.randint(1, 3, (cls.batch, cls.length), generator=generator)
        letters = torch.cat([first, first + steps.cumsum(1)], 1) % cls.kinds
        return letters[:, :-1], letters[:, 1:].flatten()


class Pictures(nn.Module):
    """A small ResNet: which way do the stripes run?

    Its functions are smooth. At a corner, as ReLU and the largest of a window have, one rounding decides on a
    whole gradient: how far two runs are apart after 200 steps would be luck.
    """

    kinds, width, side, batch, rate = 4, 8, 8, 16, 1e-3

    class Block(nn.Module):
        """Two convolutions, and a way around them."""

        def __init__(self, channels, more, step):
            super().__init__()
            self.first, self.second = self.conv(channels, more, 3, step), self.conv(more, more, 3, 1)
            self.around = self.conv(channels, more, 1, step) if step > 1 else nn.Identity()

        @staticmethod
        def conv(channels, more, kernel, step):
            conv = nn.Conv2d(channels, more, kernel, step, kernel // 2, bias=False)
            return nn.Sequential(conv, nn.BatchNorm2d(more))

        def forward(self, x):
            return F.silu(self.second(F.silu(self.first(x))) + self.around(x))

    def __init__(self):
        super().__init__()
        width = self.width
        self.start = nn.Sequential(self.Block.conv(3, width, 3, 1), nn.SiLU(), nn.AvgPool2d(3, 1, 1))
        self.blocks = nn.Sequential(self.Block(width, width, 1), self.Block(width, 2 * width, 2))
        self.kind = nn.Linear(2 * width, self.kinds)

    def forward(self, pictures):
        return self.kind(F.adaptive_avg_pool2d(self.blocks(self.start(pictures)), 1).flatten(1))

    @classmethod
    def examples(cls, generator):
        """Noisy stripes in four directions; every eighth is said to run somewhere else."""
        kinds = torch.randint(cls.kinds, (cls.batch,), generator=generator)
        down, across = torch.tensor([[1, 0], [0, 1], [1, 1], [1, -1]])[kinds].double().unbind(1)
        along = torch.arange(cls.side).double()
        phase = down[:, None, None] * along[:, None] + across[:, None, None] * along
        noise = torch.randn(cls.batch, 3, cls.side, cls.side, generator=generator, dtype=torch.float64)
        kinds[::8] = (kinds[::8] + 1) % cls.kinds
        return (1.5 * phase[:, None]).cos() + noise, kinds


def losses(task, device, dtype=torch.float32, lower=None, **options):
    """The loss of each step."""
    torch.manual_seed(7)
    model, generator = task().to(device, dtype), torch.Generator().manual_seed(3)
    optimiser = torch.optim.AdamW(model.parameters(), lr=task.rate, **options)
    history = []
    for _ in range(STEPS):
        given, wanted = task.examples(generator)
        given = given.to(device, dtype if given.is_floating_point() else given.dtype)
        with torch.autocast(device, dtype=lower or torch.bfloat16, enabled=lower is not None):
            loss = F.cross_entropy(model(given), wanted.to(device))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        history.append(loss.detach())
    return torch.stack(history).cpu().double()


@functools.cache
def exact(task):
    return losses(task, "cpu", torch.float64)


@functools.cache
def host_error(task):
    return (losses(task, "cpu") - exact(task)).norm()


@pytest.mark.parametrize("form", ["foreach", "fused"])
@pytest.mark.parametrize("task", [Letters, Pictures])
def test_losses_are_as_near_to_the_exact_ones_as_the_cpus(task, form):
    on_card = losses(task, "spyre", **{form: True})
    assert exact(task)[-20:].mean() < exact(task)[:20].mean() / 2, "it learns"
    assert (on_card - exact(task)).norm() <= 2 * host_error(task)


@pytest.mark.parametrize("task", [Letters, Pictures])
def test_lower_precision_learns_as_much(task):
    on_card = losses(task, "spyre", lower=torch.bfloat16, fused=True)
    assert abs(on_card[-20:].mean() / exact(task)[-20:].mean() - 1) < 0.02
