"""float16 training with a scaler of gradients under the card's profile, which has no float64."""

from __future__ import annotations

import children
from conftest import needs_spyre

pytestmark = needs_spyre

PREAMBLE = """
import math, torch
from torch import nn
def loss_of(model, device):
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(1)).to(device)
    return model(x).float().square().mean()
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
"""


def card(text: str, **settings: str) -> str:
    return children.script(PREAMBLE + text, SPYRE_PROFILE="card", **settings)


def test_steps_are_those_of_float32_and_the_host_is_counted():
    card(
        """
import warnings
model, expected = net().to("spyre"), net()
optimizer, plain = (torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (model, expected))
scaler = torch.amp.GradScaler("spyre")
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for step in range(5):
        with torch.autocast("spyre", dtype=torch.float16):
            loss = loss_of(model, "spyre")
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if step % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1e3)
        scaler.step(optimizer)
        scaler.update()
        plain.zero_grad()
        loss_of(expected, "cpu").backward()
        plain.step()
assert scaler.get_scale() == 65536.0 and scaler._scale.device.type == "spyre", scaler._scale
for ours, theirs in zip(model.parameters(), expected.parameters()):
    torch.testing.assert_close(ours.cpu(), theirs, rtol=2e-2, atol=5e-3)
assert torch.spyre.fallback_stats()["GradScaler.unscale_"] == 5
assert sum("GradScaler.unscale_ is falling back" in str(w.message) for w in said) == 1
"""
    )


def test_a_step_that_overflows_is_skipped_and_the_scale_halved():
    card(
        """
model = nn.Linear(4, 2).to("spyre")
before = [p.detach().cpu() for p in model.parameters()]
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
scaler = torch.amp.GradScaler("spyre", init_scale=1024.0)
for factor, scale in ((math.inf, 512.0), (1.0, 512.0)):
    optimizer.zero_grad()
    with torch.autocast("spyre", dtype=torch.float16):
        loss = (model(torch.ones(3, 4, device="spyre")).float() * factor).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == scale
    is_same = [torch.equal(old, new.cpu()) for old, new in zip(before, model.parameters())]
    assert is_same == [math.isinf(factor)] * 2
state = scaler.state_dict()
assert state["scale"] == 512.0
""",
        SPYRE_FALLBACK="silent",
    )


def test_where_the_host_may_not_help_it_is_refused_by_name():
    card(
        """
parameter = nn.Parameter(torch.ones(2, device="spyre"))
optimizer = torch.optim.SGD([parameter], lr=1.0)
scaler = torch.amp.GradScaler("spyre")
scaler.scale(parameter.sum()).backward()
try:
    scaler.step(optimizer)
    raise SystemExit("it stepped")
except NotImplementedError as error:
    assert "GradScaler.unscale_" in str(error) and "SPYRE_FALLBACK=error" in str(error)
assert scaler._scale.device.type == "spyre"
""",
        SPYRE_FALLBACK="error",
    )
