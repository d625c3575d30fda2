"""Automatic mixed precision on the device, against the CPU's rules."""

from __future__ import annotations

import pytest
import torch
from torch import nn

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
W = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_are_of_lower_precision(dtype):
    x, w = X.to("spyre"), W.to("spyre")

    with torch.autocast("spyre", dtype=dtype):
        y = x @ w
        assert torch.is_autocast_enabled("spyre")
        assert torch.get_autocast_dtype("spyre") == dtype
    z = x @ w

    assert (y.dtype, y.device.type, z.dtype) == (dtype, "spyre", torch.float32)
    assert torch.allclose(y.float().cpu(), X @ W, rtol=2e-2, atol=2e-2)
    assert not torch.is_autocast_enabled("spyre")


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lambda x, w: torch.mm(x, w), torch.float16),
        (lambda x, w: torch.matmul(x, w), torch.float16),
        (lambda x, w: nn.functional.linear(x, w.t()), torch.float16),
        (lambda x, w: torch.addmm(torch.zeros(3, device="spyre"), x, w), torch.float16),
        (lambda x, w: torch.bmm(x[None], w[None]), torch.float16),
        (lambda x, w: nn.functional.conv1d(x[None], x[None].transpose(1, 2)[:, :4]), torch.float16),
        (lambda x, w: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]), torch.float16),
        (lambda x, w: torch.exp(x.half()), torch.float32),
        (lambda x, w: torch.log(x.half().abs() + 1), torch.float32),
        (lambda x, w: torch.pow(x.half(), 2), torch.float32),
        (lambda x, w: torch.softmax(x.half(), -1), torch.float32),
        (lambda x, w: nn.functional.layer_norm(x.half(), (8,)), torch.float32),
        (lambda x, w: nn.functional.mse_loss(x.half(), x.half()), torch.float32),
        (lambda x, w: torch.cat([x.half(), x]), torch.float32),
        (lambda x, w: torch.relu(x.half()), torch.float16),
    ],
    ids="mm matmul linear addmm bmm conv1d attention exp log pow softmax layer_norm mse_loss cat relu".split(),
)
def test_each_operation_has_its_precision(operation, expected):
    x, w = X.to("spyre"), W.to("spyre")

    with torch.autocast("spyre", dtype=torch.float16):
        assert operation(x, w).dtype == expected


def test_the_default_is_float16():
    assert torch.get_autocast_dtype("spyre") in torch.spyre.get_amp_supported_dtype()
    assert torch.spyre.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]


def test_other_dtypes_are_refused_with_a_warning():
    with pytest.warns(UserWarning, match="(?i)spyre.*dtype|dtype.*spyre"), torch.autocast("spyre", dtype=torch.float64):
        assert not torch.is_autocast_enabled("spyre")


def test_autocast_of_the_device_leaves_the_cpu_alone():
    with torch.autocast("spyre", dtype=torch.float16):
        assert (X @ W).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (X.to("spyre") @ W.to("spyre")).dtype == torch.float32


def test_it_nests_and_can_be_turned_off():
    x, w = X.to("spyre"), W.to("spyre")
    with torch.autocast("spyre", dtype=torch.float16):
        with torch.autocast("spyre", enabled=False):
            assert (x @ w).dtype == torch.float32
        assert (x @ w).dtype == torch.float16


def test_the_modules_own_names():
    with torch.spyre.amp.autocast(dtype=torch.bfloat16):
        assert (X.to("spyre") @ W.to("spyre")).dtype == torch.bfloat16
    assert isinstance(torch.spyre.amp.GradScaler(), torch.amp.GradScaler)


def test_training_with_a_scaler_moves_as_on_the_cpu():
    def train(device):
        torch.manual_seed(0)
        model = nn.Linear(8, 3).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(device, init_scale=8.0)
        for _ in range(3):
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = model(X.to(device)).float().square().mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return [p.detach().cpu() for p in model.parameters()]

    for ours, theirs in zip(train("spyre"), train("cpu")):
        assert torch.allclose(ours, theirs, atol=1e-2)


def test_a_scaler_skips_steps_that_overflow():
    parameter = nn.Parameter(torch.ones(2, device="spyre"))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("spyre", init_scale=4.0)
    scaler.scale((parameter * torch.tensor([1.0, float("inf")], device="spyre")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()

    assert parameter.tolist() == [1, 1]
    assert scaler.get_scale() == 2.0
